#include "harness/checks/attention/record/layer_survey.h"

#include "harness/checks/attention/backend/arithmetic.h"
#include "harness/checks/attention/backend/chosen_route.h"
#include "harness/checks/attention/record/sample_rows.h"
#include "harness/checks/data_of.h"
#include "harness/checks/gradients/ledger.h"
#include "harness/checks/training/overflow.h"
#include "harness/scenario/constant_gates.h"
#include "nsa/base/error.h"
#include "oracles/training/document_lengths.h"

namespace harness::checks {
namespace {

// The first step in which a local gradient of the rank is not the twin's, bit by bit: what is wrong forward is in gradients too.
std::optional<std::int64_t> first_difference(const Evidence& evidence, int rank) {
  const Ledger ledger(evidence);
  std::optional<std::int64_t> first;
  for (const auto& [key, row] : ledger.twin.all()) {
    if (key.rank != rank || (first && *first <= key.step)) continue;
    const Gradient* own = ledger.ranks.find(key);
    if (own != nullptr && own->hash_before != row->row.hash_before) first = key.step;
  }
  return first;
}

// Fixed for a seed: a step of a healthy case is as good as any other, but the same one each time.
std::int64_t drawn_step(const Evidence& evidence) {
  const Scenario& scenario = evidence.the_case.scenario;
  const std::uint64_t number = mixed(static_cast<std::uint64_t>(scenario.seed));
  const auto steps = static_cast<std::uint64_t>(scenario.training.steps);
  auto step = static_cast<std::int64_t>(1 + number / 1024 % steps);
  // A scaler's search for its scale is at the beginning: a later step has numbers to judge.
  const std::set<std::int64_t> overflowed = overflowed_steps(evidence);
  while (overflowed.count(step) > 0 && step < scenario.training.steps) ++step;
  return step;
}

std::int64_t judged_step(const Evidence& evidence, int rank) {
  const Scenario& scenario = evidence.the_case.scenario;
  if (!scenario.trains() || scenario.training.steps == 1) return 1;
  const std::optional<std::int64_t> differs = first_difference(evidence, rank);
  return differs ? *differs : drawn_step(evidence);
}

}  // namespace

bool runs_layers_alone(const Evidence& evidence) {
  return evidence.the_case.scenario.kind == "attention";
}

std::vector<LayerPlace> layers_to_judge(const Evidence& evidence, int rank) {
  const std::int64_t step = judged_step(evidence, rank);
  std::vector<LayerPlace> layers;
  for (int layer = 0; layer < static_cast<int>(evidence.the_case.scenario.model.n_layers);
       ++layer) {
    layers.push_back({rank, step, layer});
  }
  return layers;
}

std::string text_of(const LayerPlace& at) {
  return "layer " + std::to_string(at.layer) + " of " + process_name(at.rank) + ", step " +
         std::to_string(at.step);
}

ReadOptions read_options(const Evidence& evidence, int rank, int layer) {
  const Scenario& scenario = evidence.the_case.scenario;
  ReadOptions options;
  options.forward_only = scenario.kind == "decode";
  if (runs_layers_alone(evidence)) options.gate_override = constant_gates(scenario.attention.gate);
  // Whether stages that are right one by one drift apart is a question about the law, not about a layer: one that the seed draws
  // answers it where many are judged.
  const auto layers = static_cast<std::uint64_t>(scenario.model.n_layers);
  options.from_input =
      !scenario.trains() || mixed(static_cast<std::uint64_t>(scenario.seed)) % layers ==
                                static_cast<std::uint64_t>(layer);
  options.seed =
      static_cast<std::uint64_t>(scenario.seed) * 1024 + static_cast<std::uint64_t>(layer);
  options.narrow_products = narrow_products_of(ChosenRoute(evidence, rank).route());
  return options;
}

std::optional<LayerRecord> open_record(const Evidence& evidence,
                                       const LayerPlace& at,
                                       const std::string& artefact,
                                       ResultBuilder& result) {
  const auto file =
      open_artefact(evidence, {at.rank, artefact, at.step, at.rank, at.layer}, result);
  if (!file) return std::nullopt;
  try {
    return read_layer(
        *file, evidence.the_case.scenario.model, read_options(evidence, at.rank, at.layer));
  } catch (const nsa::Error& error) {
    result.missing(text_of(at) + " cannot be judged: " + error.what());
    return std::nullopt;
  }
}

bool is_packed(const Evidence& evidence) {
  return evidence.the_case.scenario.training.data.packed > 1;
}

std::optional<PackedRecord> open_packed(const Evidence& evidence,
                                        const LayerPlace& at,
                                        ResultBuilder& result) {
  const Scenario& scenario = evidence.the_case.scenario;
  const auto file = open_artefact(evidence, {at.rank, kLayer, at.step, at.rank, at.layer}, result);
  if (!file) return std::nullopt;
  try {
    // A layer is recorded in the first micro-batch.
    return read_packed_layer(*file,
                             scenario.model,
                             read_options(evidence, at.rank, at.layer),
                             oracles::document_lengths(data_of(scenario), {at.step, 0, at.rank}));
  } catch (const nsa::Error& error) {
    result.missing(text_of(at) + " cannot be judged: " + error.what());
    return std::nullopt;
  }
}

}  // namespace harness::checks
