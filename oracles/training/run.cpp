#include "oracles/training/run.h"

#include <utility>

#include "oracles/training/document_lengths.h"
#include "oracles/training/dropout.h"
#include "oracles/training/shares.h"

namespace oracles {
namespace {

std::vector<std::array<Tensor, 2>> factors_of(const RunConfig& config, const BatchPlace& place) {
  std::vector<std::array<Tensor, 2>> factors;
  for (std::int64_t layer = 0; config.dropout > 0 && layer < config.model.n_layers; ++layer) {
    const std::int64_t width = config.model.attention.dim;
    factors.push_back({dropout_factors(config.data, {place, layer, 0}, width, config.dropout),
                       dropout_factors(config.data, {place, layer, 1}, width, config.dropout)});
  }
  return factors;
}

}  // namespace

StepGradients step_gradients(
    const RunConfig& config, Text text, std::int64_t step, const Weights& parameters, int threads) {
  StepGradients result;
  for (const auto& [name, parameter] : parameters) {
    result.mean[name] = zeros(parameter.shape);
  }
  LmOptions options;
  options.threads = threads;
  for (std::int64_t rank = 0; rank < config.data.world; ++rank) {
    for (std::int64_t micro = 0; micro < config.data.accumulate; ++micro) {
      const BatchPlace place{step, micro, rank};
      const IntTensor tokens = batch_tokens(config.data, place, text);
      options.scored = scored_positions(config.data, place);
      options.factors = factors_of(config, place);
      options.documents = document_lengths(config.data, place);
      const TokenCounts counts = token_counts(config.data, place);
      const double share = static_cast<double>(counts.own) / static_cast<double>(counts.of_step);
      const LmPass pass = language_model_with_gradients(config.model, parameters, tokens, options);
      result.losses.push_back(pass.result.loss);
      for (auto& [name, mean] : result.mean) {
        const std::vector<double>& own = pass.gradients.at(name).data;
        for (std::size_t i = 0; i < own.size(); ++i) {
          mean.data[i] += share * own[i];
        }
      }
    }
  }
  return result;
}

RunStep run_step(
    const RunConfig& config, Text text, std::int64_t step, RunState& state, int threads) {
  StepGradients gradients = step_gradients(config, text, step, state.parameters, threads);
  ++state.n;
  return {std::move(gradients.losses),
          optimizer_step(
              config.train, state.n, std::move(gradients.mean), state.parameters, state.moments)};
}

}  // namespace oracles
