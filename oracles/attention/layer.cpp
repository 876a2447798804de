#include "oracles/attention/layer.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <stdexcept>

#include "oracles/linear.h"

namespace oracles {
namespace {

std::vector<std::int64_t> all_positions(std::int64_t length) {
  std::vector<std::int64_t> positions(static_cast<std::size_t>(length));
  std::iota(positions.begin(), positions.end(), 0);
  return positions;
}

}  // namespace

const char* branch_name(Branch branch) {
  constexpr std::array<const char*, 3> kNames{"cmp", "sel", "win"};
  return kNames[index_of(branch)];
}

Tensor kept_linear(const Layer& layer, const Tensor& x, const Tensor& weight) {
  const Kept& kept = layer.kept;
  if (!kept.rounds()) {
    return linear(x, weight, layer.threads);
  }
  return kept.of(linear(kept.of(x), kept.of(weight), layer.threads));
}

Tensor kept_weight_gradient(const Layer& layer, const Tensor& dy, const Tensor& x) {
  const Kept& kept = layer.kept;
  if (!kept.rounds()) {
    return weight_gradient(dy, x, layer.threads);
  }
  return kept.of(weight_gradient(kept.of(dy), kept.of(x), layer.threads));
}

void add_kept_input_gradient(const Layer& layer,
                             const Tensor& dy,
                             const Tensor& weight,
                             Tensor& dx) {
  const Kept& kept = layer.kept;
  if (!kept.rounds()) {
    add_input_gradient(dy, weight, dx, layer.threads);
    return;
  }
  Tensor part = zeros(dx.shape);
  add_input_gradient(kept.of(dy), kept.of(weight), part, layer.threads);
  kept.round(part.data);
  for (std::size_t i = 0; i < part.data.size(); ++i) {
    dx.data[i] += part.data[i];
  }
  if (kept.narrow_sums) kept.round(dx.data);
}

std::vector<std::int64_t> requested_rows(const std::vector<std::int64_t>& rows,
                                         std::int64_t length) {
  if (rows.empty()) {
    return all_positions(length);
  }
  const bool ascend =
      std::adjacent_find(rows.begin(), rows.end(), std::greater_equal<>()) == rows.end();
  if (!ascend || rows.front() < 0 || rows.back() >= length) {
    throw std::invalid_argument("rows: wanted strictly ascending positions below " +
                                std::to_string(length));
  }
  return rows;
}

void require_finite_layer(const Layer& layer, const Tensor& x) {
  validate(layer.config);
  validate(layer.weights, layer.config);
  require_shape(x, x.shape, "x");
  require_finite(x, "x");
}

std::vector<KeyBank> key_banks(const Tensor& k, const Tensor& v) {
  const std::int64_t count = k.shape[2];
  const std::int64_t d_k = k.shape[3];
  const std::int64_t d_v = v.shape[3];
  std::vector<KeyBank> banks;
  for (std::int64_t group = 0; group < k.shape[0] * k.shape[1]; ++group) {
    banks.emplace_back(
        k.data.data() + group * count * d_k, v.data.data() + group * count * d_v, count, d_k, d_v);
  }
  return banks;
}

MutableView head_rows(Tensor& heads_BGhRW, std::int64_t group, std::int64_t row) {
  const Shape& shape = heads_BGhRW.shape;
  const std::int64_t head_size = shape[3] * shape[4];
  return {heads_BGhRW.data.data() + group * shape[2] * head_size + row * shape[4],
          shape[2],
          shape[4],
          head_size};
}

View head_rows(const Tensor& heads_BGhRW, std::int64_t group, std::int64_t row) {
  const Shape& shape = heads_BGhRW.shape;
  const std::int64_t head_size = shape[3] * shape[4];
  return {heads_BGhRW.data.data() + group * shape[2] * head_size + row * shape[4],
          shape[2],
          shape[4],
          head_size,
          1};
}

}  // namespace oracles
