#include "harness/checks/kernel/kernel_tried.h"

#include <algorithm>

#include "harness/checks/kernel/kernel_call.h"
#include "harness/foreign/trials.h"
#include "nsa/base/text.h"

namespace harness::checks {
void KernelTried::take(const TrialOnRecord& trial) {
  ++trials_;
  const std::int64_t length = trial.length();
  lengths_.insert(length);
  batches_.insert(trial.batch());
  if (trial.inputs.contains("q")) {
    widths_.insert({axis_of(trial.inputs, "q", 3), axis_of(trial.inputs, "do", 3)});
  }
  const auto judged = static_cast<std::int64_t>(judged_rows(trial.inputs, length).size());
  if (judged < length) {
    fewest_rows_ = in_drawn_rows_ == 0 ? judged : std::min(fewest_rows_, judged);
    ++in_drawn_rows_;
  }
  most_candidates_ = std::max(most_candidates_, length / scenario_.model.l_sel);
}

std::string KernelTried::tried() const {
  std::string said =
      counted(trials_, "trial") + " in " + nsa::name_of(scenario_.training.precision);
  if (!lengths_.empty()) {
    said += ", lengths " + std::to_string(*lengths_.begin()) + " to " +
            std::to_string(*lengths_.rbegin());
  }
  const bool values = !scenario_.kernel.chooses();
  std::vector<std::string> widths;
  for (const auto& [d_k, d_v] : widths_) {
    widths.push_back(std::to_string(d_k) + (values ? " and " + std::to_string(d_v) : ""));
  }
  if (!widths.empty())
    said += std::string(values ? ", d_k and d_v " : ", d_k ") + nsa::join(widths);
  if (!batches_.empty()) said += ", batches up to " + std::to_string(*batches_.rbegin());
  if (in_drawn_rows_ > 0) {
    said += "; of " + counted(in_drawn_rows_, "long trial") + " at least " +
            counted(fewest_rows_, "drawn row");
  }
  return said;
}

std::string KernelTried::not_tried() const {
  if (lengths_.empty()) return "";
  const KernelConfig& kernel = scenario_.kernel;
  std::vector<std::string> lacks = {"lengths above " + std::to_string(*lengths_.rbegin())};
  if (!kernel.chooses() && widths_.size() == 1) lacks.emplace_back("other widths");
  lacks.push_back("batches above " + std::to_string(*batches_.rbegin()));
  const bool lists = kernel.level == "select" || kernel.level == "attend_sel" || kernel.is_whole();
  const std::int64_t n = scenario_.model.n_sel;
  if (lists && most_candidates_ < kTimesTheList * n) {
    lacks.push_back("more than " + std::to_string(most_candidates_) + " blocks for a list of " +
                    std::to_string(n));
  }
  return "not tried: " + nsa::join(lacks);
}

}  // namespace harness::checks
