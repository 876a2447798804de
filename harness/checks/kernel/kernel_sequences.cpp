#include "harness/checks/kernel/kernel_sequences.h"

#include <cmath>

namespace harness::checks {

std::set<int> sequences_apart(const oracles::Tensor& found,
                              const oracles::Tensor& wanted,
                              double most) {
  std::set<int> wrong;
  const auto batch = static_cast<std::size_t>(wanted.shape.front());
  if (batch == 0 || found.data.size() != wanted.data.size()) return wrong;
  const std::size_t size = wanted.data.size() / batch;
  for (std::size_t i = 0; i < wanted.data.size(); ++i) {
    if (!(std::abs(found.data[i] - wanted.data[i]) <= most))
      wrong.insert(static_cast<int>(i / size));
  }
  return wrong;
}

void put_sequences(const std::set<int>& wrong, std::int64_t batch, Departure& seen) {
  if (wrong.empty() || static_cast<std::int64_t>(wrong.size()) == batch) return;
  std::vector<std::string> names;
  for (const int sequence : wrong) names.push_back("sequence " + std::to_string(sequence));
  seen.facts["sequences"] = names;
}

void put_sequences(const LayerRecord& record, LayerJudgement& judged) {
  for (Departure& seen : judged.departures) {
    for (const DepartedTensor& one : judged.departed) {
      if (seen.tensors.front() != one.tensor || !one.right) continue;
      const oracles::Tensor& found = record.at(one.tensor);
      const oracles::Tensor right{found.shape, one.right->values};
      put_sequences(sequences_apart(found, right, one.right->error), record.batch, seen);
    }
  }
}

}  // namespace harness::checks
