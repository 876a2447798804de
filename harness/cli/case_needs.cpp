#include "harness/cli/case_needs.h"

#include <algorithm>

#include "nsa/base/text.h"

namespace harness::cli {

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
  if (cuda && manifest.cuda_version.empty()) return "needs CUDA, this build has none";
  if (cuda && scenario.parallel.effective_backend() == "nccl" && manifest.nccl_version.empty()) {
    return "needs NCCL, this build has none";
  }
  if (scenario.requires_memory_gib > machine.memory_gib()) {
    return "needs " + nsa::to_text(scenario.requires_memory_gib, 3) +
           " GiB of memory, this machine has " + nsa::to_text(machine.memory_gib(), 3);
  }
  if (!cuda) return "";
  // The case is given the largest cards (Admission): smaller ones beside them are not its concern.
  const auto large = std::count_if(machine.gpus.begin(), machine.gpus.end(), [&](const Gpu& gpu) {
    return scenario.requires_gpu_memory_gib <= gpu.memory_gib();
  });
  if (large >= scenario.requires_gpus) return "";
  return "needs " + std::to_string(scenario.requires_gpus) + " GPUs with " +
         nsa::to_text(scenario.requires_gpu_memory_gib, 3) + " GiB of memory, this machine has " +
         std::to_string(large);
}

}  // namespace harness::cli
