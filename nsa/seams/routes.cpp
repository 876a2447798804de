#include "nsa/seams/routes.h"

namespace nsa {

void Routes::ran(const std::string& seam, int layer, const std::string& name) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++counts_[Key(seam, layer, name)].forward;
}

void Routes::ran(const std::string& seam,
                 int layer,
                 const std::string& name,
                 const torch::Tensor& output) {
  ran(seam, layer, name);
  if (!output.requires_grad()) return;
  output.register_hook([this, key = Key(seam, layer, name)](const torch::Tensor&) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++counts_[key].backward;
  });
}

std::vector<RouteCount> Routes::counts() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<RouteCount> result;
  result.reserve(counts_.size());
  for (const auto& [key, count] : counts_) {
    const auto& [seam, layer, name] = key;
    result.push_back({seam, layer, name, count.forward, count.backward});
  }
  return result;
}

}  // namespace nsa
