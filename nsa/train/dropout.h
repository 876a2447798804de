// Residual dropout by a counter-based generator (docs/data.md, "Residual dropout"): which numbers of a branch are kept is a pure
// function of (seed, sequence, layer, site, place), so a layer that is computed again has the same mask without any state.
// Shape letters: B batch, S position, E width of the residual stream.
#pragma once

#include <cstdint>

#include "nsa/torch.h"
#include "nsa/train/data.h"

namespace nsa {

// Where a mask is drawn for. Steps count from 1; site 0: what the attention gives, 1: what the MLP gives.
struct DropoutPlace {
  std::int64_t step = 1;
  std::int64_t micro = 0;
  int rank = 0;
  int layer = 0;
  int site = 0;
};

class Dropout {
 public:
  Dropout(double p, const BatchShape& shape, std::int64_t seed, int world)
      : p_(p), shape_(shape), seed_(static_cast<std::uint64_t>(seed)), world_(world) {}

  [[nodiscard]] bool drops() const { return p_ > 0.0; }
  // [B,S,E] bool on the CPU.
  [[nodiscard]] torch::Tensor kept(const DropoutPlace& place, std::int64_t width) const;
  // A branch with the others zero and the kept ones divided by 1 - p.
  [[nodiscard]] torch::Tensor dropped(const torch::Tensor& branch_BSE,
                                      const torch::Tensor& kept_BSE) const;

 private:
  double p_;
  BatchShape shape_;
  std::uint64_t seed_;
  int world_;
};

}  // namespace nsa
