#include "harness/scenario/scenario_read.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "harness/scenario/scenario.h"
#include "harness/scenario/scenario_fields.h"
#include "nsa/base/fields_read.h"

namespace harness {
namespace {

using nsa::Error;
using nsa::YamlMap;
using nsa::YamlNode;

constexpr std::int64_t kBytes = 256;  // what a token of a text can be

// Seams that came when cases lay in databases already. Their defaults are left out of the route, so that the id of a case that
// does not name them is what it was.
bool is_told_only_where_named(const std::string& seam,
                              const std::string& implementation,
                              const Manifest& manifest) {
  return (seam == "mlp" || seam == "norm" || seam == "transport") &&
         implementation == manifest.seams.at(seam).front();
}

// Every seam of the manifest, the first implementation of each where the scenario names none.
std::map<std::string, std::string> read_route(const YamlNode* node, const Manifest* manifest) {
  nsa::YamlKeyLog::note("route.SEAM");
  std::map<std::string, std::string> route;
  std::vector<std::string> seams;
  if (manifest != nullptr) {
    for (const auto& [seam, implementations] : manifest->seams) {
      seams.push_back(seam);
      const std::string& preset = implementations.front();
      if (!is_told_only_where_named(seam, preset, *manifest)) route[seam] = preset;
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
      const std::string name = nsa::read_name(value, what, manifest->seams.at(seam));
      if (!is_told_only_where_named(seam, name, *manifest)) route[seam] = name;
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
  const bool by_hand = grad_sync->second == "by_hand" && scenario.parallel.compress == "none";
  if (by_hand) return;
  if (named != nullptr && grad_sync->second != wanted) {
    throw Error(named->where,
                "route.grad_sync: found " + nsa::found_text(*named) + ", wanted " + wanted +
                    ", as parallel.ddp.compress says");
  }
  grad_sync->second = wanted;
}

void check_names(const YamlNode& root, const ReadContext& context, const Scenario& scenario) {
  if (context.manifest != nullptr) {
    (void)nsa::read_name(*root.find("kind"), "kind", context.manifest->kinds);
  }
  const YamlNode& node = *root.find("checks");
  const std::vector<std::string>& checks = scenario.checks;
  if (checks.empty()) throw Error(node.where, "checks: found none, wanted at least one");
  for (std::size_t i = 0; i < checks.size(); ++i) {
    const YamlNode& item = node.items[i];
    if (context.options != nullptr) {
      (void)nsa::read_name(item, "checks", context.options->known_checks);
    }
    if (std::count(checks.begin(), checks.begin() + static_cast<std::ptrdiff_t>(i), checks[i]) >
        0) {
      throw Error(item.where, "checks: found " + nsa::found_text(item) + " twice, wanted it once");
    }
  }
}

// A command is not asked what it trains. The least numbers that a model may have stand where nobody reads any.
void say_nothing_of_training(Scenario& scenario) {
  nsa::ModelConfig& model = scenario.model;
  for (std::int64_t* size : {&model.dim,
                             &model.n_layers,
                             &model.n_heads,
                             &model.n_kv_groups,
                             &model.d_v,
                             &model.l,
                             &model.d,
                             &model.l_sel,
                             &model.n_sel,
                             &model.w}) {
    *size = 1;
  }
  model.d_k = 2;
  scenario.training.seq_len = 1;
  scenario.training.data.source = nsa::DataConfig::Source::uniform;  // reads no text
}

// What is read by functions of its own: model files, paths of texts, layers.
void read_configs(YamlMap& map, const ReadContext& context, Scenario& scenario) {
  const ScenarioOptions* options = context.options;
  if (scenario.is_command()) return say_nothing_of_training(scenario);
  scenario.model = nsa::read_model(map.require("model"),
                                   options != nullptr ? options->configs_folder + "/models" : "");
  const std::string folder = std::filesystem::path(context.path).parent_path().string();
  scenario.training = nsa::read_training(map.require("training"), folder);
  nsa::DataConfig& data = scenario.training.data;
  if (data.text.empty() && options != nullptr) data.text = {options->default_text};
  const YamlNode* parallel = map.get("parallel");
  scenario.parallel =
      nsa::read_parallel(parallel != nullptr ? *parallel : YamlNode(), scenario.model.n_layers);
}

void check_kernel(const Scenario& scenario, const nsa::Location& where) {
  const auto refuse_kernel = [&](const std::string& text) { throw Error(where, "kernel" + text); };
  const KernelConfig& kernel = scenario.kernel;
  if (!scenario.is_foreign()) {
    if (kernel != KernelConfig()) refuse_kernel(": wanted with kind kernel alone");
    return;
  }
  if (kernel.level.empty()) refuse_kernel(".level: found none, wanted one");
  if (kernel.callable.find(':') == std::string::npos) {
    refuse_kernel(".callable: found \"" + kernel.callable + "\", wanted module:name");
  }
  if (kernel.from.empty() && kernel.callable.starts_with("__main__:")) {
    refuse_kernel(".from: found none, wanted the script that defines " + kernel.callable);
  }
  if (scenario.parallel.ranks != 1) refuse_kernel(": wanted with parallel.ranks 1");
  const nsa::Precision precision = scenario.training.precision;
  const bool plain = precision == nsa::Precision::fp64 || precision == nsa::Precision::fp32 ||
                     precision == nsa::Precision::bf16 || precision == nsa::Precision::fp16;
  if (!plain) refuse_kernel(": wanted with training.precision fp64, fp32, bf16 or fp16");
  if (kernel.chooses() && (kernel.gradients || kernel.lse != "none")) {
    refuse_kernel(".level: found " + kernel.level +
                  ", wanted it with gradients false and lse none");
  }
  if (kernel.picks != "own" && !kernel.takes_picks()) {
    refuse_kernel(".picks: found " + kernel.picks +
                  ", wanted it with level attend_sel or attention");
  }
  if (kernel.keys != "shared" && !kernel.is_whole()) {
    refuse_kernel(".keys: found " + kernel.keys + ", wanted it with level attention");
  }
  if (kernel.is_whole() && kernel.lse != "none") {
    refuse_kernel(".lse: found " + kernel.lse + ", wanted none with level attention");
  }
  if (!kernel.own_block && kernel.picks == "own") {
    refuse_kernel(".own_block: found false, wanted it with picks external");
  }
  for (const std::string& text : kernel.widths) {
    if (kernel.chooses()) refuse_kernel(".widths: wanted with a level that has values");
    if (kernel_widths(text)) continue;
    refuse_kernel(".widths: found \"" + text + "\", wanted an even d_k and a d_v, such as 32x16");
  }
  const bool names_a_block =
      kernel.sentinel >= 0 && kernel.sentinel < scenario.model.n_sel + 3;  // blocks of a trial
  if (names_a_block) {
    refuse_kernel(".sentinel: found " + std::to_string(kernel.sentinel) +
                  ", the number of a block: wanted -1 or a number that no block has");
  }
}

void check_command(const Scenario& scenario, const nsa::Location& where) {
  if (scenario.is_command() == scenario.command.argv.empty()) {
    throw Error(where, "command.argv: wanted with kind command, and with no other");
  }
}

// What only a captured step cannot have, as far as the scenario tells; the rest its route refuses (nsa/train/step_graph.h).
void check_cuda_graph(const Scenario& scenario, const nsa::Location& where) {
  if (!scenario.training.cuda_graph) return;
  const auto refuse_graph = [&](const std::string& wanted) {
    throw Error(where, "training.cuda_graph: found true, wanted it " + wanted);
  };
  if (scenario.kind != "throughput") {
    refuse_graph("with kind throughput: kind " + scenario.kind +
                 " records inside of a step, where a graph has no host");
  }
  if (scenario.parallel.device != nsa::Device::cuda) {
    refuse_graph("with parallel.device cuda: only a card has graphs");
  }
  if (scenario.parallel.ranks != 1) {
    refuse_graph("with parallel.ranks 1: the ranks' collectives are not captured");
  }
  if (!scenario.parallel.checkpoint_layers.empty()) {
    refuse_graph(
        "without parallel.checkpoint.layers: what is computed again reads the state of "
        "random number generators");
  }
  if (scenario.fault) {
    refuse_graph("without a fault: no fault takes part in a step that the host does not run");
  }
  if (scenario.training.steps <= nsa::kStepsBeforeGraph) {
    refuse_graph("with training.steps above " + std::to_string(nsa::kStepsBeforeGraph) +
                 ": those before are not captured");
  }
}

// The other kinds record nothing but what they judge.
void check_observe(const Scenario& scenario, const nsa::Location& where) {
  const bool has_steps = scenario.trains() || scenario.kind == "throughput";
  if (scenario.observe == kWatchValues || has_steps) return;
  throw Error(where,
              "observe: found " + std::to_string(scenario.observe) + " with kind " + scenario.kind +
                  ", wanted it with kind training or throughput");
}

// Which kinds look at it: a mask that is passed over would be judged as if it held.
void check_loss_mask(const Scenario& scenario, const nsa::Location& where) {
  const bool asked = scenario.training.data.loss_mask != nsa::DataConfig::LossMask::none;
  if (asked && scenario.kind != "training") {
    throw Error(where,
                "training.data.loss_mask: found ragged with kind " + scenario.kind +
                    ", wanted it with kind training");
  }
}

// What is judged document by document, and where positions begin again.
void check_packed(const Scenario& scenario, const nsa::Location& where) {
  const nsa::DataConfig& data = scenario.training.data;
  if (data.packed == 1) return;
  const auto refuse_packed = [&](const std::string& wanted) {
    throw Error(
        where,
        "training.data.packed: found " + std::to_string(data.packed) + ", wanted it " + wanted);
  };
  if (scenario.kind != "training") refuse_packed("with kind training, not " + scenario.kind);
  if (data.packed > scenario.training.seq_len / 2) {
    refuse_packed("no larger than half of training.seq_len, " +
                  std::to_string(scenario.training.seq_len / 2));
  }
  if (data.loss_mask != nsa::DataConfig::LossMask::none) {
    refuse_packed("with training.data.loss_mask none: a mask could leave nothing to score");
  }
  if (data.source == nsa::DataConfig::Source::long_range) {
    refuse_packed("without training.data.source long_range: its tokens repeat across documents");
  }
  const nsa::Precision precision = scenario.training.precision;
  if (precision == nsa::Precision::bf16_autocast) {
    refuse_packed("with training.precision fp64, fp32, bf16 or fp16");
  }
  if (!scenario.parallel.checkpoint_layers.empty()) {
    refuse_packed("without parallel.checkpoint.layers: no recomputation knows of documents yet");
  }
}

// The bound of the one table's gradient is that of types that are wide enough for both sums.
void check_tied_head(const Scenario& scenario, const nsa::Location& where) {
  const nsa::Precision precision = scenario.training.precision;
  const bool wide = precision == nsa::Precision::fp32 || precision == nsa::Precision::fp64;
  if (scenario.model.tied_head && !wide) {
    throw Error(where,
                "model.tied_head: found true, wanted it with training.precision fp32 or fp64");
  }
}

// Only the training loop has masks, and only what is judged block by block sees them.
void check_dropout(const Scenario& scenario, const nsa::Location& where) {
  if (!(scenario.model.dropout > 0)) return;
  const std::string found = "model.dropout: found " + nsa::to_text(scenario.model.dropout);
  if (scenario.kind != "training") {
    throw Error(where, found + " with kind " + scenario.kind + ", wanted it with kind training");
  }
}

// One pass over all sequences sums in another order, which float64 alone shows to be the same; and it has no places of dropout.
void check_joint_batch(const Scenario& scenario, const nsa::Location& where) {
  if (!scenario.has_check("equals_joint_batch")) return;
  const std::string with = "checks: found equals_joint_batch with ";
  if (scenario.kind != "training") {
    throw Error(where, with + "kind " + scenario.kind + ", wanted kind training");
  }
  if (scenario.training.precision != nsa::Precision::fp64) {
    throw Error(where, with + "another precision than fp64, wanted training.precision fp64");
  }
  if (scenario.model.dropout > 0) {
    throw Error(where, with + "model.dropout, wanted a model without dropout");
  }
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
  check_observe(scenario, line_of("observe", "kind"));
  check_cuda_graph(scenario, line_of("training.cuda_graph", "training"));
  check_tied_head(scenario, line_of("model.tied_head", "model"));
  check_dropout(scenario, line_of("model.dropout", "model"));
  check_loss_mask(scenario, line_of("training.data.loss_mask", "training"));
  check_packed(scenario, line_of("training.data.packed", "training"));
  check_joint_batch(scenario, line_of("checks", "kind"));
  check_kernel(scenario, line_of("kernel", "kind"));
  check_command(scenario, line_of("command", "kind"));
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

std::optional<KernelWidths> kernel_widths(const std::string& text) {
  constexpr std::int64_t kWidest = 4096;
  const std::size_t cross = text.find('x');
  if (cross == std::string::npos) return std::nullopt;
  const auto d_k = nsa::parse_int(text.substr(0, cross));
  const auto d_v = nsa::parse_int(text.substr(cross + 1));
  const bool fits =
      d_k && d_v && *d_k >= 2 && *d_k <= kWidest && *d_k % 2 == 0 && *d_v >= 1 && *d_v <= kWidest;
  return fits ? std::optional(KernelWidths{*d_k, *d_v}) : std::nullopt;
}

bool Scenario::has_twin() const {
  constexpr std::array kWithTwin = {"matches_twin",
                                    "close_to_oracle",
                                    "data_distinct",
                                    "checkpoint_equal",
                                    "resume_equal",
                                    "equals_joint_batch"};
  const auto asks_for = [&](const char* check) { return has_check(check); };
  const bool trained = trains() && observe == kWatchValues &&
                       std::any_of(kWithTwin.begin(), kWithTwin.end(), asks_for);
  return trained || (kind == "throughput" && observe >= kWatchEvents && asks_for("same_losses"));
}

bool is_scenario_name(const std::string& text) {
  constexpr std::size_t kLongest = 64;
  return !text.empty() && text.size() <= kLongest &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string::npos;
}

bool is_layout(const std::string& text) {
  std::string letters = text;
  std::sort(letters.begin(), letters.end());
  return letters == "bdhs";
}

Scenario read_scenario(const YamlNode& root, const ReadContext& context) {
  YamlMap map(root, "");
  const YamlNode& version = map.require("version");
  if (const std::int64_t found = nsa::read_int(version, "version"); found != kFormatVersion) {
    throw Error(version.where, "version: found " + std::to_string(found) + ", wanted 1");
  }
  Scenario scenario;
  scenario.path = context.path;
  nsa::read_fields(kScenarioFields, map, scenario);
  check_names(root, context, scenario);
  read_configs(map, context, scenario);
  const YamlNode* route = map.get("route");
  scenario.route = read_route(route, context.manifest);
  route_compression(route, scenario);
  const YamlNode* fault = map.get("fault");
  if (fault != nullptr && fault->kind != YamlNode::Kind::null) {
    scenario.fault = read_fault(*fault, scenario, context);
  }
  const YamlNode* expect = map.get("expect");
  if (expect != nullptr && expect->kind != YamlNode::Kind::null) {
    scenario.expect = read_expectation(*expect);
  }
  nsa::refuse(nsa::out_of_range(kScenarioFields, scenario), root, "");
  check_together(scenario, root);
  check_life(root, scenario);
  finish_bisect(root, scenario);
  if (map.get("known") != nullptr) scenario.known = read_known(root, scenario, context);
  map.finish();
  return scenario;
}

}  // namespace harness
