// The language model around the attention layer in float64: embedding, layers of attention and mlp
// with their norms, head and loss (golden README, "Language model"); forward and a hand-derived
// backward. Same inputs, same bits, whatever the number of threads.
// Legend: B batch, S tokens, E = dim, V = vocab_size, L layers, G groups.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "oracles/attention/attention.h"

namespace oracles {

struct LmConfig {
  AttentionConfig attention;
  std::int64_t n_layers = 0;
  std::int64_t vocab_size = 0;
  std::int64_t mlp_ratio = 4;
  bool tied_head = false;  // the head multiplies with embed.weight, and there is no lm_head.weight
};

// Throws std::invalid_argument that names the value found and what was wanted.
void validate(const LmConfig& config);

// Every parameter by the golden files' name (without "p."). REQUIRES: a valid config.
std::map<std::string, Shape> parameter_shapes(const LmConfig& config);

struct LmOptions {
  // Blocks [B,G,S,n_sel] of each layer, as AttentionOptions::replay; empty: the oracle's own.
  std::vector<IntTensor> replay = {};
  // As cross_entropy()'s.
  std::vector<std::int64_t> scored = {};
  // Of each layer, what the attention's and the mlp's result are multiplied with before they are added, [B*S,E] each (residual
  // dropout); empty: nothing is dropped.
  std::vector<std::array<Tensor, 2>> factors = {};
  // Of each sequence, the lengths of its documents (attention/documents.h); empty: it is one. The last token of a document is not
  // scored.
  std::vector<std::vector<std::int64_t>> documents = {};
  // Keep what is between the stages too: LmResult::stages and LmPass::stage_gradients.
  bool keep_stages = false;
  // 0: as many as the hardware has.
  int threads = 0;
};

// Between the stages of a block, or the gradients of the loss there; what enters the block and what
// enters its norm2 are LmResult::inputs and ::mlp_inputs. H = mlp_ratio * dim.
struct BlockStages {
  Tensor norm1;      // [B,S,E] what enters the attention
  Tensor attention;  // [B,S,E] its result
  Tensor norm2;      // [B,S,E] what enters fc1
  Tensor hidden;     // [B,S,H] what leaves fc1, before silu
  Tensor mlp;        // [B,S,E] what leaves fc2
};

struct LmStages {
  std::vector<BlockStages> blocks;
  Tensor norm_f;  // [B,S,E] what enters lm_head
};

struct LmStageGradients {
  std::vector<Tensor> inputs;      // of LmResult::inputs
  std::vector<Tensor> mlp_inputs;  // of LmResult::mlp_inputs
  LmStages stages;
  Tensor logits;  // [B,S,V]
};

struct LmResult {
  double loss = 0;
  Tensor logits;  // [B,S,V]
  // [B,S,E] what enters each layer's norm1, and last what enters norm_f; and each layer's norm2.
  std::vector<Tensor> inputs;
  std::vector<Tensor> mlp_inputs;
  // Of each layer: the oracle's own choice of blocks [B,G,S,n_sel], and its margin [B,G,S].
  std::vector<IntTensor> blocks;
  std::vector<Tensor> margins;
  LmStages stages;  // with LmOptions::keep_stages only
};

struct LmPass {
  LmResult result;
  Weights gradients;  // of the loss, by the parameters' names; zeros without influence
  LmStageGradients stage_gradients;  // with LmOptions::keep_stages only
};

// tokens [B,S], S >= 2. Both throw std::invalid_argument where config, parameters, tokens or
// options do not fit each other, or a parameter holds a NaN or an infinity.
LmResult language_model(const LmConfig& config,
                        const Weights& parameters,
                        const IntTensor& tokens,
                        const LmOptions& options = {});

// Keeps what LmResult holds only, and computes each layer again on the way back.
LmPass language_model_with_gradients(const LmConfig& config,
                                     const Weights& parameters,
                                     const IntTensor& tokens,
                                     const LmOptions& options = {});

}  // namespace oracles
