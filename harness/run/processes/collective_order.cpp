#include "harness/run/processes/collective_order.h"

namespace harness {

void CollectiveOrder::heard(const Event& event) {
  constexpr std::size_t kMost = 1'000;  // that one rank is ahead of another
  if (departed_ || event.kind != Collective::kKind) return;
  const auto row = event.body.get<Collective>();
  auto& group = first_[row.group];
  const Shape shape = {row.op, row.reduce_op, row.dtype, row.count};
  const auto [first, is_new] = group.try_emplace(row.sequence, shape);
  departed_ = !is_new && first->second != shape;
  if (group.size() > kMost) group.erase(group.begin());
}

}  // namespace harness
