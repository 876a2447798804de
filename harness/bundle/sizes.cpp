#include "harness/bundle/sizes.h"

#include <algorithm>
#include <array>
#include <map>

#include "nsa/base/text.h"

namespace harness {
namespace {

void keep_layers_below(std::vector<int>& layers, std::int64_t count) {
  for (int& layer : layers) layer = std::min(layer, static_cast<int>(count) - 1);
  std::sort(layers.begin(), layers.end());
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
}

void make_layers(Scenario& scenario, std::int64_t count) {
  scenario.model.n_layers = count;
  keep_layers_below(scenario.parallel.checkpoint_layers, count);
  if (scenario.fault) keep_layers_below(scenario.fault->layers, count);
}

void make_ranks(Scenario& scenario, std::int64_t count) {
  scenario.parallel.ranks = count;
  scenario.requires_gpus = std::min(scenario.requires_gpus, static_cast<int>(count));
  if (scenario.fault && scenario.fault->rank) {
    scenario.fault->rank = std::min(*scenario.fault->rank, static_cast<int>(count) - 1);
  }
}

void make_steps(Scenario& scenario, std::int64_t count) {
  scenario.training.steps = count;
  scenario.life.kill_step = std::min(scenario.life.kill_step, count);
  scenario.life.save_every = std::min(scenario.life.save_every, count);
  if (scenario.fault) scenario.fault->step = std::min(scenario.fault->step, count);
}

// The heads are shared out over as many groups as before, or the most below that leave none over.
void make_heads(Scenario& scenario, std::int64_t count) {
  scenario.model.n_heads = count;
  std::int64_t& groups = scenario.model.n_kv_groups;
  while (groups > 1 && (groups > count || count % groups != 0)) --groups;
}

// As many heads a group as before.
void make_groups(Scenario& scenario, std::int64_t count) {
  const std::int64_t heads = scenario.model.heads_per_group();
  scenario.model.n_kv_groups = count;
  scenario.model.n_heads = heads * count;
}

// Of a sweep the smallest sizes are kept. It has no fewer than none.
template <auto List>
constexpr CaseSize sweep_size(const char* name) {
  return {name,
          [](const Scenario& scenario) {
            return static_cast<std::int64_t>((scenario.sweep.*List).size());
          },
          [](Scenario& scenario, std::int64_t count) {
            (scenario.sweep.*List).resize(static_cast<std::size_t>(count));
          },
          1,
          false};
}

template <auto Part, auto Member>
constexpr CaseSize plain_size(const char* name, std::int64_t lowest, bool is_count) {
  return {name,
          [](const Scenario& scenario) { return scenario.*Part.*Member; },
          [](Scenario& scenario, std::int64_t value) { scenario.*Part.*Member = value; },
          lowest,
          is_count};
}

constexpr auto kSizes = [] {
  using S = Scenario;
  using T = nsa::TrainingConfig;
  using M = nsa::ModelConfig;
  const auto layers = [](const S& s) { return s.model.n_layers; };
  const auto steps = [](const S& s) { return s.training.steps; };
  const auto ranks = [](const S& s) { return s.parallel.ranks; };
  const auto heads = [](const S& s) { return s.model.n_heads; };
  const auto groups = [](const S& s) { return s.model.n_kv_groups; };
  return std::array{CaseSize{"model.n_layers", layers, &make_layers, 1, true},
                    CaseSize{"training.steps", steps, &make_steps, 1, true},
                    plain_size<&S::training, &T::accumulate>("training.accumulate", 1, true),
                    plain_size<&S::training, &T::batch_size>("training.batch_size", 1, true),
                    CaseSize{"parallel.ranks", ranks, &make_ranks, 1, true},
                    plain_size<&S::training, &T::seq_len>("training.seq_len", 2, false),
                    CaseSize{"model.n_kv_groups", groups, &make_groups, 1, false},
                    CaseSize{"model.n_heads", heads, &make_heads, 1, false},
                    plain_size<&S::model, &M::dim>("model.dim", 1, false),
                    plain_size<&S::model, &M::mlp_ratio>("model.mlp_ratio", 1, false),
                    sweep_size<&SweepConfig::seq_len>("sweep.seq_len"),
                    sweep_size<&SweepConfig::batch_size>("sweep.batch_size"),
                    sweep_size<&SweepConfig::n_layers>("sweep.n_layers")};
}();

// A list of a sweep stands in the place of the one value. Layers that run alone have no MLP and make no steps; a kernel
// of the user's own is called with heads, and the other sizes of its calls are those of its trials.
bool is_heeded(const CaseSize& size, const Scenario& scenario) {
  const std::string name = size.name;
  if (name.starts_with("sweep.")) return size.of(scenario) > 0;
  if (name == "training.seq_len" && !scenario.sweep.seq_len.empty()) return false;
  if (name == "training.batch_size" && !scenario.sweep.batch_size.empty()) return false;
  if (name == "model.n_layers" && !scenario.sweep.n_layers.empty()) return false;
  if (scenario.is_foreign()) return name == "model.n_heads" || name == "model.n_kv_groups";
  const bool alone = scenario.kind == "attention" || scenario.kind == "decode";
  const bool of_steps = name == "training.steps" || name == "training.accumulate";
  return !alone || (!of_steps && name != "model.mlp_ratio");
}

}  // namespace

std::span<const CaseSize> all_sizes() {
  return kSizes;
}

CaseSizes sizes_of(const Scenario& scenario) {
  CaseSizes sizes;
  for (const CaseSize& size : kSizes) {
    if (is_heeded(size, scenario)) sizes.emplace_back(size.name, size.of(scenario));
  }
  return sizes;
}

std::string size_changes(const CaseSizes& before, const CaseSizes& after) {
  const std::map<std::string, std::int64_t> was(before.begin(), before.end());
  std::vector<std::string> parts;
  for (const auto& [name, value] : after) {
    const auto at = was.find(name);
    if (at == was.end() || at->second == value) continue;
    parts.push_back(name + " " + std::to_string(at->second) + " -> " + std::to_string(value));
  }
  return nsa::join(parts);
}

}  // namespace harness
