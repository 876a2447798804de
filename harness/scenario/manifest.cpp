#include "harness/scenario/manifest.h"

#include <nlohmann/json.hpp>

#include "nsa/base/error.h"
#include "nsa/base/file.h"

namespace harness {
namespace {

constexpr std::int64_t kMaxManifestBytes = std::int64_t{1} << 20;

}  // namespace

void to_json(nlohmann::json& json, const FaultInfo& fault) {
  json = {{"name", fault.name},
          {"about", fault.about},
          {"uses", fault.uses},
          {"forms", fault.forms},
          {"needs_layer_above", fault.needs_layer_above}};
}

void from_json(const nlohmann::json& json, FaultInfo& fault) {
  json.at("name").get_to(fault.name);
  json.at("about").get_to(fault.about);
  json.at("uses").get_to(fault.uses);
  json.at("forms").get_to(fault.forms);
  json.at("needs_layer_above").get_to(fault.needs_layer_above);
}

std::string manifest_text(const Manifest& manifest) {
  const nlohmann::json json = {{"source_hash", manifest.source_hash},
                               {"torch_version", manifest.torch_version},
                               {"cuda_version", manifest.cuda_version},
                               {"nccl_version", manifest.nccl_version},
                               {"kinds", manifest.kinds},
                               {"seams", manifest.seams},
                               {"faults", manifest.faults}};
  return json.dump(2) + "\n";
}

Manifest parse_manifest(const std::string& text, const std::string& file) {
  Manifest manifest;
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    json.at("source_hash").get_to(manifest.source_hash);
    json.at("torch_version").get_to(manifest.torch_version);
    json.at("cuda_version").get_to(manifest.cuda_version);
    json.at("nccl_version").get_to(manifest.nccl_version);
    json.at("kinds").get_to(manifest.kinds);
    json.at("seams").get_to(manifest.seams);
    json.at("faults").get_to(manifest.faults);
  } catch (const nlohmann::json::exception& error) {
    throw nsa::Error(nsa::Location{file}, std::string("not a manifest: ") + error.what());
  }
  for (const auto& [seam, implementations] : manifest.seams) {
    if (implementations.empty()) {
      throw nsa::Error(nsa::Location{file},
                       "not a manifest: seam " + seam + " has no implementation");
    }
  }
  return manifest;
}

Manifest load_manifest(const std::string& path) {
  return parse_manifest(nsa::read_file(path, kMaxManifestBytes), path);
}

}  // namespace harness
