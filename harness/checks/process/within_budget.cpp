// Does memory stay within bounds? It must not grow from step to step once a run has settled (the second half of its steps), and
// what the ranks take at their peak, together, must fit what the scenario says it requires. Growth is judged twice: bytes of
// tensors, which are counted and in a healthy run the same in every step, and resident memory, which sees everything else.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "harness/checks/largest.h"
#include "harness/checks/list.h"
#include "harness/checks/process/least_squares.h"
#include "harness/checks/series.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

constexpr std::int64_t kFewestSteps = 50;
// A step of training is the same allocations again, so the peak of its tensors does not grow: what is kept raises the lowest
// peak of every part of the run, however little it is. Transports free when they get to it, which makes single peaks lower by
// chance; that the lowest ones of ten parts come in ascending order by chance happens once in 10! = 3.6 million.
constexpr std::size_t kParts = 10;
// Resident memory: allocators round, cache and return; growth that would not add this share of what is resident over the whole run
// is theirs.
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
        tensors_(series_of(evidence, "tensor_peak_bytes")),
        peaks_(series_of(evidence, "rss_peak_bytes")) {}

  CheckResult judge() {
    if (steps_ < kFewestSteps) {
      result_.missing("found " + std::to_string(steps_) + " steps, wanted at least " +
                      std::to_string(kFewestSteps) + " to tell growth from settling");
    } else {
      for (const int rank : all_ranks(evidence_)) {
        judge_tensors(rank);
        judge_resident(rank);
      }
      // What tensors explain is told of them, exactly.
      if (!tensors_grow_.empty()) {
        result_.found(tensor_growth());
      } else if (!growing_.empty()) {
        result_.found(growth());
      }
      result_.measured("tensor_growth_bytes_per_step", most_tensors_, 0.0);
      result_.measured("largest_growth_bytes_per_step", largest_.slope);
    }
    judge_peak();
    return result_.finish(
        "the tensors of a step take the same in every part of the run; resident "
        "memory grows by " +
        mib(largest_.slope) + " a step at most, within what allocators do" + words_);
  }

 private:
  // Of the second half of the steps; empty, and said, where one is missing.
  std::vector<double> settled(const Series& series, int rank, const std::string& what) {
    std::vector<double> bytes;
    for (std::int64_t step = steps_ / 2 + 1; step <= steps_; ++step) {
      const Sample* row = series.find({rank, step});
      if (row == nullptr || !(row->value > 0.0)) {
        result_.missing(what + " of " + process_name(rank) + ", step " + std::to_string(step) +
                        ended_early(evidence_, rank));
        return {};
      }
      bytes.push_back(row->value);
    }
    return bytes;
  }

  void judge_tensors(int rank) {
    const std::vector<double> peaks = settled(tensors_, rank, "the peak of tensors");
    if (peaks.empty()) return;
    const std::size_t length = peaks.size() / kParts;  // kFewestSteps leaves two steps a part
    std::vector<double> lowest;
    for (std::size_t end = peaks.size() - (kParts - 1) * length; end <= peaks.size();
         end += length) {
      const auto to = peaks.begin() + static_cast<std::ptrdiff_t>(end);
      lowest.push_back(*std::min_element(to - static_cast<std::ptrdiff_t>(length), to));
    }
    const auto still = std::adjacent_find(lowest.begin(), lowest.end(), std::greater_equal<>());
    if (still != lowest.end()) return;
    const double steps = static_cast<double>((kParts - 1) * length);
    tensors_grow_[rank] = (lowest.back() - lowest.front()) / steps;
    most_tensors_ = std::max(most_tensors_, tensors_grow_[rank]);
  }

  void judge_resident(int rank) {
    const std::vector<double> bytes = settled(resident_, rank, "the resident memory");
    if (bytes.empty()) return;
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

  [[nodiscard]] Finding tensor_growth() const {
    Finding finding = make_finding("MEM.BUDGET", "tensors");
    for (const auto& [rank, growth] : tensors_grow_) finding.site.ranks.push_back(rank);
    finding.site.detail["growth_bytes_per_step"] = most_tensors_;
    finding.facts = {{"growth_bytes", most_tensors_ * static_cast<double>(steps_)},
                     {"steps", steps_},
                     {"parts", kParts}};
    return finding;
  }

  [[nodiscard]] Finding growth() const {
    Line worst;
    Finding finding = make_finding("MEM.BUDGET", "resident");
    for (const auto& [rank, line] : growing_) {
      finding.site.ranks.push_back(rank);
      if (line.slope > worst.slope) worst = line;
    }
    finding.site.detail["growth_bytes_per_step"] = worst.slope;
    finding.site.detail["low"] = worst.low;
    finding.site.detail["high"] = worst.high;
    finding.facts = {{"growth_bytes", worst.slope * static_cast<double>(steps_)},
                     {"steps", steps_}};
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
    Finding finding = make_finding("MEM.BUDGET", "peak");
    finding.site.detail["peak_bytes"] = Real(sum);
    finding.site.detail["limit_bytes"] = limit;
    result_.found(finding);
  }

  const Evidence& evidence_;
  std::int64_t steps_ = 0;
  Series resident_;
  Series tensors_;
  Series peaks_;
  std::map<int, Line> growing_;
  std::map<int, double> tensors_grow_;  // bytes a step
  double most_tensors_ = 0.0;
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
