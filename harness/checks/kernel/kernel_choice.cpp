#include "harness/checks/kernel/kernel_choice.h"

#include <algorithm>

#include "harness/checks/kernel/kernel_call.h"
#include "harness/checks/kernel/kernel_not_finite.h"
#include "nsa/base/error.h"
#include "oracles/attention/selection.h"

namespace harness::checks {
namespace {

// What these scores choose: no choice is judged where none was asked for.
oracles::IntTensor chosen_by(const LayerRecord& record) {
  oracles::IntTensor blocks = record.blocks;
  const auto n = static_cast<std::int64_t>(record.config.n_sel);
  const std::int64_t count = record.config.block_count(record.length);
  const double* scores = record.at("p_grp").data.data();
  for (std::int64_t list = 0; list < record.lists() * record.length; ++list) {
    const std::span row(scores + list * count, static_cast<std::size_t>(count));
    const oracles::Selection own = oracles::select_blocks(record.config, list % record.length, row);
    std::copy(own.blocks.begin(), own.blocks.end(), blocks.data.begin() + list * n);
  }
  return blocks;
}

LayerRecord scored(const Scenario& scenario,
                   const nsa::SafetensorsFile& inputs,
                   const nsa::SafetensorsFile& outputs) {
  const nsa::ModelConfig& m = scenario.model;
  const std::vector<std::int64_t> q = inputs.at("q").shape;
  LayerRecord record = blank_layer(
      scenario, oracle_config(kernel_model(scenario)), q.at(0), q.at(2), inputs.at("q").dtype);
  oracles::Tensor queries = tensor_of(inputs, "q", {q[0], m.n_heads, q[2], m.d_k});
  for (double& value : queries.data) value *= logit_ratio(scenario);
  record.tensors["q"] = by_group(scenario, std::move(queries));
  record.tensors["k_cmp"] =
      tensor_of(inputs, "k", {q[0], m.n_kv_groups, record.config.compressed_count(q[2]), m.d_k});
  record.given = {"q", "k_cmp"};
  record.tensors["p_grp"] =
      tensor_of(outputs, "scores", {q[0], m.n_kv_groups, q[2], record.config.block_count(q[2])});
  record.blocks = chosen_by(record);
  return record;
}

LayerRecord selected(const Scenario& scenario,
                     const nsa::SafetensorsFile& inputs,
                     const nsa::SafetensorsFile& outputs) {
  const nsa::ModelConfig& m = scenario.model;
  const std::vector<std::int64_t> s = inputs.at("scores").shape;
  LayerRecord record = blank_layer(
      scenario, oracle_config(kernel_model(scenario)), s.at(0), s.at(2), inputs.at("scores").dtype);
  record.tensors["p_grp"] =
      tensor_of(inputs, "scores", {s[0], m.n_kv_groups, s[2], record.config.block_count(s[2])});
  record.tensors["k_cmp"] =  // of no law's business: scores are given
      oracles::zeros({s[0], m.n_kv_groups, record.config.compressed_count(s[2]), m.d_k});
  record.given = {"p_grp", "k_cmp"};
  const nsa::TensorView& blocks = outputs.at("blocks");
  if (blocks.shape != record.blocks.shape) {
    throw nsa::Error(blocks.where + ": found shape " + oracles::shape_text(blocks.shape) +
                     ", wanted " + oracles::shape_text(record.blocks.shape));
  }
  record.blocks.data = nsa::to_int64s(blocks);
  return record;
}

}  // namespace

ChoiceJudgement judge_kernel_choice(const Scenario& scenario,
                                    const nsa::SafetensorsFile& inputs,
                                    const nsa::SafetensorsFile& outputs) {
  const bool scores = scenario.kernel.level == "score";
  const LayerRecord record =
      scores ? scored(scenario, inputs, outputs) : selected(scenario, inputs, outputs);
  ChoiceJudgement judged = judge_choice(record);
  for (Departure& seen : judged.departures) {
    if (!scores || seen.site.op != "score") continue;
    tell_not_finite(record.at("p_grp"), seen);
    if (seen.code == kNotFinite) seen.tensors = {"scores"};
  }
  return judged;
}

}  // namespace harness::checks
