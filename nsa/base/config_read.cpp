// YAML -> configuration.
#include <algorithm>
#include <array>
#include <filesystem>

#include "nsa/base/config.h"
#include "nsa/base/config_laws.h"
#include "nsa/base/text.h"

namespace nsa {
namespace {

namespace fs = std::filesystem;

using Names = std::vector<std::string>;

// Reads `key` as one of `available`; one of `planned` is told apart from a word that means nothing.
void read_choice(YamlMap& map,
                 const std::string& key,
                 const Names& available,
                 const Names& planned,
                 std::string& out) {
  const YamlNode* node = map.get(key);
  if (node == nullptr) return;
  const std::string name = read_text(*node, map.name(key));
  if (std::find(planned.begin(), planned.end(), name) != planned.end()) {
    throw Error(node->where,
                map.name(key) + ": found \"" + name +
                    "\", which is not available in this version, wanted " +
                    (available.size() > 1 ? "one of " : "") + join(available));
  }
  out = read_name(*node, map.name(key), available);
}

// Reads `key` as the name of one of `values`.
template <typename Enum>
void read_enum(YamlMap& map,
               const std::string& key,
               const std::vector<Enum>& values,
               const Names& planned,
               Enum& out) {
  Names names;
  for (const Enum value : values) names.emplace_back(name_of(value));
  std::string name = name_of(out);
  read_choice(map, key, names, planned, name);
  for (const Enum value : values) {
    if (name == name_of(value)) out = value;
  }
}

template <typename Config>
void check_laws(const Config& config, const YamlNode& node, const std::string& path) {
  const auto found = violation_of(config);
  if (!found) return;
  const YamlNode* value = found->key.empty() ? nullptr : find_yaml_path(node, found->key);
  throw Error(value != nullptr ? value->where : node.where,
              (found->key.empty() ? path : path + "." + found->key) + ": " + found->text);
}

Names models_of(const std::string& folder) {
  Names names;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
  }
  if (names.empty()) throw Error("found no model configuration in " + folder);
  std::sort(names.begin(), names.end());
  return names;
}

// {use: NAME, ...overrides} -> the file's values with the overrides laid over them.
YamlNode resolve_use(const YamlNode& node, const std::string& models_folder) {
  YamlMap(node, "model");  // refuses what is no map
  YamlKeyLog::note("model.use");
  const YamlNode* use = node.find("use");
  if (use == nullptr) return node;
  const std::string name = read_name(*use, "model.use", models_of(models_folder));
  YamlNode merged = load_yaml((fs::path(models_folder) / (name + ".yaml")).string());
  if (merged.find("use") != nullptr) {
    throw Error(merged.find("use")->where, "found use in a model configuration, wanted values");
  }
  YamlNode named;
  named.kind = YamlNode::Kind::scalar;
  named.where = use->where;
  named.scalar = name;
  set_yaml_path(merged, "name", named);
  YamlNode overrides = node;
  std::erase_if(overrides.entries, [](const auto& entry) { return entry.key == "use"; });
  merge_yaml(merged, overrides);
  merged.where = node.where;
  return merged;
}

void read_sizes(YamlMap& map, ModelConfig& model) {
  map.read("name", model.name);
  map.read("dim", model.dim);
  map.read("n_layers", model.n_layers);
  map.read("n_heads", model.n_heads);
  map.read("n_kv_groups", model.n_kv_groups);
  map.read("d_k", model.d_k);
  map.read("d_v", model.d_v);
  map.read("l", model.l);
  map.read("d", model.d);
  map.read("l_sel", model.l_sel);
  map.read("n_sel", model.n_sel);
  map.read("w", model.w);
  map.read("init_blocks", model.init_blocks);
  map.read("local_blocks", model.local_blocks);
  map.read("vocab_size", model.vocab_size);
  map.read("mlp_ratio", model.mlp_ratio);
  map.read("rope_base", model.rope_base);
  map.read("rope_scale", model.rope_scale);
  map.read("gate_temp", model.gate_temp);
  map.read("gate_hidden", model.gate_hidden);
}

DataConfig read_data(const YamlNode& node, const std::string& base_folder) {
  YamlMap map(node, "training.data");
  DataConfig data;
  std::string source = name_of(data.source);
  read_choice(map, "source", {"text"}, {"uniform", "long_range"}, source);
  map.read("text", data.as_written);
  map.finish();
  for (const std::string& path : data.as_written) {
    if (path.empty()) throw Error(node.where, "training.data.text: found an empty path");
    const fs::path joined = fs::path(base_folder) / path;  // an absolute path stays as it is
    data.text.push_back(fs::absolute(joined).lexically_normal().string());
  }
  return data;
}

OptimizerConfig read_optimizer(const YamlNode& node) {
  YamlMap map(node, "training.optimizer");
  OptimizerConfig optimizer;
  map.read("lr", optimizer.lr);
  map.read("beta1", optimizer.beta1);
  map.read("beta2", optimizer.beta2);
  map.read("eps", optimizer.eps);
  map.read("weight_decay", optimizer.weight_decay);
  map.read("max_norm", optimizer.max_norm);
  map.read("warmup", optimizer.warmup);
  map.read("total", optimizer.total);
  map.finish();
  return optimizer;
}

[[noreturn]] void throw_unavailable(const YamlNode& node,
                                    const std::string& what,
                                    const std::string& wanted) {
  throw Error(node.where,
              what + ": found " + found_text(node) +
                  ", which is not available in this version, wanted " + wanted);
}

void read_ddp(const YamlNode& node, ParallelConfig& parallel) {
  YamlMap map(node, "parallel.ddp");
  for (const char* key : {"static_graph", "find_unused"}) {
    const YamlNode* flag = map.get(key);
    if (flag != nullptr && read_bool(*flag, map.name(key))) {
      throw_unavailable(*flag, map.name(key), "false");
    }
  }
  map.read("bucket_mb", parallel.bucket_mb);
  read_choice(map, "compress", {"none"}, {"fp16", "bf16", "powersgd"}, parallel.compress);
  map.finish();
}

void read_checkpoint(const YamlNode& node, ParallelConfig& parallel) {
  YamlMap map(node, "parallel.checkpoint");
  if (const YamlNode* layers = map.get("layers")) {
    const bool none = layers->kind == YamlNode::Kind::scalar && layers->scalar == "none";
    const bool empty = layers->kind == YamlNode::Kind::sequence && layers->items.empty();
    if (!none && !empty) throw_unavailable(*layers, map.name("layers"), "none");
  }
  read_choice(map, "mode", {"functional"}, {"nested"}, parallel.checkpoint_mode);
  map.finish();
}

}  // namespace

ModelConfig read_model(const YamlNode& node, const std::string& models_folder) {
  const YamlNode merged = resolve_use(node, models_folder);
  YamlMap map(merged, "model");
  ModelConfig model;
  read_sizes(map, model);
  read_enum(map, "gate", {Gate::group_softmax, Gate::head_sigmoid}, {}, model.gate);
  read_enum(map, "phi", {Phi::avg, Phi::conv, Phi::mlp}, {}, model.phi);
  read_enum(map, "eq9", {Eq9::fractional, Eq9::overlap}, {}, model.eq9);
  map.finish();
  check_laws(model, merged, "model");
  return model;
}

TrainingConfig read_training(const YamlNode& node, const std::string& base_folder) {
  YamlMap map(node, "training");
  TrainingConfig training;
  map.read("steps", training.steps);
  map.read("batch_size", training.batch_size);
  map.read("seq_len", training.seq_len);
  map.read("accumulate", training.accumulate);
  read_enum(map,
            "precision",
            {Precision::fp64,
             Precision::fp32,
             Precision::bf16,
             Precision::fp16,
             Precision::bf16_pure,
             Precision::fp16_pure},
            {},
            training.precision);
  if (const YamlNode* data = map.get("data")) training.data = read_data(*data, base_folder);
  if (const YamlNode* part = map.get("optimizer")) training.optimizer = read_optimizer(*part);
  map.finish();
  check_laws(training, node, "training");
  if (training.accumulate > 1) {
    throw_unavailable(*node.find("accumulate"), map.name("accumulate"), "1");
  }
  return training;
}

ParallelConfig read_parallel(const YamlNode& node) {
  YamlMap map(node, "parallel");
  ParallelConfig parallel;
  map.read("ranks", parallel.ranks);
  std::string device = name_of(parallel.device);
  read_choice(map, "device", {"cpu", "cuda"}, {}, device);
  parallel.device = device == "cuda" ? Device::cuda : Device::cpu;
  read_choice(map, "backend", {"auto", "gloo", "nccl"}, {}, parallel.backend);
  if (const YamlNode* ddp = map.get("ddp")) read_ddp(*ddp, parallel);
  if (const YamlNode* part = map.get("checkpoint")) read_checkpoint(*part, parallel);
  map.finish();
  check_laws(parallel, node, "parallel");
  return parallel;
}

}  // namespace nsa
