#include "nsa/model/nsa_lm.h"

#include "nsa/seams/reference/masked_attention.h"

namespace nsa {

NsaLmImpl::NsaLmImpl(const ModelConfig& config,
                     const std::map<std::string, std::string>& route,
                     Routes& routes)
    : config_(config) {
  embed_ = register_module("embed", torch::nn::Embedding(config.vocab_size, config.dim));
  const auto list = register_module("blocks", torch::nn::ModuleList());
  for (int layer = 0; layer < config.n_layers; ++layer) {
    blocks_.emplace_back(config, layer, route, routes);
    list->push_back(blocks_.back());
  }
  norm_f_ = register_module("norm_f", RmsNorm(config.dim, make_norm(route, routes, -1)));
  if (config.tied_head) return;
  const auto options = torch::nn::LinearOptions(config.dim, config.vocab_size).bias(false);
  lm_head_ = register_module("lm_head", torch::nn::Linear(options));
}

// Read from the widened table: the gradients of all places that hold a token are added in float32.
torch::Tensor NsaLmImpl::embedded(const torch::Tensor& tokens_BS) {
  const torch::Tensor& table = embed_->weight;
  return torch::embedding(reference::wide(table), tokens_BS).to(table.scalar_type());
}

torch::Tensor NsaLmImpl::forward(const torch::Tensor& tokens_BS) {
  auto x_BSE = embedded(tokens_BS);
  for (int layer = 0; layer < static_cast<int>(blocks_.size()); ++layer) {
    const auto run = run_block_.find(layer);
    x_BSE = run == run_block_.end() ? block(layer)(x_BSE) : run->second(block(layer), x_BSE);
  }
  return logits(x_BSE);
}

torch::Tensor NsaLmImpl::logits(const torch::Tensor& x_BSE) {
  const auto normed_BSE = norm_f_(x_BSE);
  if (head_tap_) head_tap_({x_BSE, normed_BSE});
  if (config_.tied_head) return torch::linear(normed_BSE, head_weight());
  return lm_head_(normed_BSE);
}

const torch::Tensor& NsaLmImpl::head_weight() const {
  if (other_head_VE_.defined()) return other_head_VE_;
  return config_.tied_head ? embed_->weight : lm_head_->weight;
}

void NsaLmImpl::set_documents(DocumentLengths documents) {
  const auto packed = packed_documents(std::move(documents));
  for (auto& block : blocks_) block->attention()->share_documents(packed);
}

torch::Tensor NsaLmImpl::run(const torch::Tensor& tokens_BS, const Attend& attend) {
  auto x_BSE = embedded(tokens_BS);
  for (auto& block : blocks_) x_BSE = block->run(x_BSE, attend);
  return logits(x_BSE);
}

Attention& NsaLmImpl::attention(int layer) {
  return blocks_.at(static_cast<std::size_t>(layer))->attention();
}

void NsaLmImpl::set_run_block(int layer, RunBlock run) {
  run_block_[layer] = std::move(run);
}

namespace {

// The tokens with the number that cross_entropy passes over where they are not scored.
torch::Tensor scored_tokens(const torch::Tensor& tokens_BS,
                            const std::vector<std::int64_t>& scored_B) {
  if (scored_B.empty()) return tokens_BS;
  constexpr std::int64_t kNotScored = -100;
  const auto scored_B1 = torch::tensor(scored_B, tokens_BS.options()).unsqueeze(1);
  // The token at s is the target of position s - 1.
  return tokens_BS.masked_fill(torch::arange(tokens_BS.size(1), tokens_BS.options()) > scored_B1,
                               kNotScored);
}

}  // namespace

torch::Tensor next_token_loss(const torch::Tensor& logits_BSV,
                              const torch::Tensor& all_BS,
                              const std::vector<std::int64_t>& scored_B) {
  const auto tokens_BS = scored_tokens(all_BS, scored_B);
  TORCH_CHECK(tokens_BS.size(1) >= 2, "a loss needs two tokens, got ", tokens_BS.size(1));
  const auto dtype = logits_BSV.scalar_type();
  const auto wide_BSV = dtype == torch::kDouble ? logits_BSV : logits_BSV.to(torch::kFloat);
  return torch::nn::functional::cross_entropy(wide_BSV.slice(1, 0, -1).flatten(0, 1),
                                              tokens_BS.slice(1, 1).flatten());
}

}  // namespace nsa
