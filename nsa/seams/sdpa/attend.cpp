#include <algorithm>

#include "nsa/seams/fan_out.h"
#include "nsa/seams/no_keys.h"
#include "nsa/seams/reference/masked_attention.h"
#include "nsa/seams/sdpa/sdpa.h"

namespace nsa::sdpa {
namespace {

using reference::Rows;

// Keys that the queries of a chunk can see at all, and which query sees which of them: every one sees at least one.
using Seen = reference::SeenKeys;

Tensor one_chunk(const Tensor& q_PhTD, const Tensor& k_PSD, const Tensor& v_PSD, const Seen& keys) {
  const auto heads = q_PhTD.size(1);
  const Tensor k_PhKD =
      k_PSD.slice(1, keys.first, keys.last).unsqueeze(1).expand({-1, heads, -1, -1});
  const Tensor v_PhKD =
      v_PSD.slice(1, keys.first, keys.last).unsqueeze(1).expand({-1, heads, -1, -1});
  return at::scaled_dot_product_attention(q_PhTD, k_PhKD, v_PhKD, keys.allowed_TK);
}

// `seen` gets the positions of a chunk's queries.
Tensor attend(const SeamContext& context,
              const Tensor& q_BHSD,
              const Tensor& k_BGSD,
              const Tensor& v_BGSD,
              std::int64_t rows,
              std::int64_t Reads::*branch,
              const std::function<Seen(Rows)>& seen) {
  const Tensor q_PhSD = reference::group_heads(q_BHSD, k_BGSD.size(1));
  // Each chunk gets keys and values of its own, whose gradients are added in float32.
  const auto chunks = (q_BHSD.size(2) + rows - 1) / rows;
  const std::vector<Tensor> k_PSD = fan_out(k_BGSD.flatten(0, 1), chunks);
  const std::vector<Tensor> v_PSD = fan_out(v_BGSD.flatten(0, 1), chunks);
  const Tensor o_PhSD = reference::join_chunks(q_BHSD.size(2), rows, 2, [&](Rows chunk) {
    const Seen keys = seen({chunk.first + context.first, chunk.last + context.first});
    if (context.reads != nullptr) {
      context.reads->*branch +=
          reference::keys_read(keys.allowed_TK.unsqueeze(0), k_BGSD.size(0) * k_BGSD.size(1));
    }
    const auto number = static_cast<std::size_t>(chunk.first / rows);
    return one_chunk(q_PhSD.slice(2, chunk.first, chunk.last), k_PSD[number], v_PSD[number], keys);
  });
  return o_PhSD.view({q_BHSD.size(0), q_BHSD.size(1), q_BHSD.size(2), v_BGSD.size(3)});
}

}  // namespace

// arXiv 2502.11089 section 3.3.3: the last w tokens, the query's own included.
Tensor attend_win(const SeamContext& context,
                  const Tensor& q_BHSD,
                  const Tensor& k_BGSD,
                  const Tensor& v_BGSD,
                  std::int64_t chunk_bytes) {
  const auto rows = reference::window_rows(context.config, q_BHSD, k_BGSD.size(2), chunk_bytes);
  const Tensor o_BHSD = attend(context, q_BHSD, k_BGSD, v_BGSD, rows, &Reads::win, [&](Rows at) {
    return reference::window_keys(context.config, at, q_BHSD.device());
  });
  context.routes.ran("attend_win", context.layer, "sdpa", o_BHSD);
  return o_BHSD;
}

// arXiv 2502.11089 Eq. 7. Rows that see no compressed token are zeros and never reach a softmax.
Tensor attend_cmp(const SeamContext& context,
                  const Tensor& q_BHSD,
                  const Tensor& k_BGCD,
                  const Tensor& v_BGCD,
                  std::int64_t chunk_bytes) {
  const auto& config = context.config;
  const auto length = q_BHSD.size(2);
  const auto keyless = std::clamp<std::int64_t>(config.l - 1 - context.first, 0, length);
  Tensor o_BHSD;
  if (keyless == length) {
    o_BHSD = over_no_keys(q_BHSD, k_BGCD.slice(2, 0, 0), v_BGCD.slice(2, 0, 0));
  } else {
    SeamContext later = context;
    later.first += keyless;
    const Tensor q_BHRD = q_BHSD.slice(2, keyless);
    const auto rows = reference::rows_over_keys(q_BHRD, k_BGCD.size(2), chunk_bytes);
    const Tensor o_BHRD = attend(later, q_BHRD, k_BGCD, v_BGCD, rows, &Reads::cmp, [&](Rows at) {
      const auto keys = reference::visible_compressed(config, at.last - 1);
      return Seen{
          0, keys, reference::compressed_mask(config, at, keys, q_BHSD.device()).squeeze(0)};
    });
    o_BHSD = torch::constant_pad_nd(o_BHRD, {0, 0, keyless, 0});
  }
  context.routes.ran("attend_cmp", context.layer, "sdpa", o_BHSD);
  return o_BHSD;
}

}  // namespace nsa::sdpa
