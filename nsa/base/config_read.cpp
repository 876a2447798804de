// YAML -> configuration.
#include <algorithm>
#include <filesystem>

#include "nsa/base/config_laws.h"
#include "nsa/base/fields_read.h"
#include "nsa/base/model_fields.h"
#include "nsa/base/parallel_fields.h"
#include "nsa/base/training_fields.h"

namespace nsa {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> models_of(const std::string& folder) {
  std::vector<std::string> names;
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

void resolve_text(DataConfig& data, const YamlNode& node, const std::string& base_folder) {
  for (const std::string& path : data.as_written) {
    if (path.empty()) throw Error(node.where, "training.data.text: found an empty path");
    const fs::path joined = fs::path(base_folder) / path;  // an absolute path stays as it is
    data.text.push_back(fs::absolute(joined).lexically_normal().string());
  }
}

}  // namespace

ModelConfig read_model(const YamlNode& node, const std::string& models_folder) {
  const YamlNode merged = resolve_use(node, models_folder);
  ModelConfig model;
  read_map(kModelFields, merged, "model", model);
  refuse(violation_of(model), merged, "model");
  return model;
}

TrainingConfig read_training(const YamlNode& node, const std::string& base_folder) {
  TrainingConfig training;
  read_map(kTrainingFields, node, "training", training);
  refuse(violation_of(training), node, "training");
  const YamlNode* text = find_yaml_path(node, "data.text");
  resolve_text(training.data, text != nullptr ? *text : node, base_folder);
  return training;
}

ParallelConfig read_parallel(const YamlNode& node, std::int64_t n_layers) {
  YamlMap map(node, "parallel");
  ParallelConfig parallel;
  read_fields(kParallelFields, map, parallel);
  if (const YamlNode* checkpoint = map.get("checkpoint")) {
    YamlMap part(*checkpoint, map.name("checkpoint"));
    read_fields(kCheckpointFields, part, parallel);
    if (const YamlNode* layers = part.get("layers")) {
      parallel.checkpoint_layers = read_layers(*layers, part.name("layers"), n_layers);
    }
    part.finish();
  }
  map.finish();
  refuse(violation_of(parallel), node, "parallel");
  return parallel;
}

}  // namespace nsa
