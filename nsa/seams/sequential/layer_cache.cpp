#include "nsa/seams/sequential/layer_cache.h"

#include <algorithm>

namespace nsa {

using torch::Tensor;

namespace {

// A larger buffer that begins with `live`.
Tensor grown(const Tensor& live_BGTD, std::int64_t capacity) {
  auto shape = live_BGTD.sizes().vec();
  const auto size = shape[2];
  shape[2] = capacity;
  Tensor buffer = torch::zeros(shape, live_BGTD.options());
  buffer.slice(2, 0, size).copy_(live_BGTD);
  return buffer;
}

}  // namespace

void TokenCache::append(const KeysValues& tokens) {
  constexpr std::int64_t kLeastCapacity =
      64;  // a few tokens are appended one by one: no buffer for each
  const auto count = tokens.k_BGTD.size(2);
  const bool first = !k_BGTD_.defined();
  if (first || tokens.k_BGTD.requires_grad() || k_BGTD_.requires_grad() ||
      tokens.v_BGTD.requires_grad() || v_BGTD_.requires_grad()) {
    k_BGTD_ = first ? tokens.k_BGTD : torch::cat({all().k_BGTD, tokens.k_BGTD}, 2);
    v_BGTD_ = first ? tokens.v_BGTD : torch::cat({all().v_BGTD, tokens.v_BGTD}, 2);
    begin_ = 0;
    size_ += count;
    return;
  }
  // The first tokens are the caller's tensors: they are copied before anything is written behind them.
  if (k_BGTD_.size(2) < begin_ + size_ + count) {
    const auto capacity = std::max(2 * (size_ + count), kLeastCapacity);
    const KeysValues live = all();
    k_BGTD_ = grown(live.k_BGTD, capacity);
    v_BGTD_ = grown(live.v_BGTD, capacity);
    begin_ = 0;
  }
  k_BGTD_.slice(2, begin_ + size_, begin_ + size_ + count).copy_(tokens.k_BGTD);
  v_BGTD_.slice(2, begin_ + size_, begin_ + size_ + count).copy_(tokens.v_BGTD);
  size_ += count;
}

void TokenCache::drop_front(std::int64_t tokens) {
  TORCH_CHECK(tokens >= 0 && tokens <= size_, "cannot drop ", tokens, " of ", size_, " tokens");
  begin_ += tokens;
  size_ -= tokens;
}

KeysValues TokenCache::all() const {
  TORCH_CHECK(k_BGTD_.defined(), "read from a cache that nothing was put into");
  return {k_BGTD_.slice(2, begin_, begin_ + size_), v_BGTD_.slice(2, begin_, begin_ + size_)};
}

KeysValues TokenCache::gather(const Tensor& index_BGK) const {
  const KeysValues live = all();
  const auto of = [&](const Tensor& x_BGTD) {
    return x_BGTD.gather(2, index_BGK.unsqueeze(-1).expand({-1, -1, -1, x_BGTD.size(3)}));
  };
  return {of(live.k_BGTD), of(live.v_BGTD)};
}

LayerCache cache_of(const ModelConfig& config, const AttentionTrace& trace) {
  LayerCache cache;
  cache.length = trace.k_sel_BGSD.size(2);
  cache.pending.append({trace.k_raw_BGSD, trace.v_raw_BGSD});
  // Compressed token i begins at i*d: the next one's first raw token is the oldest still needed.
  cache.pending.drop_front(config.compressed_len(cache.length) * config.d);
  cache.cmp.append({trace.k_cmp_BGCD, trace.v_cmp_BGCD});
  cache.sel.append({trace.k_sel_BGSD, trace.v_sel_BGSD});
  cache.win.append({trace.k_win_BGSD, trace.v_win_BGSD});
  cache.win.drop_front(std::max<std::int64_t>(cache.length - config.w, 0));
  return cache;
}

}  // namespace nsa
