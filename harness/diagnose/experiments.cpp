#include "harness/diagnose/experiments.h"

#include <algorithm>
#include <array>

#include "harness/diagnose/shapes.h"
#include "harness/diagnose/stages.h"
#include "harness/scenario/case_json.h"
#include "nsa/base/text.h"

namespace harness {
namespace {

constexpr const char* kPlain = "reference";

using Changes = std::vector<Change>;

// One value back at its default. Not asked of a case that has it there.
template <auto Part, auto Member>
Changes plain_value(const Scenario& scenario, const Cause& /*symptom*/) {
  using Config = std::remove_cvref_t<decltype(scenario.*Part)>;
  const auto plain = Config().*Member;
  if (scenario.*Part.*Member == plain) return {};
  Change change{scenario};
  change.without.*Part.*Member = plain;
  return {change};
}

// The same of what the batches are made of.
template <auto Member>
Changes plain_data(const Scenario& scenario, const Cause& /*symptom*/) {
  const auto plain = nsa::DataConfig().*Member;
  if (scenario.training.data.*Member == plain) return {};
  Change change{scenario};
  change.without.training.data.*Member = plain;
  return {change};
}

bool trains(const Scenario& scenario) {
  return scenario.kind == "training" || scenario.kind == "throughput" || scenario.kind == "sweep";
}

bool runs_layers_alone(const Scenario& scenario) {
  return scenario.kind == "attention" || scenario.kind == "decode";
}

Changes one_rank(const Scenario& scenario, const Cause& /*symptom*/) {
  if (scenario.parallel.ranks < 2 || !trains(scenario)) return {};
  Change change{scenario};
  change.without.parallel.ranks = 1;
  change.without.requires_gpus = std::min(scenario.requires_gpus, 1);
  return {change};
}

Scenario with_layers(const Scenario& scenario, int count) {
  Scenario fewer = scenario;
  fewer.model.n_layers = count;
  std::erase_if(fewer.parallel.checkpoint_layers, [&](int layer) { return layer >= count; });
  return fewer;
}

// The one layer that the finding names, with those above it gone from both cases. The lowest layer cannot be left out.
Changes one_layer(const Scenario& scenario, const Cause& symptom) {
  if (symptom.site.layers.size() != 1 || !scenario.sweep.n_layers.empty()) return {};
  const int layer = symptom.site.layers.front();
  if (layer < 1 || layer >= scenario.model.n_layers) return {};
  return {{with_layers(scenario, layer),
           with_layers(scenario, layer + 1),
           "layer " + std::to_string(layer)}};
}

Scenario with_ranks(const Scenario& scenario, int count) {
  Scenario fewer = scenario;
  fewer.parallel.ranks = count;
  fewer.requires_gpus = std::min(fewer.requires_gpus, count);
  return fewer;
}

// The one rank that the finding names, where two or more are left without it.
Changes one_rank_less(const Scenario& scenario, const Cause& symptom) {
  if (symptom.site.ranks.size() != 1 || !trains(scenario)) return {};
  const int rank = symptom.site.ranks.front();
  if (rank < 2 || rank >= scenario.parallel.ranks) return {};
  return {
      {with_ranks(scenario, rank), with_ranks(scenario, rank + 1), "rank " + std::to_string(rank)}};
}

Changes checkpointing(const Scenario& scenario, const Cause& /*symptom*/) {
  if (scenario.parallel.checkpoint_layers.empty() || !trains(scenario)) return {};
  Change change{scenario};
  const nsa::ParallelConfig plain;
  change.without.parallel.checkpoint_layers = plain.checkpoint_layers;
  change.without.parallel.checkpoint_mode = plain.checkpoint_mode;
  change.without.parallel.checkpoint_keep_blocks = plain.checkpoint_keep_blocks;
  return {change};
}

// What travels between ranks is the business of the seam grad_sync as well.
Changes compression(const Scenario& scenario, const Cause& /*symptom*/) {
  if (scenario.parallel.compress == nsa::ParallelConfig().compress) return {};
  Change change{scenario};
  change.without.parallel.compress = nsa::ParallelConfig().compress;
  change.without.route["grad_sync"] = kPlain;
  return {change};
}

// Every seam that does not ask for the plain implementation, each alone.
Changes back_ends(const Scenario& scenario, const Cause& symptom) {
  Changes changes;
  for (const auto& [seam, asked] : scenario.route) {
    if (asked == kPlain || seam == "grad_sync" || seam == "data") continue;
    changes.push_back({scenario, std::nullopt, asked + " in seam " + seam});
    changes.back().without.route[seam] = kPlain;
  }
  std::stable_partition(changes.begin(), changes.end(), [&](const Change& change) {
    return !symptom.site.op.empty() && change.what.ends_with(" " + symptom.site.op);
  });
  return changes;
}

// What a back end may take is told beside it: with the plain one in its place, other memory is expected, and what is too much by
// the one may be within the other.
constexpr std::string_view kOfMemory = "MEM.";

Changes routes(const Scenario& scenario, const Cause& symptom) {
  if (begins_with_any(symptom.code, kOfMemory)) return {};
  return back_ends(scenario, symptom);
}

Changes low_precision(const Scenario& scenario, const Cause& /*symptom*/) {
  using nsa::Precision;
  const Precision asked = scenario.training.precision;
  if (asked == Precision::fp32 || asked == Precision::fp64) return {};
  Change change{scenario, std::nullopt, std::string("precision ") + nsa::name_of(asked)};
  change.without.training.precision = Precision::fp32;
  return {change};
}

// A limit that no gradient reaches.
Changes clipping(const Scenario& scenario, const Cause& /*symptom*/) {
  constexpr double kNeverReached = 1e6;
  if (!trains(scenario) || scenario.training.optimizer.max_norm >= kNeverReached) return {};
  Change change{scenario};
  change.without.training.optimizer.max_norm = kNeverReached;
  return {change};
}

// Each branch alone at full weight, where nothing says yet which one it is: the others have weight zero.
Changes branches(const Scenario& scenario, const Cause& symptom) {
  if (!runs_layers_alone(scenario) || scenario.attention.gate != "learned") return {};
  if (!symptom.site.branch.empty() || !symptom.site.op.empty()) return {};
  constexpr std::array kPairs = {
      std::pair{"cmp", "sel"}, std::pair{"sel", "win"}, std::pair{"win", "cmp"}};
  Changes changes;
  for (const auto& [branch, other] : kPairs) {
    Change change{scenario, scenario, std::string("branch ") + branch};
    change.without.attention.gate = other;
    change.with->attention.gate = branch;
    changes.push_back(std::move(change));
  }
  return changes;
}

Changes other_seed(const Scenario& scenario, const Cause& /*symptom*/) {
  constexpr std::int64_t kFar = 101;
  Change change{scenario};
  change.without.seed = scenario.seed + kFar;
  return {change};
}

Changes other_backend(const Scenario& scenario, const Cause& /*symptom*/) {
  if (scenario.parallel.ranks < 2 || scenario.parallel.effective_backend() != "nccl") return {};
  Change change{scenario};
  change.without.parallel.backend = "gloo";
  return {change};
}

Changes other_device(const Scenario& scenario, const Cause& /*symptom*/) {
  constexpr std::int64_t kMostParameters = 10'000'000;  // a larger model takes minutes on a CPU
  const bool on_card = scenario.parallel.device == nsa::Device::cuda;
  if (!on_card || scenario.model.parameter_count() > kMostParameters) return {};
  Change change{scenario};
  Scenario& without = change.without;
  without.parallel.device = nsa::Device::cpu;
  without.parallel.backend = "auto";
  without.requires_gpus = 0;
  without.requires_gpu_memory_gib = 0.0;
  without.training.cuda_graph = false;
  without.attention.trace_kernels = false;
  for (auto& [seam, asked] : without.route) {
    if (seam != "grad_sync" && seam != "data") asked = kPlain;
  }
  return {change};
}

Changes more_time(const Scenario& scenario, const Cause& /*symptom*/) {
  constexpr double kMore = 3.0;
  Change change{scenario};
  change.without.budget_seconds = scenario.budget_seconds * kMore;
  return {change};
}

// A row that puts one value back at its default.
Experiment option(const char* what,
                  std::string_view first_of,
                  Changes (*changes)(const Scenario&, const Cause&),
                  std::string_view only_of = "",
                  Takes takes = Takes::only_it) {
  return {what,
          "Which option takes part?",
          "it fails alike without it",
          takes,
          1.0,
          first_of,
          only_of,
          changes};
}

std::vector<Experiment> make_rows() {
  using S = Scenario;
  using P = nsa::ParallelConfig;
  using T = nsa::TrainingConfig;
  using M = nsa::ModelConfig;
  using D = nsa::DataConfig;
  using A = AttentionProbe;
  constexpr Takes kOnlyIt = Takes::only_it;
  constexpr Takes kAlsoWhatShowsIt = Takes::what_shows_it;
  return {
      {"the other ranks",
       "Reducer or autograd?",
       "one rank alone fails alike: it needs no reduction and no other collective",
       kAlsoWhatShowsIt,
       0.7,
       "COMM. DESYNC. GRAD.NOT_REDUCED GRAD.SCALE",
       "",
       &one_rank},
      {"", "Which layer?", "it is there without that layer", kOnlyIt, 0.8, "", "", &one_layer},
      {"", "Which rank?", "it is there without that rank", kOnlyIt, 0.8, "", "", &one_rank_less},
      {"",
       "Which implementation?",
       "the plain implementation in its place fails alike",
       kOnlyIt,
       1.0,
       "ROUTE. SLOW.",
       "",
       &routes},
      {"",
       "Which implementation?",
       "the plain implementation in its place fails alike",
       kAlsoWhatShowsIt,
       1.0,
       "",
       kOfMemory,
       &back_ends},
      option("activation checkpointing", "CKPT. GRAD.DOUBLE_READY INPLACE.", &checkpointing),
      option("static_graph", "GRAD. COMM.", &plain_value<&S::parallel, &P::static_graph>),
      option("find_unused", "GRAD.", &plain_value<&S::parallel, &P::find_unused>),
      option("gradient_as_bucket_view",
             "GRAD.",
             &plain_value<&S::parallel, &P::gradient_as_bucket_view>),
      option("the size of buckets", "COMM.", &plain_value<&S::parallel, &P::bucket_mb>),
      option("compression between ranks", "ROUTE. COMM.", &compression),
      option("gradient accumulation",
             "GRAD. COMM. SCHEDULE.",
             &plain_value<&S::training, &T::accumulate>),
      option("low precision", "NAN. OPT. SCALER. SCHEDULE. NUMERIC.", &low_precision),
      option("clipping", "CLIP.", &clipping, "CLIP."),
      option("rope_scale", "NUMERIC.", &plain_value<&S::model, &M::rope_scale>),
      option("the form of phi", "NUMERIC.", &plain_value<&S::model, &M::phi>),
      option("the form of eq9", "SELECTION.", &plain_value<&S::model, &M::eq9>),
      option("the gate's temperature", "GATE.", &plain_value<&S::model, &M::gate_temp>),
      option("the form of the gate", "GATE.", &plain_value<&S::model, &M::gate>),
      option("the override of the gate", "GATE.", &plain_value<&S::attention, &A::gate>, "GATE."),
      option(
          "the kind of inputs", "SELECTION. DETERMINISM.", &plain_value<&S::attention, &A::inputs>),
      // Without poison what was never written has some number. The mistake is still there.
      option(
          "poisoned memory", "NAN.", &plain_value<&S::attention, &A::poison>, "", kAlsoWhatShowsIt),
      option("residual dropout", "DATA.RNG CKPT.", &plain_value<&S::model, &M::dropout>),
      option("the tied head", "STATE.", &plain_value<&S::model, &M::tied_head>),
      option("packed documents", "CAUSALITY. NUMERIC.", &plain_data<&D::packed>),
      option("the mask of the loss", "GRAD.SCALE LOSS.", &plain_data<&D::loss_mask>),
      // Ranks with batches of their own choose other blocks: nobody could tell a wrong choice from another one.
      option("replicated inputs",
             "DESYNC.SELECTION",
             &plain_data<&D::replicated>,
             "DESYNC.SELECTION",
             kAlsoWhatShowsIt),
      option("the CUDA graph", "", &plain_value<&S::training, &T::cuda_graph>),
      {"",
       "Which branch?",
       "a weight of zero for it changes nothing",
       kOnlyIt,
       1.0,
       "",
       "",
       &branches},
      {"NCCL",
       "Gloo or NCCL?",
       "Gloo fails alike: it is not the transport",
       kOnlyIt,
       1.0,
       "HANG. COMM. DESYNC.",
       "",
       &other_backend},
      {"the card",
       "This card or any machine?",
       "a CPU fails alike",
       kAlsoWhatShowsIt,
       3.0,
       "",
       "",
       &other_device},
      {"the limit of time",
       "Slow or hang?",
       "three times the time change nothing",
       kAlsoWhatShowsIt,
       3.0,
       "HANG. SLOW.",
       "HANG. SLOW.",
       &more_time},
      {kDraw,
       "Kernel or inputs?",
       "other weights and inputs fail alike: it is not one draw of them",
       kAlsoWhatShowsIt,
       1.0,
       "",
       "",
       &other_seed},
  };
}

// Every value in which two documents differ; `path` leads to them.
void add_differences(const std::string& path,
                     const nlohmann::json& before,
                     const nlohmann::json& after,
                     std::vector<std::string>& parts) {
  if (before == after) return;
  if (!before.is_object() || !after.is_object()) {
    parts.push_back(path + " " + before.dump() + " -> " + after.dump());
    return;
  }
  const auto at = [](const nlohmann::json& document, const std::string& key) {
    return document.contains(key) ? document.at(key) : nlohmann::json();
  };
  nlohmann::json all = before;
  all.update(after);  // the keys of both
  for (const auto& [key, value] : all.items()) {
    add_differences(path.empty() ? key : path + "." + key, at(before, key), at(after, key), parts);
  }
}

}  // namespace

std::span<const Experiment> all_experiments() {
  static const std::vector<Experiment> kRows = [] {
    std::vector<Experiment> rows = make_rows();
    for (const auto& more : {experiments_on_shapes(), experiments_on_stages()}) {
      rows.insert(rows.end(), more.begin(), more.end());
    }
    return rows;
  }();
  return kRows;
}

bool begins_with_any(std::string_view code, std::string_view begins) {
  while (!begins.empty()) {
    const std::size_t end = std::min(begins.find(' '), begins.size());
    if (end > 0 && code.starts_with(begins.substr(0, end))) return true;
    begins.remove_prefix(std::min(end + 1, begins.size()));
  }
  return false;
}

std::string difference(const Scenario& before, const Scenario& after) {
  std::vector<std::string> parts;
  add_differences("", scenario_json(before), scenario_json(after), parts);
  return nsa::join(parts);
}

}  // namespace harness
