#include <cmath>
#include <limits>

#include "nsa/seams/by_hand/by_hand.h"
#include "nsa/seams/refused.h"

namespace nsa::by_hand {
namespace {

constexpr std::int64_t kMostWeights = std::int64_t{1} << 27;  // of one call: 1 GiB in float64

Tensor counted(std::int64_t first, std::int64_t count, torch::Device device) {
  return torch::arange(first, first + count, torch::dtype(torch::kLong).device(device));
}

// The positions of queries, as a column.
Tensor positions_S1(const SeamContext& context, std::int64_t length, torch::Device device) {
  return counted(context.first, length, device).unsqueeze(1);
}

struct Branch {
  const char* seam;
  std::int64_t Reads::*reads;
};

Tensor attend(const SeamContext& context,
              const Branch& branch,
              const Tensor& q_BHSD,
              const Tensor& k_BGKD,
              const Tensor& v_BGKD,
              const Tensor& sees_BGSK) {
  const std::int64_t keys = k_BGKD.size(2);
  if (q_BHSD.size(0) * q_BHSD.size(1) * q_BHSD.size(2) * keys > kMostWeights) {
    throw Refused(branch.seam, kName, "more than 2^27 pairs of query and key", context.layer);
  }
  if (context.reads != nullptr) {
    const Tensor all = sees_BGSK.expand({k_BGKD.size(0), k_BGKD.size(1), -1, -1});
    context.reads->*branch.reads += all.sum().item<std::int64_t>();
  }
  const Tensor p_BGhSK = weights_of_keys(q_BHSD, k_BGKD, sees_BGSK);
  const Tensor o_BHSD = torch::matmul(p_BGhSK, v_BGKD.to(torch::kDouble).unsqueeze(2))
                            .flatten(1, 2)
                            .to(q_BHSD.scalar_type());
  context.routes.ran(branch.seam, context.layer, kName, o_BHSD);
  return o_BHSD;
}

}  // namespace

Tensor weights_of_keys(const Tensor& q_BHSD, const Tensor& k_BGKD, const Tensor& sees_BGSK) {
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  const std::int64_t groups = k_BGKD.size(1);
  // Whatever a row without keys holds, it is not looked at.
  const Tensor idle = sees_BGSK.any(-1, true).logical_not().unsqueeze(2);
  const Tensor q_BGhSD = q_BHSD.to(torch::kDouble)
                             .unflatten(1, {groups, q_BHSD.size(1) / groups})
                             .masked_fill(idle, 0.0);
  const Tensor k_BG1DK = k_BGKD.to(torch::kDouble).unsqueeze(2).transpose(3, 4);
  const double root = std::sqrt(static_cast<double>(q_BHSD.size(3)));
  const Tensor hidden = sees_BGSK.logical_not().unsqueeze(2);
  const Tensor logits = (torch::matmul(q_BGhSD, k_BG1DK) / root).masked_fill(hidden, kNever);
  if (logits.size(4) == 0) return logits;
  const Tensor largest = logits.detach().amax(-1, true);
  const Tensor powers = torch::exp(logits - largest.masked_fill(largest.eq(kNever), 0.0));
  const Tensor sum = powers.sum(-1, true);
  return powers / sum.masked_fill(sum.eq(0.0), 1.0);
}

Tensor sees_compressed(const SeamContext& context,
                       std::int64_t length,
                       std::int64_t tokens,
                       torch::Device device) {
  const Tensor end_C = counted(0, tokens, device) * context.config.d + context.config.l;
  const Tensor sees_SC = positions_S1(context, length, device).ge(end_C - 1);
  return sees_SC.unsqueeze(0).unsqueeze(0);
}

Tensor attend_cmp(const SeamContext& context,
                  const Tensor& q_BHSD,
                  const Tensor& k_BGCD,
                  const Tensor& v_BGCD) {
  const Tensor sees = sees_compressed(context, q_BHSD.size(2), k_BGCD.size(2), q_BHSD.device());
  return attend(context, {"attend_cmp", &Reads::cmp}, q_BHSD, k_BGCD, v_BGCD, sees);
}

Tensor attend_sel(const SeamContext& context,
                  const Tensor& q_BHSD,
                  const Tensor& k_BGSD,
                  const Tensor& v_BGSD,
                  const Tensor& blocks_BGSn) {
  const Tensor u_K = counted(0, k_BGSD.size(2), q_BHSD.device());
  const Tensor block_K = u_K.floor_divide(context.config.l_sel);
  Tensor listed = torch::zeros({1}, torch::dtype(torch::kBool).device(q_BHSD.device()));
  for (std::int64_t place = 0; place < blocks_BGSn.size(3); ++place) {
    listed = listed.logical_or(blocks_BGSn.select(3, place).unsqueeze(3).eq(block_K));
  }
  const Tensor past_SK = positions_S1(context, q_BHSD.size(2), q_BHSD.device()).ge(u_K);
  return attend(
      context, {"attend_sel", &Reads::sel}, q_BHSD, k_BGSD, v_BGSD, listed.logical_and(past_SK));
}

Tensor attend_win(const SeamContext& context,
                  const Tensor& q_BHSD,
                  const Tensor& k_BGSD,
                  const Tensor& v_BGSD) {
  const Tensor u_K = counted(0, k_BGSD.size(2), q_BHSD.device());
  const Tensor back_SK = positions_S1(context, q_BHSD.size(2), q_BHSD.device()) - u_K;
  const Tensor sees_SK = back_SK.ge(0).logical_and(back_SK.lt(context.config.w));
  return attend(context,
                {"attend_win", &Reads::win},
                q_BHSD,
                k_BGSD,
                v_BGSD,
                sees_SK.unsqueeze(0).unsqueeze(0));
}

}  // namespace nsa::by_hand
