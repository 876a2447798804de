// What decides whether a commit is good: the exit code of a command, or how long it takes beside the good commit.
#pragma once

#include <memory>
#include <string>

#include "harness/history/commits.h"

namespace harness::cli {

struct TestedCommit {
  history::CommitAnswer answer = history::CommitAnswer::unknown;
  std::string because;  // what was seen, for people; "" where the answer says it all
};

class CommitTest {
 public:
  virtual ~CommitTest() = default;
  // `folder`: of the built commit.
  [[nodiscard]] virtual TestedCommit ask(const std::string& folder) = 0;
};

// Exit code 0 is good, 1 is bad, anything else is UNKNOWN. What the command prints is in test.log beside the folder.
[[nodiscard]] std::unique_ptr<CommitTest> exit_code_test(std::string line);

// `line` runs timed cases and records them in the database that NSA_HARNESS_DB names, as `./nsa-harness run` does. It is launched
// in the folder of the good commit and in that of the asked one, in turn. The first commit asked must be the bad one: the cell that
// became slower there is the one that is followed. A commit is bad where its step took longer by more than half of the bad commit's
// slowdown, good where by less; where the interval of the pairs holds that border, more pairs are made, and then it is UNKNOWN.
// What is launched leaves its databases, runs and log in `slower/` beside the folder.
[[nodiscard]] std::unique_ptr<CommitTest> slower_test(std::string good_folder, std::string line);

}  // namespace harness::cli
