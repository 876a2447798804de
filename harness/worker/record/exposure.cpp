#include "harness/worker/record/exposure.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace harness {
namespace {

using torch::Tensor;

constexpr std::int64_t kSampledRows = 64;
constexpr double kSameOutput = 1e-2;  // of the largest one: above the rounding of any type

// [B,H,S,.] -> [B,G,S]: is it true of any number of the group's heads?
Tensor any_of_group(const Tensor& flags_BHSD, std::int64_t groups) {
  const auto heads = flags_BHSD.size(1) / groups;
  return flags_BHSD.any(-1).unflatten(1, {groups, heads}).any(2);
}

std::int64_t how_many(const Tensor& flags) {
  return flags.sum().item<std::int64_t>();
}

// What attention over all keys up to the query gives at some rows: [B,H,R,V].
Tensor dense_output(const Tensor& q_BHRD,
                    const Tensor& k_BHSD,
                    const Tensor& v_BHSV,
                    const Tensor& rows_R) {
  const double root = std::sqrt(static_cast<double>(q_BHRD.size(-1)));
  const auto positions_S = torch::arange(k_BHSD.size(2), rows_R.options());
  const auto hidden_RS = positions_S.unsqueeze(0).gt(rows_R.unsqueeze(1));
  const auto logits_BHRS = (torch::matmul(q_BHRD, k_BHSD.transpose(2, 3)) / root)
                               .masked_fill(hidden_RS, -std::numeric_limits<double>::infinity());
  return torch::matmul(logits_BHRS.softmax(-1), v_BHSV);
}

// Equal values give one output over any set of keys: then positions alone tell.
std::int64_t rows_cut(const nsa::AttentionTrace& trace, const nsa::ModelConfig& config) {
  const auto length = trace.q_BHSD.size(2);
  const auto groups = config.n_kv_groups;
  const auto heads = trace.q_BHSD.size(1) / groups;
  const auto lists = trace.q_BHSD.size(0) * groups;
  const auto sampled = std::min(length, kSampledRows);
  const auto rows_R = torch::arange(sampled, torch::kLong)
                          .add(1)
                          .mul(length)
                          .floor_divide(sampled)
                          .sub(1)
                          .to(trace.q_BHSD.device());
  const auto wide = [](const Tensor& tensor) { return tensor.detach().to(torch::kDouble); };
  const auto k_BHSD = wide(trace.k_win_BGSD).repeat_interleave(heads, 1);
  const auto v_BHSV = wide(trace.v_win_BGSD).repeat_interleave(heads, 1);
  const auto found_BHRV = wide(trace.o_win_BHSD.index_select(2, rows_R));
  const double size = v_BHSV.abs().max().item<double>();
  const double spread = (v_BHSV - v_BHSV.narrow(2, 0, 1)).abs().max().item<double>();
  if (!(spread > kSameOutput * size)) return lists * std::max<std::int64_t>(0, length - config.w);
  const auto all_BHRV =
      dense_output(wide(trace.q_BHSD.index_select(2, rows_R)), k_BHSD, v_BHSV, rows_R);
  const double limit = kSameOutput * all_BHRV.abs().max().item<double>();
  const auto differs = any_of_group((found_BHRV - all_BHRV).abs().le(limit).logical_not(), groups);
  return how_many(differs) * length / sampled;
}

// Of each document alone: rows count from its beginning.
Exposure exposure_of_documents(const nsa::AttentionTrace& trace, const nsa::ModelConfig& config) {
  Exposure all;
  all.layer = trace.layer;
  for (const nsa::AttentionTrace& document : trace.documents) {
    const Exposure own = exposure_of(document, config);
    all.rows += own.rows;
    all.rows_dropped += own.rows_dropped;
    all.rows_cut += own.rows_cut;
    all.rows_compressed += own.rows_compressed;
  }
  return all;
}

}  // namespace

Exposure exposure_of(const nsa::AttentionTrace& trace, const nsa::ModelConfig& config) {
  const torch::NoGradGuard no_grad;
  if (!trace.documents.empty()) return exposure_of_documents(trace, config);
  const auto blocks_BGSn = trace.blocks_BGSn.to(torch::kCPU);
  const std::int64_t length = blocks_BGSn.size(2);
  const auto available_S = torch::arange(length, torch::kLong).floor_divide(config.l_sel) + 1;
  Exposure exposure;
  exposure.layer = trace.layer;
  exposure.rows = blocks_BGSn.size(0) * blocks_BGSn.size(1) * length;
  exposure.rows_dropped = how_many(blocks_BGSn.ge(0).sum(-1).lt(available_S));
  exposure.rows_cut = rows_cut(trace, config);
  exposure.rows_compressed =
      how_many(any_of_group(trace.o_cmp_BHSD.detach().ne(0), config.n_kv_groups));
  return exposure;
}

}  // namespace harness
