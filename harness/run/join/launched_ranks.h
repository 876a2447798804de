// The ranks of one life of a case, started by a launcher: listens, starts the launcher with an agent as its command, lets the
// agents in, has each start its rank. What is wrong before the ranks run is an error that names it; afterwards it is evidence.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/run/join/door.h"
#include "harness/run/join/joined_process.h"
#include "harness/run/join/launcher.h"
#include "harness/run/runner.h"

namespace harness {

class LaunchedRanks {
 public:
  // options.folder, that of the case, is one that all hosts share.
  // Throws: nsa::Error.
  LaunchedRanks(const RunnerOptions& options, int ranks, bool on_cards, std::uint64_t mark);

  // Waits until every rank has joined; false: the user wants to stop. Throws: nsa::Error naming what is missing.
  [[nodiscard]] bool gather();
  // What there is to tell of them, as facts.
  [[nodiscard]] std::vector<Fact> facts() const;
  // Starts them, in the order of `requests`. `origin_ms`: monotonic_ms() here when the case began. REQUIRES: gather().
  // Throws: nsa::Error.
  [[nodiscard]] std::vector<std::unique_ptr<WatchedProcess>> start(
      const std::vector<ProcessRequest>& requests, std::int64_t origin_ms);

  // Once all ranks have ended: waits for the launcher, not for long where an agent was lost that may never end. A fact where the
  // launcher ended badly by itself.
  [[nodiscard]] std::optional<Fact> finish(bool lost_one);

 private:
  [[nodiscard]] bool interrupted() const;
  [[nodiscard]] std::string told_by_launcher() const;
  void refuse_to_wait(std::int64_t until_ms) const;
  void refuse_cards_elsewhere() const;
  void probe(const std::string& path, const std::string& rank, std::int64_t until_ms) const;

  const RunnerOptions& options_;
  bool on_cards_;
  Token token_;
  Door door_;
  std::string out_path_;
  std::string err_path_;
  std::shared_ptr<Launcher> launcher_;
  std::vector<Joined> joined_;
};

}  // namespace harness
