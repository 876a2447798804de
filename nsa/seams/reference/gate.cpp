#include "nsa/seams/reference/masked_attention.h"
#include "nsa/seams/reference/reference.h"

namespace nsa::reference {
namespace {

// One softmax over the three branches for each group (the g of Eq. 5): [B,G,S,3].
Tensor group_softmax(const ModelConfig& config,
                     const Tensor& mean_BGSD,
                     const GateWeights& weights) {
  const Tensor hidden_BGSF =
      torch::silu(torch::linear(mean_BGSD, weights.fc1_weight, weights.fc1_bias));
  const Tensor logits_BGS3 = torch::linear(hidden_BGSF, weights.fc2_weight, weights.fc2_bias);
  return (wide(logits_BGS3) / config.gate_temp).softmax(-1).to(mean_BGSD.scalar_type());
}

// The paper's form: a sigmoid for each head and branch, from the layer's input: [B,H,S,3].
Tensor head_sigmoid(const ModelConfig& config, const Tensor& x_BSE, const GateWeights& weights) {
  const Tensor logits_BSR = torch::linear(x_BSE, weights.proj_weight);
  const Tensor gate_BSH3 = wide(logits_BSR).sigmoid().unflatten(-1, {config.n_heads, 3});
  return gate_BSH3.transpose(1, 2).to(x_BSE.scalar_type());
}

Tensor constant(const SeamContext& context, const Tensor& x_BSE) {
  const auto& values = *context.gate_override;
  const auto& config = context.config;
  const bool per_head = config.gate == Gate::head_sigmoid;
  const Tensor gate_3 = torch::tensor({values[0], values[1], values[2]}, x_BSE.options());
  return gate_3.expand(
      {x_BSE.size(0), per_head ? config.n_heads : config.n_kv_groups, x_BSE.size(1), 3});
}

}  // namespace

Tensor gate_of_means(const SeamContext& context,
                     const Tensor& x_BSE,
                     const Tensor& mean_BGSD,
                     const GateWeights& weights) {
  if (context.gate_override) return constant(context, x_BSE);
  if (context.config.gate == Gate::head_sigmoid) {
    return head_sigmoid(context.config, x_BSE, weights);
  }
  return group_softmax(context.config, mean_BGSD, weights);
}

Tensor gate(const SeamContext& context,
            const Tensor& x_BSE,
            const Tensor& q_BHSD,
            const GateWeights& weights) {
  const auto& config = context.config;
  const bool reads_means = !context.gate_override && config.gate == Gate::group_softmax;
  Tensor mean_BGSD;
  if (reads_means) {
    mean_BGSD = wide(q_BHSD.unflatten(1, {config.n_kv_groups, config.heads_per_group()}))
                    .mean(2)
                    .to(q_BHSD.scalar_type());
  }
  const Tensor gate = gate_of_means(context, x_BSE, mean_BGSD, weights);
  context.routes.ran("gate", context.layer, "reference", gate);
  return gate;
}

}  // namespace nsa::reference
