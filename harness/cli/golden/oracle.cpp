#include "harness/cli/golden/oracle.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "nsa/base/error.h"
#include "nsa/base/safetensors.h"
#include "nsa/base/text.h"

namespace harness::cli::golden {
namespace {

using oracles::Tensor;

void add_margins(const Tensor& margins, Wanted& wanted) {
  for (const double margin : margins.data) {
    wanted.smallest_margin = std::min(wanted.smallest_margin, margin);
    if (margin == 0.0) {
      ++wanted.tie_rows;
    } else {
      wanted.smallest_untied = std::min(wanted.smallest_untied, margin);
    }
  }
}

void take(oracles::AttentionResult&& result, Wanted& wanted) {
  add_margins(result.margin, wanted);
  wanted.blocks = std::move(result.blocks);
  for (auto& [name, tensor] : {std::pair{"q", &result.q},
                               std::pair{"k_cmp", &result.k_cmp},
                               std::pair{"v_cmp", &result.v_cmp},
                               std::pair{"p_grp", &result.p_grp},
                               std::pair{"o_cmp", &result.o_cmp},
                               std::pair{"o_sel", &result.o_sel},
                               std::pair{"o_win", &result.o_win},
                               std::pair{"gate", &result.gate},
                               std::pair{"y", &result.y}}) {
    wanted.tensors[name] = std::move(*tensor);
  }
}

void take(oracles::Weights&& gradients, const std::string& prefix, Wanted& wanted) {
  for (auto& [name, gradient] : gradients) wanted.tensors[prefix + name] = std::move(gradient);
}

bool replays(const Case& c, Extent extent) {
  return extent == Extent::judged && c.blocks && c.unusable.empty();
}

Wanted attention_results_with(const Case& c, Extent extent, oracles::AttentionOptions options) {
  const oracles::AttentionConfig& config = c.attention();
  Wanted wanted;
  if (c.dy) {
    auto pass = oracles::attention_with_gradients(config, c.weights, c.x, *c.dy, options);
    take(std::move(pass.gradients.weights), "g.w.", wanted);
    wanted.tensors["g.x"] = std::move(pass.gradients.x);
    take(std::move(pass.result), wanted);
  } else {
    take(oracles::attention(config, c.weights, c.x, options), wanted);
  }
  constexpr std::array kNames = {"y_cmp", "y_sel", "y_win"};
  for (std::size_t k = 0; k < kNames.size(); ++k) {
    if (extent == Extent::judged && !c.has(kNames[k])) continue;
    options.gate_override = {0, 0, 0};
    options.gate_override->at(k) = 1;
    wanted.tensors[kNames[k]] = oracles::attention(config, c.weights, c.x, options).y;
  }
  return wanted;
}

Wanted oracle_attention_results(const Case& c, Extent extent) {
  oracles::AttentionOptions options;
  if (replays(c, extent)) options.replay = c.blocks;
  return attention_results_with(c, extent, options);
}

void take(const oracles::LmResult& result, Wanted& wanted) {
  for (const Tensor& margins : result.margins) add_margins(margins, wanted);
}

Wanted oracle_lm_results(const Case& c) {
  auto pass = oracles::language_model_with_gradients(c.lm, c.weights, c.tokens);
  Wanted wanted;
  take(pass.result, wanted);
  take(std::move(pass.gradients), "g.p.", wanted);
  wanted.tensors["loss"] = {{}, {pass.result.loss}};
  wanted.tensors["logits"] = std::move(pass.result.logits);
  return wanted;
}

Wanted oracle_train_results(const Case& c) {
  Wanted wanted;
  oracles::Weights parameters = c.weights;
  oracles::AdamState state;
  std::array<Tensor, 3> series;
  series.fill({{c.steps}, {}});
  const std::int64_t batch = c.batch * c.length;
  for (std::int64_t step = 1; step <= c.steps; ++step) {
    const auto begin = c.tokens.data.begin() + (step - 1) * batch;
    const oracles::IntTensor tokens{{c.batch, c.length}, {begin, begin + batch}};
    auto pass = oracles::language_model_with_gradients(c.lm, parameters, tokens);
    take(pass.result, wanted);
    const oracles::OptimizerStep done =
        oracles::optimizer_step(c.train, step, std::move(pass.gradients), parameters, state);
    series[0].data.push_back(pass.result.loss);
    series[1].data.push_back(done.grad_norm);
    series[2].data.push_back(done.rate);
  }
  wanted.tensors["loss"] = std::move(series[0]);
  wanted.tensors["grad_norm"] = std::move(series[1]);
  wanted.tensors["lr"] = std::move(series[2]);
  take(std::move(parameters), "p1.", wanted);
  return wanted;
}

nsa::TensorToWrite to_write(const std::string& name, const Tensor& tensor) {
  return {name, nsa::DType::f64, tensor.shape, std::as_bytes(std::span(tensor.data))};
}

nsa::TensorToWrite to_write(const std::string& name, const oracles::IntTensor& tensor) {
  return {name, nsa::DType::i64, tensor.shape, std::as_bytes(std::span(tensor.data))};
}

std::string margin_text(double margin) {
  return margin == std::numeric_limits<double>::infinity() ? "inf" : nsa::to_text(margin);
}

}  // namespace

Wanted oracle_results(const Case& c, Extent extent) {
  try {
    switch (c.level) {
      case GoldenLevel::attention: return oracle_attention_results(c, extent);
      case GoldenLevel::lm: return oracle_lm_results(c);
      default: return oracle_train_results(c);
    }
  } catch (const std::invalid_argument& refusal) {
    throw nsa::Error(nsa::Location{c.path}, refusal.what());
  }
}

Wanted narrow_results(const Case& c, const Wanted& oracle, oracles::Number number, int draw) {
  oracles::AttentionOptions options;
  options.replay = replays(c, Extent::judged) ? c.blocks : oracle.blocks;
  options.kept.results = number;
  options.kept.input = number;
  options.kept.draw = static_cast<std::uint64_t>(draw);
  options.kept.narrow_products.fill(draw % 2 == 1);
  return attention_results_with(c, Extent::judged, options);
}

void export_golden(const Case& c, const std::string& path) {
  const Wanted wanted = oracle_results(c, Extent::all);
  const bool attention = c.level == GoldenLevel::attention;
  std::vector<nsa::TensorToWrite> tensors;
  if (attention) {
    tensors.push_back(to_write("x", c.x));
    if (c.dy) tensors.push_back(to_write("dy", *c.dy));
    tensors.push_back(to_write("blocks", *wanted.blocks));
  } else {
    tensors.push_back(to_write("tokens", c.tokens));
  }
  const std::string prefix = attention ? "w." : c.level == GoldenLevel::lm ? "p." : "p0.";
  for (const auto& [name, weight] : c.weights) tensors.push_back(to_write(prefix + name, weight));
  for (const auto& [name, tensor] : wanted.tensors) tensors.push_back(to_write(name, tensor));
  nsa::write_safetensors(path,
                         tensors,
                         {{"level", name_of(c.level)},
                          {"about",
                           "inputs of " + std::filesystem::path(c.path).filename().string() +
                               ", results of nsa-harness's float64 oracle"},
                          {"config", golden_config_text(c.config, c.level)},
                          {"min_margin", margin_text(wanted.smallest_margin)},
                          {"min_margin_untied", margin_text(wanted.smallest_untied)},
                          {"tie_rows", std::to_string(wanted.tie_rows)}});
}

}  // namespace harness::cli::golden
