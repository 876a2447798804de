// What every step of one attention layer needs: its configuration and weights, its sizes, its
// queries one by one. Internal to the oracle. Legend as in attention.h; W width of a head's vector.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "oracles/attention/attend.h"
#include "oracles/attention/config.h"
#include "oracles/attention/kept.h"
#include "oracles/attention/keys.h"
#include "oracles/parallel.h"
#include "oracles/tensor.h"
#include "oracles/weights.h"

namespace oracles {

// Refers to its owner's objects.
struct Layer {
  const AttentionConfig& config;
  const Weights& weights;
  int threads;  // 0: as many as the hardware has
  Kept kept = {};

  [[nodiscard]] const Tensor& weight(const std::string& name) const { return weights.at(name); }
};

inline constexpr std::array<Branch, 3> kBranches{Branch::cmp, Branch::sel, Branch::win};

// "cmp", "sel" or "win", as in the weights' names.
const char* branch_name(Branch branch);
inline std::size_t index_of(Branch branch) {
  return static_cast<std::size_t>(branch);
}

// The linear maps of linear.h, of and into what the layer keeps: x, weight and result are rounded.
Tensor kept_linear(const Layer& layer, const Tensor& x, const Tensor& weight);
Tensor kept_weight_gradient(const Layer& layer, const Tensor& dy, const Tensor& x);
// Adds the product to dx; it was stored before, and so is rounded, the sum is not.
void add_kept_input_gradient(const Layer& layer,
                             const Tensor& dy,
                             const Tensor& weight,
                             Tensor& dx);

struct Sizes {
  std::int64_t batch;
  std::int64_t length;
  std::int64_t rows;
  std::int64_t groups;
  std::int64_t heads;  // of a group

  [[nodiscard]] std::int64_t batch_groups() const { return batch * groups; }
};

// Throws std::invalid_argument where config, weights and x do not fit each other or hold a NaN or
// an infinity.
void require_finite_layer(const Layer& layer, const Tensor& x);
// The positions themselves, or all where there are none. Throws std::invalid_argument where they do
// not ascend strictly below `length`.
std::vector<std::int64_t> requested_rows(const std::vector<std::int64_t>& rows,
                                         std::int64_t length);

// One bank for each batch and group, in the order b * G + g. Refers to its arguments.
std::vector<KeyBank> key_banks(const Tensor& k, const Tensor& v);
// The queries of a group at a row: [h, D]; and a branch output or its gradient there: [h, V].
View head_rows(const Tensor& heads_BGhRW, std::int64_t group, std::int64_t row);
MutableView head_rows(Tensor& heads_BGhRW, std::int64_t group, std::int64_t row);

// Calls visit(group, row, work) for every query, `group` counting over batch and groups; `work` is
// a vector of doubles that calls on one thread use one after the other.
template <typename Visit>
void for_each_row(const Sizes& n, int threads, Visit visit) {
  constexpr std::int64_t kGrainRows = 16;  // enough to forget the cost of taking them
  parallel_for(
      n.batch_groups() * n.rows, kGrainRows, threads, [&](std::int64_t begin, std::int64_t end) {
        std::vector<double> work;
        for (std::int64_t place = begin; place < end; ++place) {
          visit(place / n.rows, place % n.rows, work);
        }
      });
}

}  // namespace oracles
