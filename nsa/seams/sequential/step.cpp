#include <algorithm>

#include "nsa/seams/reference/masked_attention.h"
#include "nsa/seams/reference/reference.h"
#include "nsa/seams/sequential/sequential.h"

namespace nsa::sequential {
namespace {

using torch::Tensor;

// Keys that a row read: as many for each batch and group.
std::int64_t lists_times(const Tensor& k_BGKD) {
  return k_BGKD.size(0) * k_BGKD.size(1) * k_BGKD.size(2);
}

// The tokens of the blocks of one query, one after the other, and the query's place behind them.
struct Gathered {
  Tensor index_BGK;       // positions
  Tensor blocks_BG1n;     // the same blocks as numbered among those gathered: 0, 1, ..., then -1
  std::int64_t last = 0;  // place of the query: of the last token gathered
};

Gathered gathered_blocks(const ModelConfig& config, const Tensor& blocks_BG1n, std::int64_t t) {
  const auto device = blocks_BG1n.device();
  const Tensor blocks_BGn = blocks_BG1n.squeeze(2);
  const Tensor taken_BG = blocks_BGn.ge(0).sum(-1);
  const Tensor has_current_BG = blocks_BGn.eq(t / config.l_sel).any(-1);
  const auto count = taken_BG.flatten()[0].item<std::int64_t>();
  const bool has_current = has_current_BG.flatten()[0].item<bool>();
  TORCH_CHECK(
      taken_BG.eq(count).all().item<bool>() && has_current_BG.eq(has_current).all().item<bool>(),
      "decoding wants equally many blocks for each batch and group, at position ",
      t,
      " found ",
      taken_BG);
  // Only the current block, the last of the row, ends before its end.
  const auto tokens =
      count * config.l_sel - (has_current ? config.l_sel - 1 - t % config.l_sel : 0);
  const Tensor offset_K = reference::positions(0, count * config.l_sel, device).slice(0, 0, tokens);
  const Tensor which_K = offset_K.div(config.l_sel, "floor");
  const Tensor start_BGK = blocks_BGn.index_select(2, which_K) * config.l_sel;
  const Tensor number_n = reference::positions(0, blocks_BGn.size(2), device);
  const Tensor numbers_BG1n =
      torch::where(number_n.lt(count), number_n, torch::full_like(number_n, -1))
          .expand_as(blocks_BG1n);
  return {start_BGK + offset_K.remainder(config.l_sel), numbers_BG1n, tokens - 1};
}

// One token's way through a layer.
class Step {
 public:
  Step(const SeamContext& context,
       const AttentionSeams& seams,
       const AttentionWeights& weights,
       LayerCache& cache)
      : context_(context), seams_(seams), weights_(weights), cache_(cache) {
    context_.first = cache.length;
    context_.reads = nullptr;  // counted here, where it is read
  }

  AttentionTrace run(const Tensor& x_B1E) {
    trace_.layer = context_.layer;
    trace_.x_BSE = x_B1E;
    trace_.q_BHSD = rotated(weights_.q, Projection::q, context_.config.n_heads);
    remember();
    compressed_branch();
    selected_branch();
    window_branch();
    trace_.gate = seams_.gate(context_, x_B1E, trace_.q_BHSD, weights_.gate);
    trace_.y_BSE =
        torch::linear(reference::mix_branches(
                          trace_.gate, trace_.o_cmp_BHSD, trace_.o_sel_BHSD, trace_.o_win_BHSD),
                      weights_.out);
    ++cache_.length;
    return std::move(trace_);
  }

 private:
  [[nodiscard]] Tensor projected(const Tensor& weight, Projection which, std::int64_t heads) const {
    return reference::split_heads(seams_.project(context_, trace_.x_BSE, weight, which), heads);
  }
  [[nodiscard]] Tensor rotated(const Tensor& weight, Projection which, std::int64_t heads) const {
    return seams_.rope(context_, projected(weight, which, heads), context_.first);
  }
  // The same queries where the keys are those gathered and the last of them is the query's own place.
  [[nodiscard]] SeamContext at_place(std::int64_t last) const {
    SeamContext context = context_;
    context.first = last;
    return context;
  }

  void remember() {
    const auto groups = context_.config.n_kv_groups;
    trace_.k_raw_BGSD = rotated(weights_.k_cmp, Projection::k_cmp, groups);
    trace_.v_raw_BGSD = projected(weights_.v_cmp, Projection::v_cmp, groups);
    trace_.k_sel_BGSD = rotated(weights_.k_sel, Projection::k_sel, groups);
    trace_.v_sel_BGSD = projected(weights_.v_sel, Projection::v_sel, groups);
    trace_.k_win_BGSD = rotated(weights_.k_win, Projection::k_win, groups);
    trace_.v_win_BGSD = projected(weights_.v_win, Projection::v_win, groups);
    cache_.pending.append({trace_.k_raw_BGSD, trace_.v_raw_BGSD});
    cache_.sel.append({trace_.k_sel_BGSD, trace_.v_sel_BGSD});
    cache_.win.append({trace_.k_win_BGSD, trace_.v_win_BGSD});
    cache_.win.drop_front(std::max<std::int64_t>(cache_.win.size() - context_.config.w, 0));
  }

  // The token that completes a window emits its compressed token. The very first one asks too: where l > 1 that gives no
  // token, but keys and values of the right shape that belong to the graph.
  void compress_if_due() {
    const bool due = cache_.pending.size() == context_.config.l;
    if (!due && cache_.length > 0) return;
    const KeysValues raw = cache_.pending.all();
    cache_.cmp.append({seams_.compress(context_, raw.k_BGTD, Pooled::key, weights_.phi_k),
                       seams_.compress(context_, raw.v_BGTD, Pooled::value, weights_.phi_v)});
    if (due) cache_.pending.drop_front(context_.config.d);
  }

  void compressed_branch() {
    compress_if_due();
    const KeysValues cmp = cache_.cmp.all();
    trace_.k_cmp_BGCD = cmp.k_BGTD;
    trace_.v_cmp_BGCD = cmp.v_BGTD;
    trace_.o_cmp_BHSD = seams_.attend_cmp(context_, trace_.q_BHSD, cmp.k_BGTD, cmp.v_BGTD);
    cache_.reads.cmp += lists_times(cmp.k_BGTD);
  }

  void selected_branch() {
    trace_.p_grp_BGSN = seams_.score(context_, trace_.q_BHSD, trace_.k_cmp_BGCD);
    cache_.reads.score += lists_times(trace_.k_cmp_BGCD);
    trace_.blocks_BGSn = seams_.select(context_, trace_.p_grp_BGSN);
    const Gathered blocks = gathered_blocks(context_.config, trace_.blocks_BGSn, cache_.length);
    const KeysValues sel = cache_.sel.gather(blocks.index_BGK);
    trace_.o_sel_BHSD = seams_.attend_sel(
        at_place(blocks.last), trace_.q_BHSD, sel.k_BGTD, sel.v_BGTD, blocks.blocks_BG1n);
    cache_.reads.sel += lists_times(sel.k_BGTD);
  }

  void window_branch() {
    const KeysValues win = cache_.win.all();
    trace_.o_win_BHSD =
        seams_.attend_win(at_place(win.k_BGTD.size(2) - 1), trace_.q_BHSD, win.k_BGTD, win.v_BGTD);
    cache_.reads.win += lists_times(win.k_BGTD);
  }

  SeamContext context_;
  const AttentionSeams& seams_;
  const AttentionWeights& weights_;
  LayerCache& cache_;
  AttentionTrace trace_;
};

}  // namespace

AttentionTrace step(const SeamContext& context,
                    const AttentionSeams& seams,
                    const AttentionWeights& weights,
                    LayerCache& cache,
                    const Tensor& x_B1E) {
  TORCH_CHECK(x_B1E.size(1) == 1, "a step takes one token, got ", x_B1E.size(1));
  return Step(context, seams, weights, cache).run(x_B1E);
}

}  // namespace nsa::sequential
