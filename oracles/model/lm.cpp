#include "oracles/model/lm.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "oracles/attention/documents.h"
#include "oracles/linear.h"
#include "oracles/model/cross_entropy.h"
#include "oracles/model/rms_norm.h"
#include "oracles/silu.h"

namespace oracles {
namespace {

constexpr std::int64_t kMaxSize = std::int64_t{1} << 20;  // as in config.cpp

std::string layer_prefix(std::int64_t layer) {
  return "blocks." + std::to_string(layer) + ".";
}

void validate_tokens(const IntTensor& tokens, std::int64_t vocab_size) {
  if (tokens.shape.size() != 2 || tokens.shape[0] < 1 || tokens.shape[1] < 2) {
    throw std::invalid_argument("tokens: found shape " + shape_text(tokens.shape) +
                                ", wanted [B,S] with B at least 1 and S at least 2");
  }
  require_shape(tokens, tokens.shape, "tokens");
  for (const std::int64_t token : tokens.data) {
    if (token < 0 || token >= vocab_size) {
      throw std::invalid_argument("tokens: found " + std::to_string(token) + ", wanted 0 to " +
                                  std::to_string(vocab_size - 1));
    }
  }
}

void add(Tensor& to, const Tensor& from) {
  for (std::size_t i = 0; i < to.data.size(); ++i) {
    to.data[i] += from.data[i];
  }
}

// Rows of the table [V,E] at the tokens: [B,S,E].
Tensor embedded(const Tensor& table, const IntTensor& tokens) {
  const std::int64_t width = table.shape[1];
  Tensor x = zeros({tokens.shape[0], tokens.shape[1], width});
  auto to = x.data.begin();
  for (const std::int64_t token : tokens.data) {
    to = std::copy_n(table.data.begin() + token * width, width, to);
  }
  return x;
}

// The inverse way: each row of dx is added to its token's row.
Tensor embedding_gradient(const Tensor& dx, const IntTensor& tokens, const Shape& table) {
  Tensor gradient = zeros(table);
  const double* from = dx.data.data();
  for (const std::int64_t token : tokens.data) {
    for (std::int64_t c = 0; c < table[1]; ++c) {
      gradient.data[token * table[1] + c] += *from++;
    }
  }
  return gradient;
}

// The model with its parameters; layers by their number.
class Model {
 public:
  Model(const LmConfig& config,
        const Weights& parameters,
        const IntTensor& tokens,
        const LmOptions& options)
      : config_(config), parameters_(parameters), tokens_(tokens), options_(options) {
    validate(config);
    validate(parameters, parameter_shapes(config), "parameter");
    validate_tokens(tokens, config.vocab_size);
    if (!options.replay.empty() &&
        static_cast<std::int64_t>(options.replay.size()) != config.n_layers) {
      throw std::invalid_argument("replay: found blocks of " +
                                  std::to_string(options.replay.size()) + " layers, wanted " +
                                  std::to_string(config.n_layers));
    }
    require_documents(options.documents, tokens.shape);
  }

  LmResult forward() const {
    LmResult result;
    Tensor x = embedded(parameter("embed.weight"), tokens_);
    for (std::int64_t layer = 0; layer < config_.n_layers; ++layer) {
      BlockStages stages;
      result.inputs.push_back(x);
      stages.norm1 = attention_input(layer, x);
      DocumentResult attended = attention_of_documents(config_.attention,
                                                       attention_weights(layer),
                                                       stages.norm1,
                                                       options_.documents,
                                                       options_of(layer));
      result.blocks.push_back(std::move(attended.blocks));
      result.margins.push_back(std::move(attended.margin));
      stages.attention = std::move(attended.y);
      add(x, dropped(layer, 0, stages.attention));
      result.mlp_inputs.push_back(x);
      mlp(layer, x, stages);
      add(x, dropped(layer, 1, stages.mlp));
      keep(std::move(stages), result.stages);
    }
    Tensor normed = rms_norm(x, parameter("norm_f.weight"));
    result.logits = linear(normed, parameter(head_name()), options_.threads);
    result.inputs.push_back(std::move(x));
    result.loss = cross_entropy(result.logits, tokens_, options_.scored, options_.documents).loss;
    if (options_.keep_stages) {
      result.stages.norm_f = std::move(normed);
    }
    return result;
  }

  void backward(LmPass& pass) const {
    const LmResult& result = pass.result;
    for (const auto& [name, tensor] : parameters_) {
      pass.gradients[name] = zeros(tensor.shape);
    }
    Tensor dx = head_gradients(pass);
    for (std::int64_t layer = config_.n_layers - 1; layer >= 0; --layer) {
      const std::string prefix = layer_prefix(layer);
      BlockStages stages;
      const Tensor dmlp = dropped(layer, 1, dx);
      keep(dmlp, stages.mlp);
      add_mlp_gradients(prefix, result.mlp_inputs[layer], dmlp, dx, stages, pass.gradients);
      keep(dx, pass.stage_gradients.mlp_inputs);
      keep(dropped(layer, 0, dx), stages.attention);
      add_attention_gradients(layer, result.inputs[layer], dx, stages, pass.gradients);
      keep(dx, pass.stage_gradients.inputs);
      keep(std::move(stages), pass.stage_gradients.stages);
    }
    // A tied head has left its own there.
    add(pass.gradients["embed.weight"],
        embedding_gradient(dx, tokens_, parameter("embed.weight").shape));
    // Made from the last block to the first.
    LmStageGradients& kept = pass.stage_gradients;
    std::reverse(kept.inputs.begin(), kept.inputs.end());
    std::reverse(kept.mlp_inputs.begin(), kept.mlp_inputs.end());
    std::reverse(kept.stages.blocks.begin(), kept.stages.blocks.end());
  }

 private:
  [[nodiscard]] const Tensor& parameter(const std::string& name) const {
    return parameters_.at(name);
  }

  // Forward and back: a branch, or the gradient of what leaves it, times the layer's factors.
  [[nodiscard]] Tensor dropped(std::int64_t layer, std::size_t site, Tensor branch) const {
    if (options_.factors.empty()) {
      return branch;
    }
    const Tensor& factors = options_.factors.at(static_cast<std::size_t>(layer))[site];
    for (std::size_t i = 0; i < branch.data.size(); ++i) {
      branch.data[i] *= factors.data.at(i);
    }
    return branch;
  }

  [[nodiscard]] const char* head_name() const {
    return config_.tied_head ? "embed.weight" : "lm_head.weight";
  }

  [[nodiscard]] Weights attention_weights(std::int64_t layer) const {
    Weights weights;
    for (const auto& [name, shape] : weight_shapes(config_.attention)) {
      weights[name] = parameter(layer_prefix(layer) + "attn." + name);
    }
    return weights;
  }

  [[nodiscard]] AttentionOptions options_of(std::int64_t layer) const {
    AttentionOptions options;
    options.threads = options_.threads;
    if (!options_.replay.empty()) {
      options.replay = options_.replay[layer];
    }
    return options;
  }

  [[nodiscard]] Tensor attention_input(std::int64_t layer, const Tensor& x) const {
    return rms_norm(x, parameter(layer_prefix(layer) + "norm1.weight"));
  }

  // fc2 silu(fc1 rms(x, norm2))
  void mlp(std::int64_t layer, const Tensor& x, BlockStages& stages) const {
    const std::string prefix = layer_prefix(layer);
    stages.norm2 = rms_norm(x, parameter(prefix + "norm2.weight"));
    stages.hidden = linear(stages.norm2, parameter(prefix + "mlp.fc1.weight"), options_.threads);
    stages.mlp =
        linear(silu(stages.hidden), parameter(prefix + "mlp.fc2.weight"), options_.threads);
  }

  // What is kept with LmOptions::keep_stages only.
  void keep(const Tensor& tensor, Tensor& to) const {
    if (options_.keep_stages) {
      to = tensor;
    }
  }
  void keep(const Tensor& tensor, std::vector<Tensor>& to) const {
    if (options_.keep_stages) {
      to.push_back(tensor);
    }
  }
  void keep(BlockStages stages, LmStages& to) const {
    if (options_.keep_stages) {
      to.blocks.push_back(std::move(stages));
    }
  }

  // From the loss to what enters norm_f.
  Tensor head_gradients(LmPass& pass) const {
    const Tensor& x = pass.result.inputs.back();
    const Tensor& gain = parameter("norm_f.weight");
    Weights& gradients = pass.gradients;
    const Tensor dlogits =
        cross_entropy(pass.result.logits, tokens_, options_.scored, options_.documents).dlogits_BSV;
    keep(dlogits, pass.stage_gradients.logits);
    gradients[head_name()] = weight_gradient(dlogits, rms_norm(x, gain), options_.threads);
    Tensor dnorm = zeros(x.shape);
    add_input_gradient(dlogits, parameter(head_name()), dnorm, options_.threads);
    keep(dnorm, pass.stage_gradients.stages.norm_f);
    Tensor dx = zeros(x.shape);
    add_rms_norm_gradients(dnorm, x, gain, dx, gradients["norm_f.weight"]);
    keep(dx, pass.stage_gradients.inputs);
    return dx;
  }

  // dx of what leaves one half of a layer becomes that of what enters it. Both halves are x + f(x):
  // what comes from behind stays, and f's own gradient is added.
  void add_attention_gradients(std::int64_t layer,
                               const Tensor& x,
                               Tensor& dx,
                               BlockStages& stages,
                               Weights& gradients) const {
    const std::string prefix = layer_prefix(layer);
    DocumentPass pass = attention_of_documents_with_gradients(config_.attention,
                                                              attention_weights(layer),
                                                              attention_input(layer, x),
                                                              dropped(layer, 0, dx),
                                                              options_.documents,
                                                              options_of(layer));
    for (auto& [name, gradient] : pass.weights) {
      gradients[prefix + "attn." + name] = std::move(gradient);
    }
    keep(pass.dx, stages.norm1);
    add_rms_norm_gradients(
        pass.dx, x, parameter(prefix + "norm1.weight"), dx, gradients[prefix + "norm1.weight"]);
  }

  void add_mlp_gradients(const std::string& prefix,
                         const Tensor& x,
                         const Tensor& dmlp,
                         Tensor& dx,
                         BlockStages& stages,
                         Weights& gradients) const {
    const Tensor& gain = parameter(prefix + "norm2.weight");
    const Tensor& fc1 = parameter(prefix + "mlp.fc1.weight");
    const Tensor& fc2 = parameter(prefix + "mlp.fc2.weight");
    const Tensor normed = rms_norm(x, gain);
    const Tensor u = linear(normed, fc1, options_.threads);
    gradients[prefix + "mlp.fc2.weight"] = weight_gradient(dmlp, silu(u), options_.threads);
    Tensor da = zeros(u.shape);
    add_input_gradient(dmlp, fc2, da, options_.threads);
    const Tensor du = through_silu(std::move(da), u);
    keep(du, stages.hidden);
    gradients[prefix + "mlp.fc1.weight"] = weight_gradient(du, normed, options_.threads);
    Tensor dnorm = zeros(x.shape);
    add_input_gradient(du, fc1, dnorm, options_.threads);
    keep(dnorm, stages.norm2);
    add_rms_norm_gradients(dnorm, x, gain, dx, gradients[prefix + "norm2.weight"]);
  }

  const LmConfig& config_;
  const Weights& parameters_;
  const IntTensor& tokens_;
  const LmOptions& options_;
};

}  // namespace

void validate(const LmConfig& config) {
  validate(config.attention);
  for (const auto& [name, value] : {std::pair("n_layers", config.n_layers),
                                    std::pair("vocab_size", config.vocab_size),
                                    std::pair("mlp_ratio", config.mlp_ratio)}) {
    if (value < 1 || value > kMaxSize) {
      throw std::invalid_argument(std::string("LmConfig: ") + name + " = " + std::to_string(value) +
                                  ", wanted 1 to 2^20");
    }
  }
}

std::map<std::string, Shape> parameter_shapes(const LmConfig& config) {
  const std::int64_t dim = config.attention.dim;
  const std::int64_t hidden = config.mlp_ratio * dim;
  std::map<std::string, Shape> shapes{{"embed.weight", {config.vocab_size, dim}},
                                      {"norm_f.weight", {dim}}};
  if (!config.tied_head) {
    shapes["lm_head.weight"] = {config.vocab_size, dim};
  }
  for (std::int64_t layer = 0; layer < config.n_layers; ++layer) {
    const std::string prefix = layer_prefix(layer);
    for (const auto& [name, shape] : weight_shapes(config.attention)) {
      shapes[prefix + "attn." + name] = shape;
    }
    shapes[prefix + "norm1.weight"] = {dim};
    shapes[prefix + "norm2.weight"] = {dim};
    shapes[prefix + "mlp.fc1.weight"] = {hidden, dim};
    shapes[prefix + "mlp.fc2.weight"] = {dim, hidden};
  }
  return shapes;
}

LmResult language_model(const LmConfig& config,
                        const Weights& parameters,
                        const IntTensor& tokens,
                        const LmOptions& options) {
  return Model(config, parameters, tokens, options).forward();
}

LmPass language_model_with_gradients(const LmConfig& config,
                                     const Weights& parameters,
                                     const IntTensor& tokens,
                                     const LmOptions& options) {
  const Model model(config, parameters, tokens, options);
  LmPass pass{model.forward(), {}, {}};
  model.backward(pass);
  return pass;
}

}  // namespace oracles
