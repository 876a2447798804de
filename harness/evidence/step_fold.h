// Keeps the record of a long training of the user's own small: steps in which all ranks did the same, and held the same wherever
// they must, become one row (Stretch). All else stays as it was told: steps that depart in anything, those recorded tensor by
// tensor, each step before such a one, the last ones, and the steps in which the controller took a look. Checks say the same of a
// record with and without folded steps (tests/checks/step_fold_test.cpp), but that a rank of which nothing was known is missed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "harness/evidence/event.h"

namespace harness {

// Stretch::losses, by step. What is no number is NaN.
[[nodiscard]] std::map<std::int64_t, double> losses_of(const Stretch& stretch);

class StepFold {
 public:
  struct Limits {
    std::int64_t last =
        64;  // steps that stay as they are, counted from the last one that all ranks have told
    std::int64_t ahead =
        1'024;  // steps that one rank may be ahead of another, before they are kept as they are
  };
  struct Folded {
    std::vector<Event> settled;    // of the record from now on
    std::vector<Event> open;       // to be given again with what comes next
    std::optional<Event> stretch;  // what is folded and not settled yet: it may become longer
  };

  StepFold() = default;
  explicit StepFold(const Limits& limits) : limits_(limits) {}

  // `events`: what `open` gave the time before, and all that came since. REQUIRES: they were checked (check_row), in the order in
  // which they came. `ends`: nothing comes after, and nothing stays open.
  [[nodiscard]] Folded fold(std::vector<Event> events, bool ends);

 private:
  struct OfRank;
  struct Step;
  struct Given;
  struct Times;
  using CollectiveKey = std::tuple<int, std::string, std::int64_t>;  // rank, group, sequence

  void hear(const Event& event);
  [[nodiscard]] std::int64_t told_by_all() const;
  [[nodiscard]] static std::map<int, StepDigest> digests_of(const Step& step);
  [[nodiscard]] bool says_nothing_new(const Event& event, const Times& times);
  [[nodiscard]] bool may_fold(std::int64_t number, const Given& given) const;
  [[nodiscard]] bool is_alike(std::int64_t number, const Given& given) const;
  [[nodiscard]] static bool holds_alike(const Step& step, const std::map<int, StepDigest>& before);
  [[nodiscard]] bool issues_alike(const Step& step, const Given& given) const;
  [[nodiscard]] bool was_looked_at(const Step& step, const Step& next) const;
  [[nodiscard]] bool continues(std::int64_t number, const Step& step) const;
  void add(std::int64_t number, const Step& step, const Step& next);
  void close(std::vector<Event>& settled);
  [[nodiscard]] Event row() const;

  Limits limits_;
  std::set<int> ranks_;                          // that were started
  std::map<std::string, std::set<int>> groups_;  // who issues collectives in each
  std::map<int, std::int64_t> newest_;           // step of a rank's digest
  std::set<std::int64_t> looks_ms_;              // of the controller
  std::map<std::pair<int, std::string>, std::int64_t>
      longest_gap_ms_;                // by rank and phase, that a heartbeat has told
  std::int64_t decided_ = 0;          // the last step that is folded or kept
  std::map<int, StepDigest> before_;  // of that step
  // Some ranks had made more reductions than others up to the end of some step: which steps go together is known at the end alone
  // (paired_steps.h).
  bool parted_ = false;
  std::optional<Stretch> stretch_;  // that may become longer
  std::int64_t stretch_ms_ = 0;     // when its last step began
};

}  // namespace harness
