#include "harness/worker/watch/recompute_watch.h"

#include <set>
#include <utility>

#include "harness/worker/record/tensor_file.h"
#include "nsa/base/hash.h"

namespace harness {
namespace {

using torch::Tensor;

constexpr std::size_t kMostQueries = 64;  // as many as a person looks at

// Bit by bit, but that one NaN is as good as another.
bool same_values(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined() || a.sizes() != b.sizes() || a.dtype() != b.dtype()) {
    return a.defined() == b.defined() && !a.defined();
  }
  return a.eq(b).logical_or_(a.isnan().logical_and_(b.isnan())).all().item<bool>();
}

// The same numbers in the same order give the same sums.
std::array<double, 2> sums_of(const Tensor& tensor) {
  return {tensor.sum(torch::kDouble).item<double>(),
          tensor.abs().sum(torch::kDouble).item<double>()};
}

std::string hash_of(const Tensor& tensor) {
  return tensor.defined() ? nsa::hash_hex(bytes_of(tensor.to(torch::kCPU).contiguous())) : "";
}

// Rows whose blocks differ, and the query positions of the first of them.
void compare_blocks(const Tensor& before_BGSn, const Tensor& after_BGSn, Recompute& row) {
  if (!before_BGSn.defined() || !after_BGSn.defined() ||
      before_BGSn.sizes() != after_BGSn.sizes()) {
    return;
  }
  row.rows = before_BGSn.size(0) * before_BGSn.size(1) * before_BGSn.size(2);
  const Tensor differs_BGS = before_BGSn.ne(after_BGSn).any(-1).to(torch::kCPU);
  row.rows_differing = differs_BGS.sum().item<std::int64_t>();
  const Tensor queries = differs_BGS.any(0).any(0).nonzero().flatten();
  for (std::int64_t i = 0; i < queries.size(0) && row.queries.size() < kMostQueries; ++i) {
    row.queries.push_back(queries[i].item<int>());
  }
}

}  // namespace

RecomputeWatch::RecomputeWatch(Channel& channel,
                               nsa::ActivationCheckpoint& checkpoint,
                               nsa::NsaLm& model,
                               std::string mode)
    : channel_(channel), mode_(std::move(mode)) {
  if (checkpoint.layers().empty()) return;
  for (int layer = 0; layer < static_cast<int>(model->config().n_layers); ++layer) {
    watch_layer(model->attention(layer)->seams());
  }
  checkpoint.observe(
      {[this](int layer, const Tensor& y_BSE) { forward_[layer].y_BSE = y_BSE.detach(); },
       [this](int layer, const Tensor& y_BSE) { again_[layer].y_BSE = y_BSE.detach(); }});
}

RecomputeWatch::Look& RecomputeWatch::now(const nsa::SeamContext& context) {
  return nsa::is_recomputing() ? again_[nsa::recomputing_layer()] : forward_[context.layer];
}

void RecomputeWatch::watch_layer(nsa::AttentionSeams& seams) {
  seams.select = [inner = std::move(seams.select), this](const nsa::SeamContext& context,
                                                         const Tensor& p_grp_BGSN) {
    Tensor blocks_BGSn = inner(context, p_grp_BGSN);
    now(context).blocks_BGSn = blocks_BGSn.detach().clone();
    return blocks_BGSn;
  };
  // What computes a whole layer calls no seam: what it shows stands for what the seams would have told.
  seams.attention = [inner = std::move(seams.attention), this](const nsa::SeamContext& context,
                                                               const nsa::AttentionSeams& parts,
                                                               const nsa::AttentionWeights& weights,
                                                               const Tensor& x_BSE) {
    nsa::SeamContext shown = context;
    shown.shown = true;
    nsa::AttentionTrace trace = inner(shown, parts, weights, x_BSE);
    Look& look = now(context);
    if (!look.blocks_BGSn.defined() && trace.blocks_BGSn.defined()) {
      look.blocks_BGSn = trace.blocks_BGSn.detach().clone();
      look.dtype = c10::toString(trace.q_BHSD.scalar_type());
      look.q_sums = sums_of(trace.q_BHSD.detach().transpose(1, 2).flatten(2));
    }
    return trace;
  };
  seams.project = [inner = std::move(seams.project), this](const nsa::SeamContext& context,
                                                           const Tensor& x_BSE,
                                                           const Tensor& weight,
                                                           nsa::Projection which) {
    Tensor result = inner(context, x_BSE, weight, which);
    if (which == nsa::Projection::q) {
      now(context).dtype = c10::toString(result.scalar_type());
      now(context).q_sums = sums_of(result.detach());
    }
    return result;
  };
}

void RecomputeWatch::begin(std::int64_t step, std::int64_t micro) {
  step_ = step;
  micro_ = micro;
  forward_.clear();
  again_.clear();
}

void RecomputeWatch::write() {
  const torch::NoGradGuard no_grad;
  for (const auto& [layer, after] : again_) {
    const Look& before = forward_[layer];
    Recompute row;
    row.step = step_;
    row.micro = micro_;
    row.layer = layer;
    row.mode = mode_;
    row.dtype_forward = before.dtype;
    row.dtype_recompute = after.dtype;
    row.blocks_forward = hash_of(before.blocks_BGSn);
    row.blocks_recompute = hash_of(after.blocks_BGSn);
    compare_blocks(before.blocks_BGSn, after.blocks_BGSn, row);
    row.queries_equal = before.q_sums == after.q_sums;
    row.output_equal = same_values(before.y_BSE, after.y_BSE);
    channel_.write(row);
  }
  forward_.clear();
  again_.clear();
}

}  // namespace harness
