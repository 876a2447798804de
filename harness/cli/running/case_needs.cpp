#include "harness/cli/running/case_needs.h"

#include <algorithm>

#include "nsa/base/text.h"

namespace harness::cli {
namespace {

constexpr int kOldestOfKernels =
    80;  // compute capability that fa2 and this project's kernels begin at
constexpr int kOldestOfCuda13 = 75;

// NVIDIA's table: the oldest driver on which programs of this CUDA run. 0: nothing is known.
int oldest_driver(const std::string& cuda_version) {
  constexpr int kForCuda13 = 580;
  constexpr int kForCuda12 = 525;
  if (cuda_version.starts_with("13.")) return kForCuda13;
  return cuda_version.starts_with("12.") ? kForCuda12 : 0;
}

// The compute capability that a card must have to run the case, 0 where every card will do.
int wanted_capability(const Scenario& scenario, const Manifest& manifest) {
  if (scenario.is_foreign()) return 0;
  const bool kernels =
      std::any_of(scenario.route.begin(), scenario.route.end(), [](const auto& asked) {
        return asked.second.starts_with("cuda") || asked.second == "fa2";
      });
  if (kernels) return kOldestOfKernels;
  return manifest.cuda_version.starts_with("13.") ? kOldestOfCuda13 : 0;
}

// What the cards lack. The case is given the largest ones (Admission): smaller ones beside them are not its concern.
std::string missing_in_cards(const Scenario& scenario,
                             const Machine& machine,
                             const Manifest& manifest) {
  const int capability = wanted_capability(scenario, manifest);
  const auto able = [&](const Gpu& gpu) {
    return gpu.capability == 0 || gpu.capability >= capability;
  };
  const auto large = [&](const Gpu& gpu) {
    return scenario.requires_gpu_memory_gib <= gpu.memory_gib();
  };
  const auto count = [&](const auto& good) {
    return std::count_if(machine.gpus.begin(), machine.gpus.end(), good);
  };
  const auto text = [&](const std::string& what, std::ptrdiff_t there) {
    return "needs " + std::to_string(scenario.requires_gpus) + " GPUs " + what +
           ", this machine has " + std::to_string(there);
  };
  if (count(large) < scenario.requires_gpus) {
    return text("with " + nsa::to_text(scenario.requires_gpu_memory_gib, 3) + " GiB of memory",
                count(large));
  }
  if (count([&](const Gpu& gpu) { return large(gpu) && able(gpu); }) < scenario.requires_gpus) {
    return text("of compute capability " + std::to_string(capability / 10) + "." +
                    std::to_string(capability % 10) + " or newer",
                count(able));
  }
  return "";
}

}  // namespace

std::string missing_requirement(const Scenario& scenario,
                                const Machine& machine,
                                const Manifest& manifest) {
  const auto gpus = static_cast<int>(machine.gpus.size());
  if (scenario.requires_gpus > gpus) {
    const std::string why = machine.trouble.empty() ? "" : " (" + machine.trouble + ")";
    return "needs " + std::to_string(scenario.requires_gpus) + " GPUs, this machine has " +
           std::to_string(gpus) + why;
  }
  const bool cuda = scenario.parallel.device == nsa::Device::cuda;
  const bool own_worker = !scenario.is_foreign();
  if (cuda && own_worker && manifest.cuda_version.empty()) return "needs CUDA, this build has none";
  if (cuda && own_worker && scenario.parallel.effective_backend() == "nccl" &&
      manifest.nccl_version.empty()) {
    return "needs NCCL, this build has none";
  }
  if (scenario.requires_memory_gib > machine.memory_gib()) {
    return "needs " + nsa::to_text(scenario.requires_memory_gib, 3) +
           " GiB of memory, this machine has " + nsa::to_text(machine.memory_gib(), 3);
  }
  if (!cuda) return "";
  // What a user brings computes with the user's own LibTorch: this build's CUDA says nothing of it.
  const std::string unusable = own_worker ? cards_unusable(machine, manifest) : "";
  return unusable.empty() ? missing_in_cards(scenario, machine, manifest) : unusable;
}

std::string cards_unusable(const Machine& machine, const Manifest& manifest) {
  if (machine.gpus.empty()) return "";
  if (manifest.cuda_version.empty()) return "needs CUDA, this build has none";
  const auto major = nsa::parse_int(machine.driver.substr(0, machine.driver.find('.')));
  const int oldest = oldest_driver(manifest.cuda_version);
  if (!major || *major >= oldest) return "";
  return "needs driver " + std::to_string(oldest) + " or newer for CUDA " + manifest.cuda_version +
         ", this machine has " + machine.driver;
}

}  // namespace harness::cli
