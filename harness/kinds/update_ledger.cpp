#include "harness/kinds/update_ledger.h"

namespace harness {

UpdateLedger::UpdateLedger(const nsa::NamedParameters& parameters,
                           const std::vector<torch::Tensor>& updated,
                           std::int64_t step,
                           bool enabled)
    : parameters_(parameters), updated_(updated), step_(step) {
  if (!enabled) {
    return;
  }
  before_.reserve(updated.size());
  for (std::size_t i = 0; i < updated.size(); ++i) {
    const auto& start = step == 1 ? parameters[i].second : updated[i];
    before_.push_back(start.detach().to(updated[i].scalar_type(), false, true));
  }
}

void UpdateLedger::write(Channel& channel, bool skipped) const {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < before_.size(); ++i) {
    const auto& [name, parameter] = parameters_[i];
    const auto gradient = parameter.grad();
    Update row;
    row.step = step_;
    row.param = name;
    row.dtype = c10::toString(updated_[i].scalar_type());
    row.elements = parameter.numel();
    row.skipped = skipped;
    if (gradient.defined()) {
      const auto wanted = gradient.ne(0);
      row.wanted = wanted.sum().item<std::int64_t>();
      row.lost = wanted.logical_and(updated_[i].eq(before_[i])).sum().item<std::int64_t>();
    }
    channel.write(row);
  }
}

}  // namespace harness
