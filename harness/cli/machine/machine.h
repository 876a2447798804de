// Facts about this machine, asked once at the start of a run or by `doctor`.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "harness/cli/machine/cards.h"

namespace harness::cli {

struct Machine {
  std::string cpu;
  int cores = 1;                  // that this process may use
  std::int64_t memory_bytes = 0;  // in all, or of the control group
  std::string kernel;
  std::vector<Gpu> gpus;  // that CUDA_VISIBLE_DEVICES leaves, in CUDA's order
  std::string driver;     // NVIDIA's, "" without one
  std::string trouble;    // why the GPUs could not be asked, "" if they could or there are none

  [[nodiscard]] double memory_gib() const {
    return static_cast<double>(memory_bytes) / (1024.0 * 1024.0 * 1024.0);
  }
  // name, value: for the database.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> facts() const;
};

[[nodiscard]] Machine look_at_machine();

[[nodiscard]] bool has_nvidia_driver();

// "PID NAME (MIB MiB)" of each process that uses a GPU.
[[nodiscard]] std::vector<std::string> gpu_processes();

}  // namespace harness::cli
