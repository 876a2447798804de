// Does a foreign kernel look into the future? Two trials are the same up to a position, and other numbers from there on, and no
// gradient comes in there. What belongs to the positions before it must be the same, bit by bit, and no gradient reaches the
// keys and values after it. A kernel whose two calls with the same inputs differ has other bits without any future: of its output
// only what differs by much more than these two calls counts.
#include <algorithm>
#include <cmath>

#include "harness/checks/attention/invariance/first_departure.h"
#include "harness/checks/kernel/kernel_call.h"
#include "harness/checks/kernel/kernel_trials.h"
#include "harness/checks/list.h"
#include "nsa/base/error.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

// Block numbers are exact in doubles too.
std::vector<double> numbers_of(const nsa::TensorView& view) {
  if (view.dtype != nsa::DType::i64) return nsa::to_doubles(view);
  const std::vector<std::int64_t> blocks = nsa::to_int64s(view);
  return {blocks.begin(), blocks.end()};
}

// Positions of a tensor [B,N,rows,width] for which `differs` holds at some number.
template <typename Differs>
std::set<int> rows_where(const nsa::TensorView& view, Differs differs) {
  std::set<int> rows;
  const auto width = static_cast<std::size_t>(view.shape.at(3));
  const auto count = static_cast<std::size_t>(view.shape.at(2));
  const std::size_t size =
      view.bytes.size() / static_cast<std::size_t>(nsa::dtype_bytes(view.dtype));
  for (std::size_t i = 0; i < size; ++i) {
    const auto row = static_cast<int>(i / width % count);
    if (differs(i, row)) rows.insert(row);
  }
  return rows;
}

// The largest difference of two such calls is one of thousands of numbers: chance alone exceeds it, but not by this.
constexpr double kTimesTheNoise = 8.0;

class FutureJudge {
 public:
  explicit FutureJudge(const Evidence& evidence)
      : evidence_(evidence), scenario_(evidence.the_case.scenario) {}

  CheckResult judge() {
    if (!scenario_.is_foreign()) return inconclusive("the case has no kernel of the user's own");
    const std::vector<TrialOnRecord> trials = trials_on_record(evidence_, result_);
    for (const TrialOnRecord& trial : trials) {
      const auto of = trial.number_said("perturbed_of");
      const auto first = trial.number_said("first");
      if (!of || !first) continue;
      for (const TrialOnRecord& plain : trials) {
        if (plain.number == *of) compare(plain, trial, *first);
      }
    }
    if (pairs_ == 0) result_.missing("two trials that are the same up to a position");
    if (noise_ > 0.0) result_.measured("difference_of_two_calls", noise_);
    const std::string same =
        noise_ > 0.0
            ? "whatever comes after a position, the output before it differs by no more than eight "
              "times what two calls with the same inputs differ by"
            : "the output before a position is the same, bit by bit, whatever comes after it";
    return result_.finish(same + std::string(scenario_.kernel.gradients
                                                 ? "; no gradient reaches what comes after"
                                                 : ""));
  }

 private:
  void compare(const TrialOnRecord& plain, const TrialOnRecord& other, std::int64_t first) {
    const auto one = open_outputs(evidence_, plain, 1, result_);
    const auto two = open_outputs(evidence_, other, 1, result_);
    if (!one || !two) return;
    try {
      ++pairs_;
      if (compare_forward(*one, *two, plain, other, first) && scenario_.kernel.gradients) {
        compare_backward(*one, *two, other, first);
      }
    } catch (const nsa::Error& error) {
      result_.missing(std::string("trials that can be compared: ") + error.what());
    } catch (const std::out_of_range&) {
      result_.missing("trials that can be compared: an axis is missing");
    }
  }

  bool compare_forward(const nsa::SafetensorsFile& one,
                       const nsa::SafetensorsFile& two,
                       const TrialOnRecord& plain,
                       const TrialOnRecord& trial,
                       std::int64_t first) {
    const char* const result = result_of_level(scenario_.kernel.level);
    noise_ = std::max(noise_, noise_of(plain, numbers_of(one.at(result))));
    Sameness same;
    same.limit = kTimesTheNoise * noise_;
    same.keep = [&](int row) { return row < first; };
    const std::set<int> rows = rows_apart(one.at(result), two.at(result), 2, same);
    if (!rows.empty()) tell(trial, rows, first, "forward", result);
    return rows.empty();
  }

  // The largest difference between the two calls of a trial; infinite where one of them alone is no number.
  double noise_of(const TrialOnRecord& plain, const std::vector<double>& first_call) {
    if (plain.number_said("calls").value_or(1) < 2) return 0.0;
    const auto again = open_outputs(evidence_, plain, 2, result_);
    if (!again) return 0.0;
    const std::vector<double> second =
        numbers_of(again->at(result_of_level(scenario_.kernel.level)));
    if (second.size() != first_call.size()) return 0.0;  // kernel_is_oracle refuses its shape
    double noise = 0.0;
    for (std::size_t i = 0; i < second.size(); ++i) {
      if (std::isnan(second[i]) != std::isnan(first_call[i])) return HUGE_VAL;
      const double gap = std::abs(second[i] - first_call[i]);
      if (gap > noise) noise = gap;
    }
    return noise;
  }

  // What is no number in both trials did not come from the future: kernel_is_oracle tells it.
  void compare_backward(const nsa::SafetensorsFile& one,
                        const nsa::SafetensorsFile& two,
                        const TrialOnRecord& trial,
                        std::int64_t first) {
    const bool compressed = scenario_.kernel.level == "attend_cmp";
    const nsa::ModelConfig& m = scenario_.model;
    for (const auto& [name, view] : two.tensors()) {
      if (!name.starts_with("dk") && !name.starts_with("dv")) continue;
      const Reals values(view);
      const Reals before(one.at(name));
      if (one.at(name).shape != view.shape) {
        throw nsa::Error(view.where + ": has another shape than in the first trial");
      }
      const std::set<int> rows = rows_where(view, [&](std::size_t i, int row) {
        const std::int64_t last = compressed ? row * m.d + m.l - 1 : row;
        const bool no_number = !std::isfinite(values[i]) && !std::isfinite(before[i]);
        return last >= first && !no_number && values[i] != 0.0;
      });
      if (!rows.empty()) tell(trial, rows, first, "backward", name.c_str());
    }
  }

  void tell(const TrialOnRecord& trial,
            const std::set<int>& rows,
            std::int64_t first,
            const char* phase,
            const char* tensor) {
    Finding finding = make_finding("CAUSALITY.LEAK", std::string("kernel_") + phase);
    put_trials({trial.name}, finding);
    finding.site.op = scenario_.kernel.level;
    if (scenario_.kernel.level.starts_with("attend_")) {
      finding.site.branch = oracles::branch_name(branch_of_level(scenario_.kernel.level));
    }
    finding.site.phase = phase;
    finding.site.rows = to_ints(rows);
    finding.site.detail["perturbed_from"] = first;
    finding.site.detail["row_count"] = rows.size();
    finding.facts["tensor"] = tensor;
    if (noise_ > 0.0) finding.facts["noise"] = noise_;
    finding.facts["places"] = numbers_text("row", to_ints(rows));
    result_.found(std::move(finding));
  }

  const Evidence& evidence_;
  const Scenario& scenario_;
  ResultBuilder result_;
  double noise_ = 0.0;  // by how much the outputs of two calls with the same inputs differ
  int pairs_ = 0;
};

}  // namespace

Check kernel_causal() {
  return {"kernel_causal",
          "of kind kernel: nothing before a position depends on what comes after it, bit by bit",
          {"CAUSALITY.LEAK"},
          [](const Evidence& evidence) { return FutureJudge(evidence).judge(); }};
}

}  // namespace harness::checks
