// The seams of one attention layer: named places where one implementation can stand for another (back end, fault, plugin).
// Each layer owns a set of its own, so that one layer can differ. An implementation counts itself in SeamContext::routes.
//
// Shape letters: B batch, S position, H query heads, G key/value groups, h heads in a group (H = G*h, head g*h+i), D width
// of a head (d_k or d_v), C compressed tokens, N selection blocks, n selected blocks. q is [B,H,S,D] with heads in order.
#pragma once

#include <functional>
#include <string>

#include <torch/torch.h>

#include "nsa/base/config.h"
#include "nsa/seams/routes.h"

namespace nsa {

struct SeamContext {
  const ModelConfig& config;
  int layer = 0;
  Routes& routes;
};

enum class Pooled { key, value };   // what `compress` pools

// Weights of the gate (group_softmax): fc1 [E,d_k], [E]; fc2 [3,E], [3].
struct GateWeights {
  torch::Tensor fc1_weight;
  torch::Tensor fc1_bias;
  torch::Tensor fc2_weight;
  torch::Tensor fc2_bias;
};

struct AttentionSeams {
  using Tensor = torch::Tensor;
  // Rotates x [B,H|G,S,D] at the absolute positions first, first+1, ...
  std::function<Tensor(const SeamContext&, const Tensor& x_BHSD, std::int64_t first)> rope;
  // raw [B,G,S,D] -> [B,G,C,D]
  std::function<Tensor(const SeamContext&, const Tensor& raw_BGSD, Pooled what)> compress;
  // -> importance p_grp [B,G,S,N] of every block, without gradient
  std::function<Tensor(const SeamContext&, const Tensor& q_BHSD, const Tensor& k_cmp_BGCD)> score;
  // -> blocks [B,G,S,n] int64, ascending, then -1
  std::function<Tensor(const SeamContext&, const Tensor& p_grp_BGSN)> select;
  // -> outputs [B,H,S,d_v]
  std::function<Tensor(const SeamContext&, const Tensor& q_BHSD, const Tensor& k_BGCD, const Tensor& v_BGCD)> attend_cmp;
  std::function<Tensor(const SeamContext&, const Tensor& q_BHSD, const Tensor& k_BGSD, const Tensor& v_BGSD,
                       const Tensor& blocks_BGSn)> attend_sel;
  std::function<Tensor(const SeamContext&, const Tensor& q_BHSD, const Tensor& k_BGSD, const Tensor& v_BGSD)> attend_win;
  // -> [B,G,S,3], order cmp, sel, win
  std::function<Tensor(const SeamContext&, const Tensor& q_BHSD, const GateWeights& weights)> gate;
};

// The implementation of every seam that `route` asks for ("attend_sel" -> "reference"); seams not named are `reference`.
// Throws: Error naming the seam, the implementation and what it cannot do.
[[nodiscard]] AttentionSeams make_attention_seams(const ModelConfig& config,
                                                  const std::map<std::string, std::string>& route);

// seam -> names of its implementations, the default first: for the manifest.
[[nodiscard]] std::map<std::string, std::vector<std::string>> seam_implementations();

}  // namespace nsa
