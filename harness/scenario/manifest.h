// What the worker that belongs to this controller can do, written by the build as JSON (`nsa-harness-worker --manifest`), so
// that names are checked without LibTorch.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace harness {

struct FaultInfo {
  std::string name;
  std::string about;
  std::vector<std::string> uses;  // which of layers, rank, step, strength, form it heeds
  std::vector<std::string> forms;
  bool needs_layer_above = false;  // it does nothing in the last layer

  [[nodiscard]] bool heeds(std::string_view parameter) const;
};

struct Manifest {
  std::string source_hash;
  std::string torch_version;
  std::string cuda_version;  // "" when built without
  std::string nccl_version;
  std::vector<std::string> kinds;
  std::map<std::string, std::vector<std::string>>
      seams;  // seam -> implementations, the default first
  std::vector<FaultInfo> faults;

  // REQUIRES: it is one of `faults`.
  [[nodiscard]] const FaultInfo& fault_named(std::string_view name) const;
};

// Throws: nsa::Error naming the file: missing, malformed.
[[nodiscard]] Manifest load_manifest(const std::string& path);
[[nodiscard]] Manifest parse_manifest(const std::string& text, const std::string& file);
[[nodiscard]] std::string manifest_text(const Manifest& manifest);

}  // namespace harness
