#include "harness/kinds/update_ledger.h"

namespace harness {

UpdateLedger::UpdateLedger(const nsa::NamedParameters& parameters, bool enabled) : parameters_(parameters) {
  if (!enabled) {
    return;
  }
  before_.reserve(parameters.size());
  for (const auto& [name, parameter] : parameters) {
    before_.push_back(parameter.detach().clone());
  }
}

void UpdateLedger::write(Channel& channel, std::int64_t step) const {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < before_.size(); ++i) {
    const auto& [name, parameter] = parameters_[i];
    const auto gradient = parameter.grad();
    Update row;
    row.step = step;
    row.param = name;
    row.dtype = c10::toString(parameter.scalar_type());
    row.elements = parameter.numel();
    if (gradient.defined()) {
      const auto wanted = gradient.ne(0);
      row.wanted = wanted.sum().item<std::int64_t>();
      row.lost = wanted.logical_and(parameter.eq(before_[i])).sum().item<std::int64_t>();
    }
    channel.write(row);
  }
}

}  // namespace harness
