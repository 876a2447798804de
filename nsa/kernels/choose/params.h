// Scores of selection blocks from compressed attention, and the choice of the best. A score is the sum over the group's heads,
// in their order, of the probabilities of the compressed tokens that touch the block, each times its share; all blocks are
// summed in the same order, so that equal keys give equal bits.
#pragma once

#include "nsa/kernels/common/params.h"

namespace nsa::kernels {

// Geometry::candidates_end, with the divider of a block's tokens.
NSA_BOTH int candidates_end(const Geometry& g, const Divider& by_block, int t) {
  return smaller(by_block.quotient(t + 1), by_block.quotient(t) - g.local_blocks + 1);
}

struct ScoreParams {
  Common common;
  RowTiles tiles;  // of queries: one head at a time
  TensorRef q;
  TensorRef k;                 // compressed
  const float* lse = nullptr;  // [G,T,h]
  TensorRef scores;            // float32 [B,G,S,N]
  bool every_block = false;    // false: only what decides a choice
  // A compressed token's share of a block is its tokens there / share_unit.
  float share_unit = 1.0F;
  // Of the geometry, so that blocks do not divide.
  Divider by_d;
  Divider by_block;        // tokens of a selection block
  int first_deciding = 0;  // the first position whose blocks scores decide
  int stride = 1;          // compressed tokens from one selection block to the next
  int touching = 1;        // compressed tokens that touch one
  int tile_blocks = 1;     // selection blocks that one tile of compressed tokens gives scores of
  // Tiles of compressed tokens that a tile of queries may need; they run together, so that its queries come from memory once.
  Divider key_tiles;
  int blocks_end = 0;  // no query of the launch needs a score from here on

  // Shares of the compressed tokens of a block where it has four of its own and one from before it: scores then are made between
  // lanes. Not used otherwise.
  bool by_lanes = false;
  float shares[5] = {};

  NSA_BOTH int compressed(int t) const {
    const Geometry& g = common.geometry;
    return t + 1 < g.l ? 0 : by_d.quotient(t + 1 - g.l) + 1;
  }
  NSA_BOTH int candidates_end(int t) const {
    return kernels::candidates_end(common.geometry, by_block, t);
  }
};

struct SelectParams {
  Common common;
  Divider by_block;  // tokens of a selection block
  int from = 0;      // tokens
  int to = 0;
  TensorRef scores;
  TensorRef blocks;  // int32 [B,G,S,n]
};

}  // namespace nsa::kernels
