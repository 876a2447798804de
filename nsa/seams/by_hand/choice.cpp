#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "nsa/seams/by_hand/by_hand.h"

namespace nsa::by_hand {
namespace {

// [C,N]: the share of compressed token i that counts for block j, by how many positions both hold.
Tensor shares(const ModelConfig& config, std::int64_t tokens, std::int64_t blocks) {
  const double unit = static_cast<double>(config.eq9 == Eq9::fractional ? config.l : config.d);
  Tensor shares_CN = torch::zeros({tokens, blocks}, torch::kDouble);
  auto share = shares_CN.accessor<double, 2>();
  for (std::int64_t i = 0; i < tokens; ++i) {
    for (std::int64_t j = 0; j < blocks; ++j) {
      const std::int64_t begin = std::max(i * config.d, j * config.l_sel);
      const std::int64_t end = std::min(i * config.d + config.l, (j + 1) * config.l_sel);
      share[i][j] = static_cast<double>(std::max<std::int64_t>(end - begin, 0)) / unit;
    }
  }
  return shares_CN;
}

// The blocks of the query at t, in ascending order.
std::vector<std::int64_t> chosen(const ModelConfig& config,
                                 std::int64_t t,
                                 const double* score_N,
                                 std::int64_t count) {
  const std::int64_t current = t / config.l_sel;
  std::vector<std::int64_t> forced;
  std::vector<std::int64_t> others;
  for (std::int64_t j = 0; j <= std::min(current, count - 1); ++j) {
    const bool is_forced = j < config.init_blocks || j > current - config.local_blocks;
    const bool is_complete = (j + 1) * config.l_sel <= t + 1;
    if (is_forced) {
      forced.push_back(j);
    } else if (is_complete) {
      others.push_back(j);
    }
  }
  const auto rank = [&](std::int64_t j) { return std::isnan(score_N[j]) ? -1.0 : score_N[j]; };
  std::stable_sort(others.begin(), others.end(), [&](std::int64_t a, std::int64_t b) {
    return rank(a) > rank(b);
  });
  std::vector<std::int64_t> blocks = forced;
  blocks.insert(blocks.end(), others.begin(), others.end());
  blocks.resize(std::min(blocks.size(), static_cast<std::size_t>(config.n_sel)));
  std::sort(blocks.begin(), blocks.end());
  return blocks;
}

}  // namespace

Tensor score(const SeamContext& context, const Tensor& q_BHSD, const Tensor& k_cmp_BGCD) {
  const torch::NoGradGuard no_gradient;
  const std::int64_t length = q_BHSD.size(2);
  const std::int64_t tokens = k_cmp_BGCD.size(2);
  const Tensor sees = sees_compressed(context, length, tokens, q_BHSD.device());
  if (context.reads != nullptr) {
    context.reads->score +=
        sees.expand({k_cmp_BGCD.size(0), k_cmp_BGCD.size(1), -1, -1}).sum().item<std::int64_t>();
  }
  const Tensor p_BGSC = weights_of_keys(q_BHSD, k_cmp_BGCD, sees).sum(2);
  const std::int64_t blocks = context.config.block_count(context.first + length);
  const Tensor shares_CN = shares(context.config, tokens, blocks).to(q_BHSD.device());
  // Rounded once: equal blocks get equal scores, in whatever order their tokens were added.
  const auto type = q_BHSD.scalar_type() == torch::kDouble ? torch::kDouble : torch::kFloat;
  const Tensor p_grp_BGSN = torch::matmul(p_BGSC, shares_CN).to(type);
  context.routes.ran("score", context.layer, kName);
  return p_grp_BGSN;
}

Tensor select(const SeamContext& context, const Tensor& p_grp_BGSN) {
  const torch::NoGradGuard no_gradient;
  const Tensor scores = p_grp_BGSN.to(torch::kCPU).to(torch::kDouble).contiguous();
  const std::int64_t count = scores.size(3);
  const std::int64_t rows = scores.size(0) * scores.size(1) * scores.size(2);
  std::vector<std::int64_t> shape = scores.sizes().vec();
  shape.back() = context.config.n_sel;
  Tensor blocks_BGSn = torch::full(shape, -1, torch::kLong);
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t t = context.first + row % scores.size(2);
    const auto blocks =
        chosen(context.config, t, scores.const_data_ptr<double>() + row * count, count);
    std::copy(blocks.begin(),
              blocks.end(),
              blocks_BGSn.mutable_data_ptr<std::int64_t>() + row * context.config.n_sel);
  }
  context.routes.ran("select", context.layer, kName);
  return blocks_BGSn.to(p_grp_BGSN.device());
}

}  // namespace nsa::by_hand
