// How a case goes on after its first life or trial: what ends a run and how it is resumed, and what a bisection is over.
#include <algorithm>
#include <string_view>

#include "harness/scenario/scenario_read.h"

namespace harness {
namespace {

using nsa::Error;
using nsa::YamlNode;

constexpr std::size_t kMostCandidates = 1'024;  // each trial runs a case
constexpr const char* kCheckpointLayers = "parallel.checkpoint.layers";

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

void check_life(const YamlNode& root, const Scenario& scenario) {
  const LifeConfig& life = scenario.life;
  if (life == LifeConfig{}) return;
  if (life.kill_step < 0 || life.kill_step > scenario.training.steps) {
    throw Error(nsa::find_yaml_path(root, "life.kill_step")->where,
                "life.kill_step: found " + std::to_string(life.kill_step) + ", wanted 0.." +
                    std::to_string(scenario.training.steps));
  }
  if (scenario.kind != "training") {
    throw Error(root.find("life")->where,
                "life: found it in kind " + scenario.kind + ", wanted kind training");
  }
  if (life.kill_step > 0 && life.kill_phase == "save" && life.save_every == 0) {
    throw Error(
        nsa::find_yaml_path(root, "life.kill_phase")->where,
        "life.kill_phase: found save without life.save_every, wanted snapshots to be saved");
  }
}

void finish_bisect(const YamlNode& root, Scenario& scenario) {
  const YamlNode* node = root.find("bisect");
  if (node == nullptr || node->kind == YamlNode::Kind::null) return;
  BisectConfig& bisect = scenario.bisect;
  if (bisect.over.empty()) {
    throw Error(node->where, "bisect: found nothing to bisect over, wanted over: PATH of a list");
  }
  if (const YamlNode* candidates = node->find("candidates")) {
    check_candidates(*candidates, bisect.candidates);
  } else if (bisect.over == kCheckpointLayers) {
    bisect.candidates = all_layers(scenario.model.n_layers);
  } else {
    throw Error(node->where,
                "bisect: found no candidates, wanted a list of them: only " +
                    std::string(kCheckpointLayers) + " has its own");
  }
}

}  // namespace harness
