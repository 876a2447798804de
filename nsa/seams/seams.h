// The seams of one attention layer: named places where one implementation can stand for another (back end, fault, plugin).
// Each layer owns a set of its own, so that one layer can differ. An implementation counts itself in SeamContext::routes.
//
// Shape letters: B batch, S position, H query heads, G key/value groups, h heads in a group (H = G*h, head g*h+i), D width
// of a head (d_k or d_v), E width of the residual stream, C compressed tokens, N selection blocks, n selected blocks. q is
// [B,H,S,D] with heads in order. Where SeamContext::first is not 0, queries are the S positions from there on and keys all
// positions before their end.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>

#include "nsa/base/config.h"
#include "nsa/seams/attention_trace.h"
#include "nsa/seams/packed_documents.h"
#include "nsa/seams/reads.h"
#include "nsa/seams/routes.h"
#include "nsa/torch.h"

namespace nsa {

using GateOverride = std::optional<std::array<double, 3>>;  // of cmp, sel, win

struct SeamContext {
  const ModelConfig& config;
  int layer = 0;
  Routes& routes;
  // Constant gates of every token and head in place of the learned ones; the gate's weights then get no gradient.
  GateOverride gate_override = {};
  // Position of the first query: 0 for a whole sequence, the token's own in decoding. An implementation that cannot do
  // another one than 0 refuses it.
  std::int64_t first = 0;
  // Where score and attend_* add what they read, if anywhere.
  Reads* reads = nullptr;
  // Somebody looks at the trace: an implementation of `attention` fills all of it.
  bool shown = false;
  // Of packed documents, which are attended to one by one: this one's place in its sequence.
  std::int64_t document = 0;
  // Or all of them at once, where AttentionSeams::takes_documents: what the sequences of x are packed of.
  const PackedDocuments* documents = nullptr;
};

enum class Projection { q, k_cmp, v_cmp, k_sel, v_sel, k_win, v_win };

enum class Pooled { key, value };  // what `compress` pools

// Weights of phi for keys or for values; those of the variant are defined.
struct PhiWeights {
  torch::Tensor conv;        // conv: [D,1,l]
  torch::Tensor pe;          // mlp: [l,D]
  torch::Tensor fc1_weight;  // mlp: [2*D, l*D]
  torch::Tensor fc2_weight;  // mlp: [D, 2*D]
};

// Weights of the gate; those of the variant are defined. F is the gate's hidden width.
struct GateWeights {
  torch::Tensor fc1_weight;   // group_softmax: [F,d_k]
  torch::Tensor fc1_bias;     // group_softmax: [F]
  torch::Tensor fc2_weight;   // group_softmax: [3,F]
  torch::Tensor fc2_bias;     // group_softmax: [3]
  torch::Tensor proj_weight;  // head_sigmoid: [3*H,E], row 3*head + branch
};

// All weights of a layer, for what computes the whole attention.
struct AttentionWeights {
  torch::Tensor q;                    // [H*d_k, E]
  torch::Tensor k_cmp, k_sel, k_win;  // [G*d_k, E]
  torch::Tensor v_cmp, v_sel, v_win;  // [G*d_v, E]
  torch::Tensor out;                  // [E, H*d_v]
  GateWeights gate;
  PhiWeights phi_k, phi_v;
};

struct AttentionSeams {
  using Tensor = torch::Tensor;
  // The whole layer. `reference` calls the other seams in order for the whole sequence.
  std::function<AttentionTrace(
      const SeamContext&, const AttentionSeams&, const AttentionWeights&, const Tensor& x_BSE)>
      attention;
  // `attention` looks at SeamContext::documents, and attends to all of a batch in one call. Without, it is called once for each.
  // Whoever puts something else in its place that does not look there takes this back.
  bool takes_documents = false;
  // x [B,S,E], weight [rows,E] -> [B,S,rows]
  std::function<Tensor(
      const SeamContext&, const Tensor& x_BSE, const Tensor& weight, Projection which)>
      project;
  // Rotates x [B,H|G,S,D] at the absolute positions first, first+1, ...
  std::function<Tensor(const SeamContext&, const Tensor& x_BHSD, std::int64_t first)> rope;
  // raw [B,G,S,D] -> [B,G,C,D]; the first raw token is the first that compressed token 0 of the result covers
  std::function<Tensor(
      const SeamContext&, const Tensor& raw_BGSD, Pooled what, const PhiWeights& weights)>
      compress;
  // -> importance p_grp [B,G,S,N] of every block, without gradient; float32 at least
  std::function<Tensor(const SeamContext&, const Tensor& q_BHSD, const Tensor& k_cmp_BGCD)> score;
  // -> blocks [B,G,S,n] int64, ascending, then -1
  std::function<Tensor(const SeamContext&, const Tensor& p_grp_BGSN)> select;
  // -> outputs [B,H,S,d_v]
  std::function<Tensor(
      const SeamContext&, const Tensor& q_BHSD, const Tensor& k_BGCD, const Tensor& v_BGCD)>
      attend_cmp;
  std::function<Tensor(const SeamContext&,
                       const Tensor& q_BHSD,
                       const Tensor& k_BGSD,
                       const Tensor& v_BGSD,
                       const Tensor& blocks_BGSn)>
      attend_sel;
  std::function<Tensor(
      const SeamContext&, const Tensor& q_BHSD, const Tensor& k_BGSD, const Tensor& v_BGSD)>
      attend_win;
  // x is the layer's input -> [B,G,S,3] (group_softmax) or [B,H,S,3] (head_sigmoid), order cmp, sel, win
  std::function<Tensor(
      const SeamContext&, const Tensor& x_BSE, const Tensor& q_BHSD, const GateWeights& weights)>
      gate;
};

// Where a route is to run: what a configuration does not say.
struct Surroundings {
  torch::Device device;
  torch::ScalarType dtype;
  bool decodes = false;    // from caches, and what is read is counted
  bool autocasts = false;  // `dtype` is what products are cast to, and weights are float32
};

// Why an implementation cannot work there, as in "cannot do " + reason; "" where nobody knows a reason beforehand. Throws: Error
// on a name that there is not.
[[nodiscard]] std::string unsupported(const std::string& seam,
                                      const std::string& implementation,
                                      const ModelConfig& config,
                                      const Surroundings& where);

// Throws: Refused when an implementation that `route` asks for cannot work there. What nobody asks beforehand, the
// implementation itself refuses when it is called.
void check_route(const ModelConfig& config,
                 const std::map<std::string, std::string>& route,
                 const Surroundings& where);

// The implementation of every seam that `route` asks for ("attend_sel" -> "reference"); seams not named are `reference`.
// Throws: Error on a name that there is not; Refused when an implementation cannot do what `config` wants.
[[nodiscard]] AttentionSeams make_attention_seams(const ModelConfig& config,
                                                  const std::map<std::string, std::string>& route);

// seam -> names of its implementations, the default first, those that can only refuse last, and `auto` where a route may ask
// for it (automatic.h): for the manifest.
[[nodiscard]] std::map<std::string, std::vector<std::string>> seam_implementations();

}  // namespace nsa
