// Does memory stay within bounds? It must not grow from step to step once a run has settled (the second half of its steps), and
// what the ranks take at their peak, together, must fit what the scenario says it requires.
#include <algorithm>
#include <cmath>
#include <optional>

#include "harness/checks/largest.h"
#include "harness/checks/least_squares.h"
#include "harness/checks/list.h"
#include "harness/checks/series.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

constexpr std::int64_t kFewestSteps = 50;
// Allocators round, cache and return: growth that would not add this share of what is resident over the whole run is theirs.
constexpr double kGrowthShare = 0.05;
// One large allocation is no leak: memory must grow in both halves of what is judged, each at this share of the pace at least.
constexpr double kPaceOfAPart = 0.25;
constexpr double kMib = 1024.0 * 1024.0;

std::string mib(double bytes) {
  return nsa::to_text(bytes / kMib, 3) + " MiB";
}

struct Settled {  // one rank's resident memory over the second half of the steps
  Line all;
  Line early;
  Line late;
};

Line line_of(const std::vector<double>& bytes, std::size_t from, std::size_t to) {
  std::vector<double> steps;
  std::vector<double> values;
  for (std::size_t i = from; i < to; ++i) {
    steps.push_back(static_cast<double>(i));
    values.push_back(bytes[i]);
  }
  return fit_line(steps, values);
}

class MemoryJudge {
 public:
  explicit MemoryJudge(const Evidence& evidence)
      : evidence_(evidence),
        steps_(evidence.the_case.scenario.training.steps),
        resident_(series_of(evidence, "rss_bytes")),
        peaks_(series_of(evidence, "rss_peak_bytes")) {}

  CheckResult judge() {
    if (steps_ < kFewestSteps) {
      result_.missing("found " + std::to_string(steps_) + " steps, wanted at least " +
                      std::to_string(kFewestSteps) + " to tell growth from settling");
    } else {
      for (const int rank : all_ranks(evidence_)) judge_growth(rank);
      if (!growing_.empty()) result_.found(growth());
      result_.measured("largest_growth_bytes_per_step", largest_.slope);
    }
    judge_peak();
    return result_.finish("resident memory grows by " + mib(largest_.slope) +
                          " a step at most, within what allocators do" + words_);
  }

 private:
  void judge_growth(int rank) {
    std::vector<double> bytes;
    for (std::int64_t step = steps_ / 2 + 1; step <= steps_; ++step) {
      const Sample* row = resident_.find({rank, step});
      if (row == nullptr || !(row->value > 0.0)) {
        result_.missing("the resident memory of " + process_name(rank) + ", step " +
                        std::to_string(step) + ended_early(evidence_, rank));
        return;
      }
      bytes.push_back(row->value);
    }
    const std::size_t half = bytes.size() / 2;
    const Settled seen{line_of(bytes, 0, bytes.size()),
                       line_of(bytes, 0, half),
                       line_of(bytes, half, bytes.size())};
    const bool first = !seen_any_;
    seen_any_ = true;
    if (first || seen.all.slope > largest_.slope) largest_ = seen.all;
    if (grows(seen)) growing_[rank] = seen.all;
  }

  [[nodiscard]] bool grows(const Settled& seen) const {
    const double over_the_run = seen.all.slope * static_cast<double>(steps_);
    const double pace = kPaceOfAPart * seen.all.slope;
    return seen.all.low > 0.0 && over_the_run > kGrowthShare * seen.all.mean &&
           seen.early.slope > pace && seen.late.slope > pace;
  }

  [[nodiscard]] Finding growth() const {
    Line worst;
    Finding finding;
    for (const auto& [rank, line] : growing_) {
      finding.site.ranks.push_back(rank);
      if (line.slope > worst.slope) worst = line;
    }
    finding.code = "MEM.BUDGET";
    finding.site.detail["growth_bytes_per_step"] = worst.slope;
    finding.site.detail["low"] = worst.low;
    finding.site.detail["high"] = worst.high;
    finding.statement = "resident memory of " + ranks_text(finding.site.ranks) + " grows by " +
                        mib(worst.slope) + " every step (" + mib(worst.low) + " to " +
                        mib(worst.high) + "), " + mib(worst.slope * static_cast<double>(steps_)) +
                        " over " + counted(steps_, "step");
    finding.ruled_out =
        "not the start: only the second half of the steps is judged; not one allocation: it grows "
        "throughout";
    finding.next_action =
        "look for what is kept from step to step: tensors with their graph (a loss without "
        "item()), lists of outputs, hooks that are added again";
    return finding;
  }

  void judge_peak() {
    const double limit = evidence_.the_case.scenario.requires_memory_gib * 1024.0 * kMib;
    if (!(limit > 0.0)) return;
    double sum = 0.0;
    for (const int rank : all_ranks(evidence_)) {
      double peak = 0.0;
      for (std::int64_t step = 1; step <= steps_; ++step) {
        const Sample* row = peaks_.find({rank, step});
        if (row != nullptr) raise_to(peak, row->value);
      }
      if (peak == 0.0) {
        result_.missing("the peak memory of " + process_name(rank) + ended_early(evidence_, rank));
        return;
      }
      sum += peak;
    }
    result_.measured("peak_bytes", sum, limit);
    words_ = "; at their peak the ranks take " + mib(sum) + " of " + mib(limit);
    if (sum <= limit) return;
    Finding finding;
    finding.code = "MEM.BUDGET";
    finding.site.detail["peak_bytes"] = Real(sum);
    finding.site.detail["limit_bytes"] = limit;
    finding.statement = "the ranks take " + mib(sum) + " at their peak, the scenario says that " +
                        mib(limit) + " are enough";
    finding.ruled_out = "not other processes: it is the ranks' own resident memory, summed";
    finding.next_action =
        "raise requires.memory_gib if the sizes need it (memory_scaling tells what they do)";
    result_.found(finding);
  }

  const Evidence& evidence_;
  std::int64_t steps_ = 0;
  Series resident_;
  Series peaks_;
  std::map<int, Line> growing_;
  Line largest_;
  bool seen_any_ = false;
  std::string words_;
  ResultBuilder result_;
};

}  // namespace

Check within_budget() {
  return {"within_budget",
          "memory does not grow from step to step, and its peak is within what is required",
          {"MEM.BUDGET"},
          [](const Evidence& evidence) { return MemoryJudge(evidence).judge(); }};
}

}  // namespace harness::checks
