#include "harness/kinds/attention_inputs.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "nsa/base/error.h"

namespace harness {
namespace {

using torch::Tensor;

torch::Generator generator(std::int64_t seed, int layer, int purpose) {
  constexpr std::int64_t kApart = 1000003;  // a prime: seeds, layers and purposes stay apart
  return at::detail::createCPUGenerator(
      static_cast<std::uint64_t>((seed * kApart + layer) * kApart + purpose));
}

Tensor normal(const std::vector<std::int64_t>& shape, torch::Generator random) {
  return torch::randn(shape, random, torch::kFloat64);
}

// Whole blocks of zeros, drawn; the compressed tokens that lie within runs of them are zero too.
Tensor with_equal_blocks(Tensor x_BSE, std::int64_t block, torch::Generator random) {
  const std::int64_t blocks = (x_BSE.size(1) + block - 1) / block;
  const auto zero_N = torch::rand({blocks}, random, torch::kFloat64).lt(0.6);
  const auto zero_S = zero_N.repeat_interleave(block).slice(0, 0, x_BSE.size(1));
  return x_BSE.masked_fill(zero_S.view({1, -1, 1}), 0.0);
}

Tensor one_hot_tokens(const InputRequest& request, std::int64_t dim, torch::Generator random) {
  const auto index_BS = torch::randint(dim, {request.batch, request.length}, random, torch::kLong);
  return torch::one_hot(index_BS, dim).to(torch::kFloat64);
}

// Where laws change: both sides of every edge, then drawn positions.
std::set<std::int64_t> sampled_positions(const InputRequest& request,
                                         const nsa::ModelConfig& config) {
  std::set<std::int64_t> rows;
  for (const std::int64_t edge : {std::int64_t{0},
                                  config.l,
                                  config.l_sel,
                                  config.w,
                                  2 * config.l_sel,
                                  config.n_sel * config.l_sel,
                                  request.length / config.l_sel * config.l_sel,
                                  request.length}) {
    for (std::int64_t row = edge - 2; row <= edge + 1; ++row) {
      if (row >= 0 && row < request.length) {
        rows.insert(row);
      }
    }
  }
  auto random = generator(request.seed, request.layer, 3);
  while (static_cast<std::int64_t>(rows.size()) < std::min(kSampledRows, request.length)) {
    rows.insert(torch::randint(request.length, {1}, random, torch::kLong).item<std::int64_t>());
  }
  return rows;
}

}  // namespace

Tensor draw_inputs(const InputRequest& request, const nsa::ModelConfig& config) {
  auto random = generator(request.seed, request.layer, 1);
  const std::vector<std::int64_t> shape = {request.batch, request.length, config.dim};
  if (request.inputs == "normal") return normal(shape, random);
  if (request.inputs == "large_logits") return normal(shape, random) * std::sqrt(5.0);
  if (request.inputs == "ties")
    return with_equal_blocks(normal(shape, random), config.l_sel, random);
  if (request.inputs == "integers") return torch::randint(-2, 3, shape, random, torch::kFloat64);
  if (request.inputs == "one_hot") return one_hot_tokens(request, config.dim, random);
  if (request.inputs == "equal_keys")
    return normal({1, 1, config.dim}, random).expand(shape).contiguous();
  throw nsa::Error("attention.inputs: found '" + request.inputs +
                   "', which this worker does not have");
}

void draw_equal_weights(nsa::NsaLm& model, std::int64_t seed) {
  constexpr double kShare = 0.5;       // of the number that all begin with
  constexpr double kAroundZero = 0.1;  // where that is zero
  const torch::NoGradGuard no_grad;
  for (int layer = 0; layer < static_cast<int>(model->config().n_layers); ++layer) {
    auto random = generator(seed, layer, 4);
    for (auto& weight : model->attention(layer)->parameters()) {
      const double first = weight.flatten()[0].item<double>();
      if (!weight.eq(first).all().item<bool>()) continue;
      const double size = first == 0.0 ? kAroundZero : kShare * std::abs(first);
      weight.add_((size * normal(weight.sizes().vec(), random)).to(weight.options()));
    }
  }
}

Tensor with_gaps(const Tensor& x_BSE) {
  const auto width = x_BSE.size(2);
  auto wide_SBE = torch::full({x_BSE.size(1), x_BSE.size(0), 2 * width}, NAN, x_BSE.options());
  const auto view_BSE = wide_SBE.transpose(0, 1).slice(2, 0, width);
  view_BSE.copy_(x_BSE);
  return view_BSE;
}

Tensor perturbed_suffix(const Tensor& x_BSE, std::int64_t first, std::int64_t seed, int layer) {
  auto changed = x_BSE.clone();
  const std::int64_t tail = x_BSE.size(1) - first;
  changed.slice(1, first) =
      3.0 * normal({x_BSE.size(0), tail, x_BSE.size(2)}, generator(seed, layer, 4));
  return changed;
}

Tensor draw_cotangents(const InputRequest& request, const nsa::ModelConfig& config) {
  auto dy_BSE = normal({request.batch, request.length, config.dim},
                       generator(request.seed, request.layer, 2));
  if (request.batch * request.length <= kAllRows) {
    return dy_BSE;
  }
  const auto rows = sampled_positions(request, config);
  const std::vector<std::int64_t> kept(rows.begin(), rows.end());
  const auto keep_S =
      torch::zeros({request.length}, torch::kFloat64).index_fill_(0, torch::tensor(kept), 1.0);
  return dy_BSE * keep_S.view({1, -1, 1});
}

}  // namespace harness
