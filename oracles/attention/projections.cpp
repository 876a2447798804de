// From x to rotated queries, keys and values of every branch.
#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "oracles/attention/activations.h"
#include "oracles/attention/compress.h"
#include "oracles/attention/rope.h"
#include "oracles/linear.h"

namespace oracles {
namespace {

std::vector<std::int64_t> all_positions(std::int64_t length) {
  std::vector<std::int64_t> positions(static_cast<std::size_t>(length));
  std::iota(positions.begin(), positions.end(), 0);
  return positions;
}

BranchKeys raw_keys(const Layer& layer, Branch branch, const Tensor& x) {
  const AttentionConfig& config = layer.config;
  const std::string name = branch_name(branch);
  BranchKeys raw;
  raw.k = split_heads(linear(x, layer.weight("W_K_" + name + ".weight"), layer.threads),
                      config.n_kv_groups);
  raw.v = split_heads(linear(x, layer.weight("W_V_" + name + ".weight"), layer.threads),
                      config.n_kv_groups);
  rotate(raw.k, config, all_positions(x.shape[1]), Turn::forward);
  return raw;
}

Tensor rotated_queries(const Layer& layer, const Tensor& x_BRE, const Projections& out) {
  const AttentionConfig& config = layer.config;
  Tensor q = split_heads(linear(x_BRE, layer.weight("W_Q.weight"), layer.threads), config.n_heads);
  rotate(q, config, out.rows, Turn::forward);
  return reshaped(std::move(q),
                  {out.sizes.batch, out.sizes.groups, out.sizes.heads, out.sizes.rows, config.d_k});
}

}  // namespace

const char* branch_name(Branch branch) {
  constexpr std::array<const char*, 3> kNames{"cmp", "sel", "win"};
  return kNames[index_of(branch)];
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

std::int64_t validated_length(const Layer& layer, const Tensor& x) {
  validate(layer.config);
  validate(layer.weights, layer.config);
  if (x.shape.size() != 3 || x.shape[0] < 1 || x.shape[1] < 1 || x.shape[2] != layer.config.dim) {
    throw std::invalid_argument("x: found shape " + shape_text(x.shape) + ", wanted [B,S," +
                                std::to_string(layer.config.dim) + "] with B and S at least 1");
  }
  require_shape(x, x.shape, "x");
  require_finite(x, "x");
  return x.shape[1];
}

Projections project(const Layer& layer, const Tensor& x, const AttentionOptions& options) {
  const AttentionConfig& config = layer.config;
  Projections out;
  const std::int64_t length = validated_length(layer, x);
  out.rows = requested_rows(options.rows, length);
  out.sizes = {x.shape[0],
               x.shape[1],
               static_cast<std::int64_t>(out.rows.size()),
               config.n_kv_groups,
               config.heads_per_group()};
  out.x_BRE = options.rows.empty() ? x : gather_rows(x, out.rows);
  out.q_BGhRD = rotated_queries(layer, out.x_BRE, out);
  out.raw_cmp = raw_keys(layer, Branch::cmp, x);
  out.branches[index_of(Branch::cmp)] = {compress(layer, PhiOf::keys, out.raw_cmp.k),
                                         compress(layer, PhiOf::values, out.raw_cmp.v)};
  out.branches[index_of(Branch::sel)] = raw_keys(layer, Branch::sel, x);
  out.branches[index_of(Branch::win)] = raw_keys(layer, Branch::win, x);
  return out;
}

std::vector<KeyBank> key_banks(const BranchKeys& keys) {
  const std::int64_t count = keys.k.shape[2];
  const std::int64_t d_k = keys.k.shape[3];
  const std::int64_t d_v = keys.v.shape[3];
  std::vector<KeyBank> banks;
  for (std::int64_t group = 0; group < keys.k.shape[0] * keys.k.shape[1]; ++group) {
    banks.emplace_back(keys.k.data.data() + group * count * d_k,
                       keys.v.data.data() + group * count * d_v,
                       count,
                       d_k,
                       d_v);
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
