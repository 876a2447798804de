// The project's own CUDA kernels (nsa/kernels) behind the seams: `cuda` takes the fastest family of kernels that the card has,
// `cuda_mma` those that every card from compute capability 8.0 on has. Behind seam `attention` they are a whole layer: one
// product for the seven projections, rotation, pooling, choice, the three branches and their gated sum; behind the other seams
// one step each, so that a wrong step shows alone. They count themselves by their names and refuse what they cannot do.
//
// Where the program was built without nvcc the rows are there all the same, and refuse everything.
#pragma once

#include <array>
#include <vector>

#include "nsa/seams/implementation.h"

namespace nsa::cuda {

inline constexpr std::array kNames = {"cuda", "cuda_mma"};
inline constexpr std::array kSeams = {
    "attention", "compress", "score", "select", "attend_cmp", "attend_sel", "attend_win"};

[[nodiscard]] std::vector<Implementation> implementations();

}  // namespace nsa::cuda
