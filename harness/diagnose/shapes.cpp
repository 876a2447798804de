#include "harness/diagnose/shapes.h"

#include <algorithm>

namespace harness {
namespace {

using Changes = std::vector<Change>;

// Of what is computed in a layer, forward and backward. Of others the sizes say nothing, and each question costs its time.
constexpr std::string_view kOfLayers =
    "NUMERIC. MASK. SELECTION. CAUSALITY. NAN. RANGE. OVERFLOW. DETERMINISM. GRAD.ZERO "
    "GRAD.MISSING CKPT. DECODE.";

// A sweep has lengths of its own, and documents have theirs.
bool has_one_length(const Scenario& scenario) {
  return scenario.sweep.seq_len.empty() && scenario.training.data.packed == 1;
}

std::int64_t length_of_whole_blocks(const Scenario& scenario) {
  const std::int64_t block = std::max(scenario.model.l, scenario.model.l_sel);
  return (scenario.training.seq_len + block - 1) / block * block;
}

Changes whole_blocks(const Scenario& scenario, const Cause& /*symptom*/) {
  const std::int64_t whole = length_of_whole_blocks(scenario);
  if (!has_one_length(scenario) || whole == scenario.training.seq_len) return {};
  Change change{scenario};
  change.without.training.seq_len = whole;
  return {change};
}

// Shorter than the window, so nothing is added to what the window shows.
Changes within_the_window(const Scenario& scenario, const Cause& /*symptom*/) {
  if (!has_one_length(scenario) || scenario.training.seq_len <= scenario.model.w) return {};
  Change change{scenario};
  change.without.model.w = length_of_whole_blocks(scenario);
  return {change};
}

Changes one_group(const Scenario& scenario, const Cause& /*symptom*/) {
  if (scenario.model.n_kv_groups < 2) return {};
  Change change{scenario};
  change.without.model.n_kv_groups = 1;
  return {change};
}

Changes one_head_a_group(const Scenario& scenario, const Cause& /*symptom*/) {
  if (scenario.model.heads_per_group() < 2) return {};
  Change change{scenario};
  change.without.model.n_kv_groups = scenario.model.n_heads;
  return {change};
}

Changes one_sequence(const Scenario& scenario, const Cause& /*symptom*/) {
  if (!scenario.sweep.batch_size.empty() || scenario.training.batch_size < 2) return {};
  Change change{scenario};
  change.without.training.batch_size = 1;
  return {change};
}

// Other sizes are filled with other numbers: of a batch of two, one sequence is left, and it may be the one that was right.
Experiment shape(const char* what,
                 const char* stays,
                 Changes (*changes)(const Scenario&, const Cause&)) {
  constexpr double kCost = 1.2;  // asked after what costs no more than the case
  return {what, "Which sizes?", stays, Takes::also_the_draw, kCost, "", kOfLayers, changes};
}

}  // namespace

std::vector<Experiment> experiments_on_shapes() {
  return {shape("a last block that is not whole", "whole blocks fail alike", &whole_blocks),
          shape("the end of the window",
                "a window over the whole sequence fails alike",
                &within_the_window),
          shape("several groups of heads", "one group of heads fails alike", &one_group),
          shape("several heads in a group", "one head in a group fails alike", &one_head_a_group),
          shape("several sequences in a batch", "one sequence alone fails alike", &one_sequence)};
}

}  // namespace harness
