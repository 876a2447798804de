// Where the agents of a case's ranks come in: listens until each rank has joined, and not longer. Whoever shows no token, is no
// rank, or says something else is turned away by name; it can neither hold a place for long nor fill the memory.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <poll.h>
#include <string>
#include <vector>

#include "harness/run/join/link.h"
#include "harness/run/join/messages.h"
#include "harness/run/join/token.h"
#include "harness/run/processes/spawn_process.h"

namespace harness {

struct Joined {
  Join join;
  std::unique_ptr<Link> link;
};

class Door {
 public:
  // `sources`: of this program. Throws: nsa::Error.
  Door(const std::string& address, int port, Token token, int ranks, std::string sources);

  [[nodiscard]] int port() const { return listener_.port; }
  void add_to(std::vector<pollfd>& waited) const;
  // Takes in who came and what they said, and tells those that wait that somebody is here. Never waits.
  // Throws: nsa::Error where the launcher cannot mean this case: another number of ranks, or a rank that joined and is gone.
  void look();

  [[nodiscard]] bool complete() const { return static_cast<int>(joined_.size()) == ranks_; }
  [[nodiscard]] std::vector<int> missing() const;
  // Who was turned away and why, the first of them; and how many more.
  [[nodiscard]] const std::vector<std::string>& refused() const { return refused_; }
  [[nodiscard]] std::int64_t refused_unnamed() const { return refused_unnamed_; }
  // In the order of the ranks. Nobody listens afterwards. REQUIRES: complete().
  [[nodiscard]] std::vector<Joined> close();

 private:
  struct Stranger {
    std::unique_ptr<Link> link;
    std::int64_t since_ms = 0;
    bool done = false;  // joined, or turned away
  };

  void accept_all();
  void hear(Stranger& stranger);
  void on_line(Stranger& stranger, std::string_view line);
  void refuse(Stranger& stranger, const std::string& why);

  Listener listener_;
  Token token_;
  int ranks_;
  std::string sources_;
  std::vector<Stranger> strangers_;
  std::map<int, Joined> joined_;
  std::vector<std::string> refused_;
  std::int64_t refused_unnamed_ = 0;
};

}  // namespace harness
