// Does a foreign kernel look into the future? Two trials are the same up to a position, and other numbers from there on, and no
// gradient comes in there. What belongs to the positions before it must be the same, bit by bit, and no gradient reaches the
// keys and values after it.
#include <cmath>

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
    return result_.finish(
        "the output before a position is the same, bit by bit, whatever comes "
        "after it" +
        std::string(scenario_.kernel.gradients ? "; no gradient reaches what comes after" : ""));
  }

 private:
  void compare(const TrialOnRecord& plain, const TrialOnRecord& other, std::int64_t first) {
    const auto one = open_outputs(evidence_, plain, 1, result_);
    const auto two = open_outputs(evidence_, other, 1, result_);
    if (!one || !two) return;
    try {
      ++pairs_;
      if (compare_forward(*one, *two, other, first) && scenario_.kernel.gradients) {
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
                       const TrialOnRecord& trial,
                       std::int64_t first) {
    const char* const result = result_of_level(scenario_.kernel.level);
    const nsa::TensorView& view = two.at(result);
    if (one.at(result).shape != view.shape || one.at(result).dtype != view.dtype) {
      throw nsa::Error(view.where + ": has another shape or dtype than in the first trial");
    }
    const std::vector<double> a = numbers_of(one.at(result));
    const std::vector<double> b = numbers_of(view);
    const std::set<int> rows = rows_where(view, [&](std::size_t i, int row) {
      return row < first && a[i] != b[i] && !(std::isnan(a[i]) && std::isnan(b[i]));
    });
    if (!rows.empty()) tell(trial, rows, first, "forward", result);
    return rows.empty();
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
    finding.facts["places"] = numbers_text("row", to_ints(rows));
    result_.found(std::move(finding));
  }

  const Evidence& evidence_;
  const Scenario& scenario_;
  ResultBuilder result_;
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
