#include "harness/scenario/manifest.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "nsa/base/error.h"
#include "nsa/base/file.h"

namespace harness {
namespace {

constexpr std::int64_t kMaxManifestBytes = std::int64_t{1} << 20;

}  // namespace

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(FaultInfo, name, about, uses, forms, needs_layer_above)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(
    Manifest, source_hash, torch_version, cuda_version, nccl_version, kinds, seams, faults)

bool FaultInfo::heeds(std::string_view parameter) const {
  return std::find(uses.begin(), uses.end(), parameter) != uses.end();
}

const FaultInfo& Manifest::fault_named(std::string_view name) const {
  return *std::find_if(
      faults.begin(), faults.end(), [&](const FaultInfo& fault) { return fault.name == name; });
}

std::string manifest_text(const Manifest& manifest) {
  return nlohmann::json(manifest).dump(2) + "\n";
}

Manifest parse_manifest(const std::string& text, const std::string& file) {
  Manifest manifest;
  try {
    nlohmann::json::parse(text).get_to(manifest);
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
