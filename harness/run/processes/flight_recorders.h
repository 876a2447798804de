// The flight recorders of a command's ranks (evidence/flight.h): switches them on by the environment, asks the ranks for dumps
// while the command is silent, and reads what they write. A rank is asked through a named pipe that PyTorch makes where it uses
// NCCL, and a thread of PyTorch answers: the training goes on, and so a rank that spins in the driver answers too.
//
// Two dumps some seconds apart tell which ranks cannot go on without their peers. Never waits.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/evidence/flight.h"

namespace harness {

class FlightRecorders {
 public:
  // Makes the folder `flight` in the case's. Throws: nothing; where that fails nobody is asked.
  explicit FlightRecorders(const std::string& case_folder);

  // NAME=value of what the user's `environment` does not say itself. If it says where dumps go, they are left to the user.
  // `torch`: the version that reads them, "" if it is not known; 2.11 warns of the older name of the size and no longer needs it.
  [[nodiscard]] std::vector<std::string> variables(const std::vector<std::string>& environment,
                                                   const std::string& torch = "");

  // Whether dumps are wanted: no; the command is silent; its ranks seem to be stalled as well, so that it is worth asking at once.
  enum class Wanted { no, silent, stalled };
  // One round of the loop. True when a round of dumps has ended. `all`: the live ones and those that have ended.
  bool step(const std::set<int>& live,
            const std::set<int>& all,
            Wanted wanted,
            std::int64_t now_ms);
  // Asks once more, at once; done() when all answers are there or are not to come.
  void ask_at_last(const std::set<int>& ranks, std::int64_t now_ms);
  [[nodiscard]] bool done() const { return awaited_.empty(); }
  // A question is open, or was a moment ago.
  [[nodiscard]] bool asked_lately(std::int64_t now_ms) const;

  [[nodiscard]] const std::set<int>& held() const { return held_; }
  // These, and those that their newest dump alone shows waiting for what will not come: their next one may show something else.
  [[nodiscard]] const std::set<int>& waiting() const { return waiting_; }
  // Ranks issued different collectives: what waits for one of them will not come to an end.
  [[nodiscard]] bool departed() const { return departed_; }

  // The last two dumps of each rank, the older ones first; also what a rank wrote without being asked.
  [[nodiscard]] std::vector<FlightDumps> newest(const std::set<int>& ranks);
  // The ranks are gone, and others have their numbers: what these wrote counts no more.
  void forget(const std::set<int>& ranks);
  // Why the newest dump of a rank could not be read, of those where it could not.
  [[nodiscard]] const std::map<int, std::string>& unread() const { return unread_; }

 private:
  struct Stamp {
    std::int64_t changed_ns = 0;
    std::int64_t bytes = 0;
    bool operator==(const Stamp&) const = default;
  };

  [[nodiscard]] std::string file_of(int rank) const;
  [[nodiscard]] static Stamp stamp_of(const std::string& path);
  void ask(const std::set<int>& ranks, std::int64_t now_ms);
  bool read_one(int rank);
  [[nodiscard]] bool is_due(Wanted wanted, std::int64_t now_ms);
  void forget();
  void end_round(const std::set<int>& live, const std::set<int>& all, std::int64_t now_ms);

  std::string folder_;  // "": nobody is asked
  std::set<int> awaited_;
  std::set<int> answered_;     // in this round
  std::map<int, Stamp> read_;  // of the file when it was read last
  std::map<int, std::string> unread_;
  FlightDumps before_;
  FlightDumps after_;
  std::set<int> held_;
  std::set<int> waiting_;
  bool departed_ = false;
  std::int64_t asked_ms_ = 0;
  std::int64_t answered_ms_ = -1;  // the last round; -1: none yet
  std::int64_t next_ms_ = 0;
  std::int64_t apart_ms_ = 0;
  std::int64_t next_stalled_ms_ = 0;
  bool hurried_ = false;  // the last question came sooner than that
};

}  // namespace harness
