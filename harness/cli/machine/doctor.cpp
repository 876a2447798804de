#include "harness/cli/machine/doctor.h"

#include <filesystem>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "harness/cli/command.h"
#include "harness/cli/running/case_needs.h"
#include "harness/run/build_info.h"
#include "harness/store/store.h"
#include "nsa/base/error.h"
#include "nsa/base/text.h"

namespace harness::cli {
namespace {

namespace fs = std::filesystem;

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;
constexpr double kWantedMemoryGib = 8.0;  // two ranks and a twin of m7c_125m
constexpr double kWantedDiskGib = 10.0;   // recorded tensors of one failing case are about 2 GiB
constexpr double kLeastDiskGib = 1.0;
constexpr int kStartWorkerMs = 120'000;  // LibTorch is read from a cold disk

std::string gib_text(double bytes) {
  return nsa::to_text(bytes / kGib, 3) + " GiB";
}

Fact disk_fact(const std::string& folder) {
  fs::path there = folder;
  std::error_code error;
  while (!fs::exists(there, error) && there.has_relative_path()) there = there.parent_path();
  struct statvfs disk = {};
  if (access(there.c_str(), W_OK) != 0)
    return {"disk", Health::failed, "cannot write in " + there.string()};
  if (statvfs(there.c_str(), &disk) != 0)
    return {"disk", Health::failed, "cannot look at " + there.string()};
  const double free = static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize);
  const Health health = free < kLeastDiskGib * kGib    ? Health::failed
                        : free < kWantedDiskGib * kGib ? Health::warning
                                                       : Health::ok;
  return {"disk", health, gib_text(free) + " free for runs in " + folder};
}

Fact database_fact(const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error))
    return {"database", Health::ok, path + " will be made by the first run"};
  try {
    const auto last = Store::open_read_only(path)->last_run();
    return {"database", Health::ok, path + (last ? ", last run " + last->name : ", no run yet")};
  } catch (const nsa::Error& problem) {
    return {"database", Health::failed, problem.what()};
  }
}

Fact gpu_fact(const Machine& machine) {
  if (!machine.trouble.empty()) return {"gpu", Health::warning, machine.trouble};
  if (machine.gpus.empty()) return {"gpu", Health::ok, "none: cases that need one are skipped"};
  std::vector<std::string> names;
  for (const Gpu& gpu : machine.gpus)
    names.push_back(gpu.name + " (" + std::to_string(gpu.memory_mib) + " MiB)");
  const std::vector<std::string> others = gpu_processes();
  const std::string text = nsa::join(names) + ", driver " + machine.driver;
  if (others.empty()) return {"gpu", Health::ok, text};
  return {"gpu", Health::warning, "other processes use it: " + nsa::join(others) + "; " + text};
}

Fact driver_fact(const Machine& machine, const Manifest& manifest) {
  const std::string unusable = cards_unusable(machine, manifest);
  if (!unusable.empty() && !manifest.cuda_version.empty()) {
    return {"driver",
            Health::failed,
            unusable + ": renew the driver, or set NSA_TORCH to a LibTorch that it can run"};
  }
  if (machine.driver.empty()) return {"driver", Health::ok, "no NVIDIA driver"};
  return {"driver", Health::ok, machine.driver};
}

Fact worker_fact(const Paths& paths) {
  const CommandResult answer = run_command(worker_argv(paths, {"--version"}), kStartWorkerMs);
  if (!answer.started) return {"worker", Health::failed, "cannot start " + paths.worker};
  if (answer.timed_out)
    return {"worker", Health::failed, paths.worker + " did not answer in 120 s"};
  if (answer.exit_code != 0) {
    rlimit memory = {};
    if (getrlimit(RLIMIT_AS, &memory) == 0 && memory.rlim_cur != RLIM_INFINITY) {
      return {"worker",
              Health::failed,
              paths.worker + " --version failed, and a limit of memory is set (ulimit -v " +
                  std::to_string(memory.rlim_cur / 1024) + "): LibTorch needs some GiB"};
    }
    return {
        "worker",
        Health::failed,
        paths.worker +
            " --version failed: is LibTorch where it was when this was built? Else set NSA_TORCH"};
  }
  return {"worker", Health::ok, answer.out.substr(0, answer.out.find('\n'))};
}

Fact manifest_fact(const Manifest& manifest) {
  if (manifest.source_hash != built_source_hash()) {
    return {"build", Health::failed, "stale build: worker and controller are of different sources"};
  }
  return {
      "build",
      Health::ok,
      "LibTorch " + manifest.torch_version +
          (manifest.cuda_version.empty() ? ", without CUDA" : ", CUDA " + manifest.cuda_version) +
          (manifest.nccl_version.empty() ? "" : ", NCCL " + manifest.nccl_version)};
}

// Against the tree that lies there now, where there is one.
Fact tree_fact(const Paths& paths) {
  const std::string launcher = paths.tree + "/nsa-harness";
  std::error_code error;
  if (!fs::is_regular_file(launcher, error))
    return {"sources", Health::ok, "an installed tree: " + paths.tree};
  const CommandResult answer = run_command({"bash", launcher, "source-hash"});
  const std::string hash = answer.out.substr(0, answer.out.find('\n'));
  if (!answer.ok()) return {"sources", Health::warning, launcher + " source-hash failed"};
  if (hash != built_source_hash()) {
    return {"sources",
            Health::failed,
            "stale build: " + paths.tree + " has changed since this was built"};
  }
  return {"sources", Health::ok, hash};
}

// What runs a kernel of the user's own.
Fact python_fact() {
  const std::string python = users_python();
  if (python.empty()) {
    return {"python",
            Health::warning,
            "no python3 on PATH: kernels of your own cannot be run (NSA_HARNESS_PYTHON names one)"};
  }
  const CommandResult answer =
      run_command({python, "-c", "import torch; print(torch.__version__)"}, kStartWorkerMs);
  if (!answer.ok())
    return {"python",
            Health::warning,
            python + " has no torch: kernels of your own cannot be run with it"};
  return {"python", Health::ok, python + ", torch " + answer.out.substr(0, answer.out.find('\n'))};
}

void add_build_facts(const Paths& paths, const Machine& machine, std::vector<Fact>& facts) {
  facts.push_back(python_fact());
  if (!has_worker(paths)) {  // as in a wheel
    facts.push_back({"build",
                     Health::ok,
                     "no worker: this installation judges your own scripts, kernels and files, and "
                     "runs no scenarios of "
                     "other kinds than kernel and command"});
    return;
  }
  try {
    const Manifest manifest = load_own_manifest(paths);
    facts.push_back(manifest_fact(manifest));
    facts.push_back(driver_fact(machine, manifest));
    facts.push_back(worker_fact(paths));
  } catch (const nsa::Error& error) {
    facts.push_back({"build", Health::failed, error.what()});
  }
  facts.push_back(tree_fact(paths));
}

}  // namespace

const char* name_of(Health health) {
  return health == Health::ok ? "ok" : health == Health::warning ? "warning" : "failed";
}

std::vector<Fact> examine(const std::string& database, const Machine& machine, const Paths& paths) {
  const auto memory = static_cast<double>(machine.memory_bytes);
  std::vector<Fact> facts = {
      {"cpu",
       Health::ok,
       machine.cpu + ", " + std::to_string(machine.cores) + " cores, " + machine.kernel},
      {"memory",
       memory < kWantedMemoryGib * kGib ? Health::warning : Health::ok,
       gib_text(memory) +
           (memory < kWantedMemoryGib * kGib ? ": the shipped scenarios want 8 GiB" : "")},
      disk_fact(runs_folder(database, "")),
      database_fact(database),
      gpu_fact(machine)};
  add_build_facts(paths, machine, facts);
  return facts;
}

}  // namespace harness::cli
