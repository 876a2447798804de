#include "harness/bundle/shrink.h"

#include <algorithm>
#include <set>

#include "harness/scenario/case_json.h"

namespace harness {
namespace {

// lowest, ..., value/4, value/2: ascending, each once.
std::vector<std::int64_t> ladder(std::int64_t value, std::int64_t lowest) {
  std::vector<std::int64_t> steps;
  for (std::int64_t step = value / 2; step > lowest; step /= 2) steps.push_back(step);
  if (lowest < value) steps.push_back(lowest);
  std::reverse(steps.begin(), steps.end());
  return steps;
}

class Search {
 public:
  Search(const Case& start,
         const std::function<bool(const Case&)>& is_valid,
         const std::function<TryResult(const Case&)>& attempt)
      : is_valid_(is_valid), attempt_(attempt) {
    found_.smallest = start;
    known_.insert(start.id);
    for (const auto& [name, value] : sizes_of(start.scenario)) heeded_.insert(name);
  }

  Shrunk run() {
    (void)accept(with_lowest_counts());
    for (bool smaller = true; smaller && !found_.stopped;) {
      smaller = false;
      for (const CaseSize& size : all_sizes()) {
        if (heeded_.contains(size.name) && lower(size)) smaller = true;
      }
    }
    return std::move(found_);
  }

 private:
  [[nodiscard]] const Scenario& now() const { return found_.smallest.scenario; }

  [[nodiscard]] Scenario with_lowest_counts() const {
    Scenario scenario = now();
    for (const CaseSize& size : all_sizes()) {
      const bool shrinks = size.is_count && heeded_.contains(size.name);
      if (shrinks && size.of(scenario) > size.lowest) size.make(scenario, size.lowest);
    }
    return scenario;
  }

  [[nodiscard]] bool accept_size(const CaseSize& size, std::int64_t value) {
    Scenario scenario = now();
    size.make(scenario, value);
    return accept(std::move(scenario));
  }

  // The lowest value that fails alike: where one does, larger ones are taken to do so as well.
  bool lower(const CaseSize& size) {
    const std::vector<std::int64_t> steps = ladder(size.of(now()), size.lowest);
    if (steps.empty()) return false;
    if (accept_size(size, steps.front())) return true;
    bool smaller = false;
    std::size_t low = 1;  // every step below it was seen to be too small
    for (std::size_t high = steps.size(); low < high;) {
      const std::size_t middle = low + (high - low) / 2;
      if (accept_size(size, steps[middle])) {
        smaller = true;
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return smaller;
  }

  bool accept(Scenario scenario) {
    if (found_.stopped) return false;
    Case smaller = found_.smallest;
    smaller.scenario = std::move(scenario);
    smaller.id = case_id(smaller);
    if (!known_.insert(smaller.id).second || !is_valid_(smaller)) return false;
    const TryResult result = attempt_(smaller);
    if (!result.go_on) {
      found_.stopped = true;
      return false;
    }
    found_.tries.push_back(
        {size_changes(sizes_of(now()), sizes_of(smaller.scenario)), result.saw, result.alike});
    if (result.alike) found_.smallest = std::move(smaller);
    return result.alike;
  }

  const std::function<bool(const Case&)>& is_valid_;
  const std::function<TryResult(const Case&)>& attempt_;
  Shrunk found_;
  std::set<std::string> known_;   // ids
  std::set<std::string> heeded_;  // names of sizes
};

}  // namespace

Shrunk shrink(const Case& start,
              const std::function<bool(const Case&)>& is_valid,
              const std::function<TryResult(const Case&)>& attempt) {
  return Search(start, is_valid, attempt).run();
}

}  // namespace harness
