#include "harness/scenario/overrides.h"

#include <algorithm>

#include "nsa/base/text.h"

namespace harness {
namespace {

using nsa::Error;
using nsa::Location;
using nsa::YamlMap;
using nsa::YamlNode;

constexpr const char* kGpuProfile = "gpu";  // the one that is chosen by what is there

std::string root_of(const std::string& path) {
  return path.substr(0, path.find('.'));
}

// True if `path` is `prefix` or lies below it.
bool is_below(const std::string& path, const std::string& prefix) {
  return path == prefix || path.starts_with(prefix + ".");
}

void erase_key(YamlNode& map, const std::string& key) {
  std::erase_if(map.entries, [&](const auto& entry) { return entry.key == key; });
}

// What says which scenario this is cannot be overridden.
void refuse_roots(const std::string& path, const Location& where) {
  const std::string root = root_of(path);
  for (const char* fixed : {"version", "scenario", "profiles", "axes"}) {
    if (root == fixed) {
      throw Error(where, "found " + root + ", wanted a value of the scenario");
    }
  }
}

void apply_profile(YamlNode& root, const std::string& name) {
  const YamlNode* profiles = root.find("profiles");
  if (profiles == nullptr || name.empty()) return;
  const YamlNode over = *profiles->find(name);
  YamlMap(over, "profiles." + name);  // refuses what is no map
  for (const auto& [key, value] : over.entries) {
    if (key != "axes") refuse_roots(key, value.where);
  }
  if (over.kind == YamlNode::Kind::map) nsa::merge_yaml(root, over);
}

Axis read_axis(const std::string& path, const YamlNode& node) {
  refuse_roots(path, node.where);
  if (node.kind != YamlNode::Kind::sequence || node.items.empty()) {
    throw Error(
        node.where,
        "axes." + path + ": found " +
            (node.kind == YamlNode::Kind::sequence ? "an empty list" : nsa::found_text(node)) +
            ", wanted a list of values");
  }
  Axis axis;
  axis.path = path;
  for (const YamlNode& item : node.items) {
    std::string text = flow_text(item);
    for (const auto& [known, value] : axis.values) {
      if (known == text) {
        throw Error(item.where, "axes." + path + ": found " + text + " twice, wanted it once");
      }
    }
    axis.values.emplace_back(std::move(text), item);
  }
  return axis;
}

std::vector<Axis> read_axes(const YamlNode& root) {
  nsa::YamlKeyLog::note("axes");
  nsa::YamlKeyLog::note("axes.PATH");
  std::vector<Axis> axes;
  const YamlNode* node = root.find("axes");
  if (node == nullptr) return axes;
  YamlMap(*node, "axes");  // refuses what is no map
  for (const auto& [path, values] : node->entries) {
    for (const Axis& other : axes) {
      if (is_below(path, other.path) || is_below(other.path, path)) {
        throw Error(values.where,
                    "axes: found " + path + " beside " + other.path +
                        ", wanted axes over different values");
      }
    }
    axes.push_back(read_axis(path, values));
  }
  return axes;
}

void apply_set(YamlNode& root,
               const std::vector<Axis>& axes,
               const std::string& path,
               const std::string& value) {
  const Location where{"--set " + path + "=" + value};
  refuse_roots(path, where);
  for (const Axis& axis : axes) {
    if (is_below(path, axis.path)) {
      throw Error(
          where, axis.path + " is an axis of this scenario, wanted --only " + axis.path + "=VALUE");
    }
  }
  const YamlNode node = nsa::relocated(nsa::parse_yaml(value, where.file), where);
  if (path == "fault" && node.kind == YamlNode::Kind::null) {
    erase_key(root, "fault");
  } else if (path == "fault" && node.kind == YamlNode::Kind::scalar) {
    nsa::set_yaml_path(root, "fault.name", node);
  } else {
    nsa::set_yaml_path(root, path, node);
  }
}

}  // namespace

std::string flow_text(const YamlNode& node) {
  std::vector<std::string> parts;
  switch (node.kind) {
    case YamlNode::Kind::null: return "null";
    case YamlNode::Kind::scalar: return node.scalar;
    case YamlNode::Kind::sequence:
      for (const YamlNode& item : node.items) parts.push_back(flow_text(item));
      return "[" + nsa::join(parts) + "]";
    case YamlNode::Kind::map:
      for (const auto& [key, value] : node.entries) parts.push_back(key + ": " + flow_text(value));
      return "{" + nsa::join(parts) + "}";
  }
  return "";
}

std::vector<std::string> profiles_of(const YamlNode& document) {
  nsa::YamlKeyLog::note("profiles");
  nsa::YamlKeyLog::note("profiles.NAME");
  std::vector<std::string> names;
  const YamlNode* profiles = document.find("profiles");
  if (profiles == nullptr) return names;
  YamlMap(*profiles, "profiles");  // refuses what is no map
  for (const auto& [name, value] : profiles->entries) {
    if (name == kNoProfile) {
      throw Error(value.where,
                  "profiles: found \"base\", which means no profile, wanted another name");
    }
    names.push_back(name);
  }
  return names;
}

std::string choose_profile(const YamlNode& document, const ScenarioOptions& options) {
  const std::vector<std::string> names = profiles_of(document);
  const auto has = [&](const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (options.profile) {
    if (*options.profile == kNoProfile) return "";
    if (has(*options.profile)) return *options.profile;
    std::vector<std::string> known = names;
    known.insert(known.begin(), kNoProfile);
    nsa::throw_unknown_name({document.where.file}, "--profile", *options.profile, known);
  }
  if (!has(kGpuProfile) || options.gpus < 1) return "";
  YamlNode profiled = document;
  apply_profile(profiled, kGpuProfile);
  const YamlNode* gpus = nsa::find_yaml_path(profiled, "requires.gpus");
  const bool enough = gpus == nullptr || options.gpus >= nsa::read_int(*gpus, "requires.gpus");
  return enough ? kGpuProfile : "";
}

ScenarioFile resolve_file(YamlNode document,
                          const std::string& profile,
                          const ScenarioOptions& options) {
  YamlMap(document, "");  // refuses what is no map
  ScenarioFile file;
  file.profile = profile;
  file.root = std::move(document);
  apply_profile(file.root, profile);
  file.axes = read_axes(file.root);
  erase_key(file.root, "profiles");
  erase_key(file.root, "axes");
  for (const auto& [path, value] : options.sets) apply_set(file.root, file.axes, path, value);
  if (options.seed) {
    YamlNode seed;
    seed.kind = YamlNode::Kind::scalar;
    seed.scalar = std::to_string(*options.seed);
    seed.where = {"--seed " + seed.scalar};
    for (const Axis& axis : file.axes) {
      if (axis.path == "seed") throw Error(seed.where, "seed is an axis of this scenario");
    }
    nsa::set_yaml_path(file.root, "seed", seed);
  }
  return file;
}

void keep_only(std::vector<Axis>& axes,
               const std::vector<std::pair<std::string, std::string>>& only,
               const std::string& file) {
  std::vector<std::string> paths;
  for (const Axis& axis : axes) paths.push_back(axis.path);
  for (const auto& [path, value] : only) {
    if (axes.empty())
      throw Error(Location{file}, "--only " + path + "=" + value + ": found no axes");
    const auto axis =
        std::find_if(axes.begin(), axes.end(), [&wanted = path](const Axis& candidate) {
          return candidate.path == wanted;
        });
    if (axis == axes.end()) nsa::throw_unknown_name({file}, "axis of --only", path, paths);
    std::vector<std::string> texts;
    for (const auto& [text, node] : axis->values) texts.push_back(text);
    if (std::find(texts.begin(), texts.end(), value) == texts.end()) {
      nsa::throw_unknown_name({file}, "--only " + path, value, texts);
    }
  }
  for (Axis& axis : axes) {
    const auto asked = [&](const std::string& value) {
      return std::find(only.begin(), only.end(), std::pair(axis.path, value)) != only.end();
    };
    const bool any = std::any_of(
        only.begin(), only.end(), [&](const auto& entry) { return entry.first == axis.path; });
    if (any) std::erase_if(axis.values, [&](const auto& value) { return !asked(value.first); });
  }
}

}  // namespace harness
