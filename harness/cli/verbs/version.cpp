#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include <CLI/CLI.hpp>

#include "harness/cli/paths.h"
#include "harness/cli/verbs.h"
#include "harness/run/build_info.h"
#include "harness/scenario/exit_code.h"
#include "nsa/base/error.h"

namespace harness::cli {
namespace {

int version(bool json) {
  nlohmann::json facts = {{"version", NSA_VERSION}, {"source_hash", built_source_hash()}};
  try {
    const Manifest manifest = load_own_manifest(find_paths());
    facts["worker"] = {{"source_hash", manifest.source_hash},
                       {"torch", manifest.torch_version},
                       {"cuda", manifest.cuda_version},
                       {"nccl", manifest.nccl_version}};
  } catch (const nsa::Error&) {
    facts["worker"] = nullptr;  // built without LibTorch: judging and reporting work
  }
  if (json) {
    std::cout << facts.dump() << "\n";
    return kExitPass;
  }
  std::cout << version_line() << "\n";
  if (facts["worker"].is_null()) {
    std::cout << "no worker: it judges kernels of your own, and records that are there\n";
    return kExitPass;
  }
  std::cout << "worker: sources " << facts["worker"]["source_hash"].get<std::string>();
  for (const char* name : {"torch", "cuda", "nccl"}) {
    const std::string value = facts["worker"][name];
    if (!value.empty()) std::cout << ", " << name << " " << value;
  }
  std::cout << "\n";
  return kExitPass;
}

}  // namespace

std::string version_line() {
  return std::string("nsa-harness ") + NSA_VERSION + ", sources " + built_source_hash();
}

Action add_version(CLI::App& command) {
  const auto json = std::make_shared<bool>(false);
  command.add_flag("--json", *json, "Print one object instead of lines");
  return [json] { return version(*json); };
}

}  // namespace harness::cli
