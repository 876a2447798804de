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
  read_choice(map, "source", {"text", "uniform", "long_range"}, {}, source);
  data.source = source == "uniform"      ? DataConfig::Source::uniform
                : source == "long_range" ? DataConfig::Source::long_range
                                         : DataConfig::Source::text;
  map.read("text", data.as_written);
  map.read("distance", data.distance);
  map.read("sharpness", data.sharpness);
  map.finish();
  const bool copies = data.source == DataConfig::Source::long_range;
  if (copies != (data.distance > 0)) {
    throw Error(
        node.where,
        "training.data.distance: found " + std::to_string(data.distance) + ", wanted " +
            (copies ? "at least 1 with source long_range" : "it with source long_range only"));
  }
  if (!(data.sharpness >= 0.0 && data.sharpness <= 1.0)) {
    throw Error(node.where,
                "training.data.sharpness: found " + to_text(data.sharpness) + ", wanted 0..1");
  }
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

void read_ddp(const YamlNode& node, ParallelConfig& parallel) {
  YamlMap map(node, "parallel.ddp");
  map.read("static_graph", parallel.static_graph);
  map.read("find_unused", parallel.find_unused);
  map.read("gradient_as_bucket_view", parallel.gradient_as_bucket_view);
  map.read("bucket_mb", parallel.bucket_mb);
  read_choice(map, "compress", {"none", "bf16"}, {"fp16", "powersgd"}, parallel.compress);
  map.finish();
}

// none, all, or a list of layers, each once.
std::vector<int> read_layers(const YamlNode& node, const std::string& what, std::int64_t n_layers) {
  std::vector<int> layers;
  if (node.kind == YamlNode::Kind::scalar && node.scalar == "none") return layers;
  if (node.kind == YamlNode::Kind::scalar && node.scalar == "all") {
    for (std::int64_t layer = 0; layer < n_layers; ++layer)
      layers.push_back(static_cast<int>(layer));
    return layers;
  }
  if (node.kind != YamlNode::Kind::sequence) {
    throw Error(node.where,
                what + ": found " + found_text(node) + ", wanted none, all or a list of layers");
  }
  for (const YamlNode& item : node.items) {
    const std::int64_t layer = read_int(item, what);
    if (layer < 0 || layer >= n_layers) {
      throw Error(
          item.where,
          what + ": found " + found_text(item) + ", wanted 0.." + std::to_string(n_layers - 1));
    }
    layers.push_back(static_cast<int>(layer));
  }
  std::sort(layers.begin(), layers.end());
  if (std::adjacent_find(layers.begin(), layers.end()) != layers.end()) {
    throw Error(node.where, what + ": found a layer twice, wanted each once");
  }
  return layers;
}

void read_checkpoint(const YamlNode& node, std::int64_t n_layers, ParallelConfig& parallel) {
  YamlMap map(node, "parallel.checkpoint");
  if (const YamlNode* layers = map.get("layers")) {
    parallel.checkpoint_layers = read_layers(*layers, map.name("layers"), n_layers);
  }
  read_choice(map, "mode", {"functional", "nested"}, {}, parallel.checkpoint_mode);
  map.read("keep_blocks", parallel.checkpoint_keep_blocks);
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
             Precision::fp16_pure,
             Precision::bf16_autocast},
            {},
            training.precision);
  map.read("reaches_floor", training.reaches_floor);
  if (const YamlNode* data = map.get("data")) training.data = read_data(*data, base_folder);
  if (const YamlNode* part = map.get("optimizer")) training.optimizer = read_optimizer(*part);
  map.finish();
  check_laws(training, node, "training");
  return training;
}

ParallelConfig read_parallel(const YamlNode& node, std::int64_t n_layers) {
  YamlMap map(node, "parallel");
  ParallelConfig parallel;
  map.read("ranks", parallel.ranks);
  std::string device = name_of(parallel.device);
  read_choice(map, "device", {"cpu", "cuda"}, {}, device);
  parallel.device = device == "cuda" ? Device::cuda : Device::cpu;
  read_choice(map, "backend", {"auto", "gloo", "nccl"}, {}, parallel.backend);
  if (const YamlNode* ddp = map.get("ddp")) read_ddp(*ddp, parallel);
  if (const YamlNode* part = map.get("checkpoint")) read_checkpoint(*part, n_layers, parallel);
  map.finish();
  check_laws(parallel, node, "parallel");
  return parallel;
}

}  // namespace nsa
