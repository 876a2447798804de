// Every key of `model`, with its range and its sentence. Laws that tie several values together are in config.cpp.
#pragma once

#include <tuple>

#include "nsa/base/config.h"
#include "nsa/base/config_bounds.h"
#include "nsa/base/fields.h"

namespace nsa {

inline constexpr auto kModelFields = [] {
  using M = ModelConfig;
  return std::tuple{
      ByHand{
          "use", "name", "none", "a file of configs/models whose values the other keys override"},
      Field{"name", &M::name, "what reports call it", {}, {.initial = "model.use"}},
      Field{"dim", &M::dim, "width of the residual stream", within(1, kMaxWidth)},
      Field{"n_layers", &M::n_layers, "blocks", within(1, kMaxLayers)},
      Field{"n_heads", &M::n_heads, "query heads, a multiple of n_kv_groups", within(1, kMaxHeads)},
      Field{"n_kv_groups", &M::n_kv_groups, "key/value groups", within(1, kMaxHeads)},
      Field{"d_k", &M::d_k, "width of queries and keys, even", within(2, kMaxHeads)},
      Field{"d_v", &M::d_v, "width of values", within(1, kMaxHeads)},
      Field{"l", &M::l, "tokens of a compression block, a multiple of d", within(1, kMaxWidth)},
      Field{"d", &M::d, "stride of the compression blocks", within(1, kMaxWidth)},
      Field{
          "l_sel", &M::l_sel, "tokens of a selection block, a multiple of d", within(1, kMaxWidth)},
      Field{"n_sel", &M::n_sel, "blocks selected, the forced ones included", within(1, kMaxWidth)},
      Field{"w", &M::w, "tokens of the window, the query's own included", within(1, kMaxLength)},
      Field{"init_blocks",
            &M::init_blocks,
            "first blocks that are always selected",
            within(0, kMaxWidth)},
      Field{"local_blocks",
            &M::local_blocks,
            "last blocks that are always selected",
            within(1, kMaxWidth)},
      Field{"vocab_size",
            &M::vocab_size,
            "at least 256 for text, whose tokens are bytes",
            within(2, kMaxVocabulary)},
      Field{"tied_head",
            &M::tied_head,
            "lm_head multiplies with embed.weight: one parameter, with the gradients of both",
            {},
            {.sparse = true}},
      Field{"dropout",
            &M::dropout,
            "of kind training: share of the numbers that each half of a block adds to the residual "
            "stream which are dropped",
            {.low = 0, .high = 1, .high_excluded = true},
            {.sparse = true}},
      Field{"mlp_ratio", &M::mlp_ratio, "hidden width of the MLP over dim", within(1, 64)},
      Field{"rope_base", &M::rope_base, "base of the rotary angles", above(1, kHuge)},
      Field{"rope_scale", &M::rope_scale, "positions are divided by it", above(0, kHuge)},
      Field{"gate", &M::gate, "how the branches are weighed: group_softmax or head_sigmoid"},
      Field{"gate_temp", &M::gate_temp, "temperature of the gate's softmax", above(0, kHuge)},
      Field{"gate_hidden",
            &M::gate_hidden,
            "hidden width of the gate; 0: max(1, d_k/2)",
            within(0, kMaxWidth)},
      Field{"phi", &M::phi, "how a compression block becomes a token: avg, conv or mlp"},
      Field{"eq9", &M::eq9, "how scores reach selection blocks: fractional or overlap"}};
}();

}  // namespace nsa
