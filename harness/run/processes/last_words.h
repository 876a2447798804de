// What the processes of a command printed, read for how its ranks ended and why. It is read once a life, when all of it is there.
#pragma once

#include <ios>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "harness/foreign/printed.h"
#include "harness/run/processes/command_tree.h"
#include "harness/run/supervision.h"

namespace harness {

class LastWords {
 public:
  // The two files of the record that the command prints to.
  LastWords(std::string out_path, std::string err_path)
      : printouts_{{std::move(out_path)}, {std::move(err_path)}} {}

  // Notes the files of the user's own that processes of `tree` print to instead: nohup, a redirect of a shell, a launcher with a
  // folder of logs. What is in them when they are found is not read. Also keeps the files of ranks that faulthandler writes to.
  void find(const CommandTree& tree, const std::map<int, Supervised>& ranks);
  // Reads all that came in this life.
  void read();
  [[nodiscard]] const Printed& printed() const { return printed_; }
  // Of threads only where nothing else was raised.
  [[nodiscard]] const std::vector<PrintedError>& errors() const {
    return printed_.errors.empty() ? printed_.of_threads : printed_.errors;
  }
  // Why ranks ended, as rows of theirs. `ranks`: with their ends, the launcher too. `blames`: an error of which nothing tells whose
  // it is, is said of one of them.
  void record(const std::map<int, Supervised>& ranks, bool blames, Supervision& to) const;
  void begin_life();  // what comes from here on is of other processes

 private:
  struct Printout {
    std::string path;
    std::set<int> ranks = {};  // that print to a file of the user's
    std::streamoff from =
        0;  // what was there when it was found, or in the lives before, is not read
  };
  using Errors = std::vector<const PrintedError*>;

  [[nodiscard]] bool is_of_record(const std::string& path) const {
    return path == printouts_[0].path || path == printouts_[1].path;
  }
  static void record_of_threads(const Printed& printed,
                                const std::map<int, Supervised>& ranks,
                                Supervision& to);
  // Gives those that no rank is named for.
  static Errors record_of_named(const std::vector<PrintedError>& errors,
                                const std::map<int, Supervised>& ranks,
                                std::set<int>& told,
                                Supervision& to);
  void record_lines(const std::vector<int>& unexplained,
                    const std::map<int, Supervised>& ranks,
                    bool alike_ends,
                    Supervision& to) const;
  void record_signals(const std::map<int, Supervised>& ranks, Supervision& to) const;

  struct Stacks {
    pid_t pid = 0;
    Fd file;  // stacks_file_of(pid)
  };

  std::map<int, Stacks> stacks_;     // of ranks
  std::vector<Printout> printouts_;  // the first two are of the record
  Printed printed_;
  std::map<int, std::string> last_lines_;  // of ranks with a file of their own
};

}  // namespace harness
