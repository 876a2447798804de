// How a case goes on after its first life or trial: what ends a run and how it is resumed, and what a bisection is over.
#include <algorithm>
#include <string_view>

#include "harness/scenario/scenario_read.h"
#include "nsa/base/text.h"

namespace harness {
namespace {

using nsa::Error;
using nsa::YamlMap;
using nsa::YamlNode;

constexpr std::int64_t kLongestWaitMs = 3'600'000;  // an hour: every wait has a deadline
constexpr std::int64_t kMostSteps = 1'000'000'000;  // more than the training has: no snapshot
constexpr std::size_t kMostCandidates = 1'024;      // each trial runs a case
constexpr const char* kCheckpointLayers = "parallel.checkpoint.layers";

void read_within(YamlMap& map, const std::string& key, std::int64_t most, std::int64_t& out) {
  map.read(key, out);
  if (out >= 0 && out <= most) return;
  throw Error(
      map.get(key)->where,
      map.name(key) + ": found " + std::to_string(out) + ", wanted 0.." + std::to_string(most));
}

void check_candidates(const YamlNode& node, const std::vector<std::string>& candidates) {
  if (candidates.empty() || candidates.size() > kMostCandidates) {
    throw Error(node.where,
                "bisect.candidates: found " + std::to_string(candidates.size()) + ", wanted 1.." +
                    std::to_string(kMostCandidates));
  }
  constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-/";
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const auto here = candidates.begin() + static_cast<std::ptrdiff_t>(i);
    const bool again = std::find(candidates.begin(), here, *here) != here;
    const bool word = !here->empty() && here->find_first_not_of(kLetters) == std::string::npos;
    if (word && !again) continue;
    throw Error(node.items[i].where,
                "bisect.candidates: found " + nsa::found_text(node.items[i]) +
                    (again ? " twice, wanted it once" : ", wanted a number or a name"));
  }
}

std::vector<std::string> all_layers(std::int64_t count) {
  std::vector<std::string> layers;
  for (std::int64_t layer = 0; layer < count; ++layer) layers.push_back(std::to_string(layer));
  return layers;
}

}  // namespace

LifeConfig read_life(const YamlNode* node, const Scenario& scenario) {
  const YamlNode none;
  YamlMap map(node != nullptr ? *node : none, "life");
  LifeConfig life;
  read_within(map, "save_every", kMostSteps, life.save_every);
  read_within(map, "kill_step", scenario.training.steps, life.kill_step);
  if (const YamlNode* phase = map.get("kill_phase")) {
    const std::vector<std::string> phases(kKillPhases.begin(), kKillPhases.end());
    life.kill_phase = nsa::read_name(*phase, "life.kill_phase", phases);
  }
  read_within(map, "kill_after_ms", kLongestWaitMs, life.kill_after_ms);
  map.finish();
  if (life != LifeConfig{} && scenario.kind != "training") {
    throw Error(node->where, "life: found it in kind " + scenario.kind + ", wanted kind training");
  }
  if (life.kill_step > 0 && life.kill_phase == "save" && life.save_every == 0) {
    throw Error(
        map.get("kill_phase")->where,
        "life.kill_phase: found save without life.save_every, wanted snapshots to be saved");
  }
  return life;
}

BisectConfig read_bisect(const YamlNode* node, const Scenario& scenario) {
  const YamlNode none;
  const YamlNode& given = node != nullptr ? *node : none;
  YamlMap map(given, "bisect");
  BisectConfig bisect;
  map.read("over", bisect.over);
  const YamlNode* candidates = map.get("candidates");
  map.finish();
  if (given.kind == YamlNode::Kind::null) return bisect;
  if (bisect.over.empty()) {
    throw Error(given.where, "bisect: found nothing to bisect over, wanted over: PATH of a list");
  }
  if (candidates != nullptr) {
    bisect.candidates = nsa::read_texts(*candidates, "bisect.candidates");
    check_candidates(*candidates, bisect.candidates);
  } else if (bisect.over == kCheckpointLayers) {
    bisect.candidates = all_layers(scenario.model.n_layers);
  } else {
    throw Error(given.where,
                "bisect: found no candidates, wanted a list of them: only " +
                    std::string(kCheckpointLayers) + " has its own");
  }
  return bisect;
}

}  // namespace harness
