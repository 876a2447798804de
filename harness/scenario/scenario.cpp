#include "harness/scenario/scenario.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "harness/scenario/scenario_read.h"
#include "nsa/base/text.h"

namespace harness {
namespace {

using nsa::Error;
using nsa::YamlMap;
using nsa::YamlNode;

constexpr std::int64_t kVersion = 1;
constexpr double kDefaultBudgetSeconds = 300.0;
constexpr double kMaxBudgetSeconds = 86400.0;  // a day: every wait has a deadline
constexpr double kMaxMemoryGib = 1e6;
constexpr int kMaxGpus = 1024;
constexpr int kMaxCores = 4096;
constexpr std::int64_t kBytes = 256;  // what a token of a text can be

const YamlNode& required(YamlMap& map, const YamlNode& root, const std::string& key) {
  const YamlNode* node = map.get(key);
  if (node == nullptr) throw Error(root.where, "found no " + key + ", wanted it in every scenario");
  return *node;
}

void read_head(YamlMap& map, const YamlNode& root, Scenario& scenario) {
  const YamlNode& version = required(map, root, "version");
  const std::int64_t found = nsa::read_int(version, "version");
  if (found != kVersion) {
    throw Error(version.where, "version: found " + std::to_string(found) + ", wanted 1");
  }
  const YamlNode& name = required(map, root, "scenario");
  scenario.name = nsa::read_text(name, "scenario");
  const bool word =
      scenario.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string::npos;
  if (scenario.name.empty() || scenario.name.size() > 64 || !word) {
    throw Error(name.where,
                "scenario: found " + nsa::found_text(name) + ", wanted up to 64 of a-z 0-9 _");
  }
  map.read("about", scenario.about);
  map.read("seed", scenario.seed);
}

void read_kind(YamlMap& map, const YamlNode& root, const Manifest* manifest, Scenario& scenario) {
  const YamlNode& node = required(map, root, "kind");
  scenario.kind = nsa::read_text(node, "kind");
  if (manifest == nullptr) return;
  (void)nsa::read_name(node, "kind", manifest->kinds);
}

// Every seam of the manifest, the first implementation of each where the scenario names none.
std::map<std::string, std::string> read_route(const YamlNode* node, const Manifest* manifest) {
  nsa::YamlKeyLog::note("route.SEAM");
  std::map<std::string, std::string> route;
  std::vector<std::string> seams;
  if (manifest != nullptr) {
    for (const auto& [seam, implementations] : manifest->seams) {
      seams.push_back(seam);
      route[seam] = implementations.front();
    }
  }
  if (node == nullptr) return route;
  YamlMap(*node, "route");  // refuses what is no map
  for (const auto& [seam, value] : node->entries) {
    const std::string what = "route." + seam;
    if (manifest == nullptr) {
      route[seam] = nsa::read_text(value, what);
    } else if (!manifest->seams.contains(seam)) {
      nsa::throw_unknown_name(value.where, "seam of route", seam, seams);
    } else {
      route[seam] = nsa::read_name(value, what, manifest->seams.at(seam));
    }
  }
  return route;
}

// What travels between ranks is the business of seam grad_sync; a route that says otherwise is a contradiction.
void route_compression(const YamlNode* route, Scenario& scenario) {
  const auto grad_sync = scenario.route.find("grad_sync");
  if (grad_sync == scenario.route.end()) return;
  const std::string wanted =
      scenario.parallel.compress == "none" ? "reference" : scenario.parallel.compress;
  const YamlNode* named = route != nullptr ? route->find("grad_sync") : nullptr;
  if (named != nullptr && grad_sync->second != wanted) {
    throw Error(named->where,
                "route.grad_sync: found " + nsa::found_text(*named) + ", wanted " + wanted +
                    ", as parallel.ddp.compress says");
  }
  grad_sync->second = wanted;
}

AttentionProbe read_attention(const YamlNode* node) {
  AttentionProbe probe;
  const YamlNode none;
  YamlMap map(node != nullptr ? *node : none, "attention");
  const std::vector<std::string> inputs(kInputs.begin(), kInputs.end());
  const std::vector<std::string> gates(kGates.begin(), kGates.end());
  if (const YamlNode* found = map.get("inputs")) {
    probe.inputs = nsa::read_name(*found, "attention.inputs", inputs);
  }
  if (const YamlNode* found = map.get("gate")) {
    probe.gate = nsa::read_name(*found, "attention.gate", gates);
  }
  map.read("poison", probe.poison);
  map.read("trace_kernels", probe.trace_kernels);
  map.read("prefix", probe.prefix);
  map.finish();
  if (!(probe.prefix > 0.0 && probe.prefix < 1.0)) {
    throw Error(
        node->find("prefix")->where,
        "attention.prefix: found " + nsa::to_text(probe.prefix) + ", wanted above 0, below 1");
  }
  return probe;
}

std::vector<std::int64_t> read_sizes(YamlMap& map, const std::string& key) {
  constexpr std::int64_t kLargest = std::int64_t{1} << 24;
  std::vector<std::int64_t> sizes;
  const YamlNode* node = map.get(key);
  if (node == nullptr) return sizes;
  if (node->kind != YamlNode::Kind::sequence) {
    throw Error(node->where,
                map.name(key) + ": found " + nsa::found_text(*node) + ", wanted a list of sizes");
  }
  for (const YamlNode& item : node->items) {
    sizes.push_back(nsa::read_int(item, map.name(key)));
    const bool ascending = sizes.size() < 2 || sizes[sizes.size() - 2] < sizes.back();
    if (sizes.back() < 1 || sizes.back() > kLargest || !ascending) {
      throw Error(item.where,
                  map.name(key) + ": found " + nsa::found_text(item) + ", wanted 1.." +
                      std::to_string(kLargest) + ", ascending");
    }
  }
  return sizes;
}

SweepConfig read_sweep(const YamlNode* node) {
  const YamlNode none;
  YamlMap map(node != nullptr ? *node : none, "sweep");
  SweepConfig sweep;
  sweep.seq_len = read_sizes(map, "seq_len");
  sweep.batch_size = read_sizes(map, "batch_size");
  sweep.n_layers = read_sizes(map, "n_layers");
  map.finish();
  return sweep;
}

void check_memory(const YamlNode& requirements, const char* key, double gib) {
  if (gib >= 0.0 && gib <= kMaxMemoryGib) return;
  throw Error(requirements.find(key)->where,
              std::string("requires.") + key + ": found " + nsa::to_text(gib) + ", wanted 0.." +
                  nsa::to_text(kMaxMemoryGib));
}

void read_requirements(YamlMap& map, Scenario& scenario) {
  if (const YamlNode* node = map.get("requires")) {
    YamlMap part(*node, "requires");
    part.read("gpus", scenario.requires_gpus);
    part.read("memory_gib", scenario.requires_memory_gib);
    part.read("gpu_memory_gib", scenario.requires_gpu_memory_gib);
    part.finish();
    if (scenario.requires_gpus < 0 || scenario.requires_gpus > kMaxGpus) {
      throw Error(node->find("gpus")->where,
                  "requires.gpus: found " + std::to_string(scenario.requires_gpus) +
                      ", wanted 0.." + std::to_string(kMaxGpus));
    }
    check_memory(*node, "memory_gib", scenario.requires_memory_gib);
    check_memory(*node, "gpu_memory_gib", scenario.requires_gpu_memory_gib);
  }
  scenario.budget_seconds = kDefaultBudgetSeconds;
  if (const YamlNode* node = map.get("budget")) {
    YamlMap part(*node, "budget");
    part.read("seconds", scenario.budget_seconds);
    part.read("cores", scenario.budget_cores);
    part.finish();
    if (scenario.budget_cores < 0 || scenario.budget_cores > kMaxCores) {
      throw Error(node->find("cores")->where,
                  "budget.cores: found " + std::to_string(scenario.budget_cores) + ", wanted 0.." +
                      std::to_string(kMaxCores));
    }
    const double seconds = scenario.budget_seconds;
    if (!(seconds > 0.0 && seconds <= kMaxBudgetSeconds)) {
      throw Error(node->find("seconds")->where,
                  "budget.seconds: found " + nsa::to_text(seconds) + ", wanted above 0 to " +
                      nsa::to_text(kMaxBudgetSeconds));
    }
  }
}

std::vector<std::string> read_checks(const YamlNode& node, const ScenarioOptions* options) {
  std::vector<std::string> checks = nsa::read_texts(node, "checks");
  if (checks.empty()) throw Error(node.where, "checks: found none, wanted at least one");
  for (std::size_t i = 0; i < checks.size(); ++i) {
    const YamlNode& item = node.items[i];
    if (options != nullptr) (void)nsa::read_name(item, "checks", options->known_checks);
    if (std::count(checks.begin(), checks.begin() + static_cast<std::ptrdiff_t>(i), checks[i]) >
        0) {
      throw Error(item.where, "checks: found " + nsa::found_text(item) + " twice, wanted it once");
    }
  }
  return checks;
}

// Laws that tie the parts together; `root` gives the lines.
void check_together(const Scenario& scenario, const YamlNode& root) {
  const auto line_of = [&](std::string_view path, std::string_view else_path) {
    const YamlNode* node = nsa::find_yaml_path(root, path);
    if (node == nullptr) node = nsa::find_yaml_path(root, else_path);
    return node != nullptr ? node->where : root.where;
  };
  const bool text = scenario.training.data.source == nsa::DataConfig::Source::text;
  if (text && scenario.model.vocab_size < kBytes) {
    throw Error(line_of("model.vocab_size", "model"),
                "model.vocab_size: found " + std::to_string(scenario.model.vocab_size) +
                    ", wanted at least 256: the tokens of a text are bytes");
  }
  const bool has_loss =
      scenario.kind == "training" || scenario.kind == "sweep" || scenario.kind == "throughput";
  if (has_loss && scenario.training.seq_len < 2) {
    throw Error(line_of("training.seq_len", "training"),
                "training.seq_len: found " + std::to_string(scenario.training.seq_len) +
                    ", wanted at least 2: every token is predicted from those before it");
  }
  const bool forwards_whole = scenario.trains() || scenario.kind == "throughput";
  if (scenario.training.precision == nsa::Precision::bf16_autocast && !forwards_whole) {
    throw Error(line_of("training.precision", "training"),
                "training.precision: found bf16_autocast with kind " + scenario.kind +
                    ", wanted it with training or throughput: layers alone run in one dtype");
  }
  const bool on_device = scenario.parallel.device == nsa::Device::cuda;
  if (scenario.attention.trace_kernels && (!on_device || scenario.kind != "attention")) {
    throw Error(line_of("attention.trace_kernels", "attention"),
                "attention.trace_kernels: found true, wanted it with kind attention and "
                "parallel.device cuda: only a device has kernels to trace");
  }
  if (!on_device) return;
  const bool nccl = scenario.parallel.effective_backend() == "nccl";
  const std::int64_t wanted = nccl ? scenario.parallel.ranks : 1;
  if (scenario.requires_gpus < wanted) {
    throw Error(line_of("requires.gpus", "parallel.device"),
                "requires.gpus: found " + std::to_string(scenario.requires_gpus) +
                    ", wanted at least " + std::to_string(wanted) +
                    (nccl ? ": with nccl every rank needs a GPU of its own" : ": device is cuda"));
  }
}

}  // namespace

bool Scenario::has_twin() const {
  constexpr std::array kWithTwin = {
      "matches_twin", "close_to_oracle", "data_distinct", "checkpoint_equal", "resume_equal"};
  return trains() && std::any_of(kWithTwin.begin(), kWithTwin.end(), [&](const char* check) {
           return std::find(checks.begin(), checks.end(), check) != checks.end();
         });
}

Scenario read_scenario(const YamlNode& root, const ReadContext& context) {
  YamlMap map(root, "");
  Scenario scenario;
  scenario.path = context.path;
  read_head(map, root, scenario);
  read_kind(map, root, context.manifest, scenario);
  const std::string models =
      context.options != nullptr ? context.options->configs_folder + "/models" : "";
  scenario.model = nsa::read_model(required(map, root, "model"), models);
  const std::string folder = std::filesystem::path(context.path).parent_path().string();
  scenario.training = nsa::read_training(required(map, root, "training"), folder);
  nsa::DataConfig& data = scenario.training.data;
  if (data.text.empty() && context.options != nullptr) data.text = {context.options->default_text};
  const YamlNode* parallel = map.get("parallel");
  scenario.parallel =
      nsa::read_parallel(parallel != nullptr ? *parallel : YamlNode(), scenario.model.n_layers);
  scenario.attention = read_attention(map.get("attention"));
  scenario.sweep = read_sweep(map.get("sweep"));
  const YamlNode* route = map.get("route");
  scenario.route = read_route(route, context.manifest);
  route_compression(route, scenario);
  read_requirements(map, scenario);
  scenario.checks = read_checks(required(map, root, "checks"), context.options);
  check_together(scenario, root);
  const YamlNode* fault = map.get("fault");
  if (fault != nullptr && fault->kind != YamlNode::Kind::null) {
    scenario.fault = read_fault(*fault, scenario, context.manifest);
  }
  const YamlNode* expect = map.get("expect");
  if (expect != nullptr && expect->kind != YamlNode::Kind::null) {
    scenario.expect = read_expectation(*expect);
  }
  scenario.life = read_life(map.get("life"), scenario);
  scenario.bisect = read_bisect(map.get("bisect"), scenario);
  if (map.get("known") != nullptr) scenario.known = read_known(root, scenario, context);
  map.finish();
  return scenario;
}

}  // namespace harness
