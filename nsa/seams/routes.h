// What really ran: each implementation of a seam counts itself here, in its own body, per layer and direction.
// Thread-safe (backward runs on autograd's threads). Owned by whoever drives the model; outlives it.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "nsa/torch.h"

namespace nsa {

struct RouteCount {
  std::string seam;
  int layer = -1;  // -1: not of one layer
  std::string implementation;
  std::int64_t forward = 0;
  std::int64_t backward = 0;
};

class Routes {
 public:
  // Called by the implementation `name` of `seam` when it has computed `output`. Counts the forward run now and, when
  // `output` takes part in autograd, its backward run when the gradient of `output` arrives.
  void ran(const std::string& seam,
           int layer,
           const std::string& name,
           const torch::Tensor& output);
  void ran(const std::string& seam,
           int layer,
           const std::string& name);  // seams without a gradient

  [[nodiscard]] std::vector<RouteCount> counts() const;

 private:
  struct Count {
    std::int64_t forward = 0;
    std::int64_t backward = 0;
  };
  using Key = std::tuple<std::string, int, std::string>;
  mutable std::mutex mutex_;
  std::map<Key, Count> counts_;
};

}  // namespace nsa
