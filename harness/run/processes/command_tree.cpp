#include "harness/run/processes/command_tree.h"

#include <algorithm>
#include <array>
#include <string>

#include "harness/evidence/standstill.h"
#include "harness/foreign/error_file.h"
#include "harness/run/looks/system_call.h"
#include "nsa/base/text.h"

namespace harness {
namespace {

constexpr double kComputes = 0.1;  // of a core: what only waits takes a hundredth

// Of NAME=value texts that end with '\0', as the process was started with.
std::optional<std::string> variable_in(const std::string& environment, const std::string& name) {
  std::size_t at = environment.starts_with(name + "=") ? 0 : environment.find('\0' + name + "=");
  if (at == std::string::npos) return std::nullopt;
  at = environment.find('=', at) + 1;
  return environment.substr(at, environment.find('\0', at) - at);
}

std::optional<int> number_in(const std::string& environment, const std::string& name) {
  constexpr std::int64_t kMost = 1'000'000;
  const auto number = nsa::parse_int(variable_in(environment, name).value_or(""));
  if (!number || *number < 0 || *number > kMost) return std::nullopt;
  return static_cast<int>(*number);
}

// What has to be the same on all ranks, or they do not meet.
std::string meeting_in(const std::string& environment) {
  std::vector<std::string> all;
  for (const char* name : {"MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE"}) {
    if (const auto value = variable_in(environment, name))
      all.push_back(std::string(name) + "=" + *value);
  }
  return nsa::join(all, " ");
}

// By whom a process is numbered, and where the number of all stands.
struct Numbering {
  const char* rank;
  const char* world;
};
constexpr std::array kNumberings = {Numbering{"RANK", "WORLD_SIZE"},
                                    Numbering{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                    Numbering{"PMIX_RANK", "PMIX_SIZE"},
                                    Numbering{"PMI_RANK", "PMI_SIZE"},
                                    Numbering{"SLURM_PROCID", "SLURM_NTASKS"}};

}  // namespace

bool CommandTree::has_torch(pid_t pid) {
  return proc_file(pid, "maps").find("/libtorch") != std::string::npos;
}

void CommandTree::scan(std::int64_t now_ms) {
  const Processes before = std::move(all_);
  all_ = all_processes();
  mine_.clear();
  computed_.clear();
  const auto least_ms = kComputes * static_cast<double>(now_ms - scanned_ms_);
  for (const auto& [pid, state] : all_) {
    if (!descends(all_, pid, keeper_)) continue;
    mine_.push_back(pid);
    const auto was = before.find(pid);
    const std::int64_t from_ms =
        was == before.end() ? 0 : was->second.cpu_ms + was->second.ended_children_cpu_ms;
    const std::int64_t took_ms = state.cpu_ms + state.ended_children_cpu_ms - from_ms;
    if (static_cast<double>(took_ms) > least_ms) computed_.insert(pid);
  }
  scanned_ms_ = now_ms;
}

bool CommandTree::computed(const std::set<pid_t>& left_out) const {
  return std::any_of(
      computed_.begin(), computed_.end(), [&](pid_t pid) { return !left_out.contains(pid); });
}

std::vector<FoundRank> CommandTree::ranks() const {
  std::vector<FoundRank> found;
  std::set<pid_t> by_job;  // numbered by another variable than RANK
  for (const pid_t pid : mine_) {
    const ProcessState& state = all_.at(pid);
    if (state.state == 'Z') continue;
    const std::string environment = proc_file(pid, "environ");
    for (const Numbering& by : kNumberings) {
      const auto rank = number_in(environment, by.rank);
      if (!rank) continue;
      // A command in a job of Slurm has the job's own number, which says nothing of its processes. RANK is meant for it.
      const bool meant = state.parent == keeper_ && &by == &kNumberings.front();
      if (meant || number_in(proc_file(state.parent, "environ"), by.rank) != rank)
        found.push_back({*rank,
                         number_in(environment, by.world).value_or(0),
                         pid,
                         number_in(environment, "TORCHELASTIC_RESTART_COUNT").value_or(0),
                         number_in(environment, "TORCHELASTIC_MAX_RESTARTS").value_or(0),
                         error_file_of(environment),
                         meeting_in(environment)});
      if (&by != &kNumberings.front()) by_job.insert(pid);
      break;
    }
  }
  // A task of a job may be a launcher.
  const std::vector<FoundRank> all = found;
  std::erase_if(found, [&](const FoundRank& task) {
    return by_job.contains(task.pid) && std::any_of(all.begin(), all.end(), [&](const auto& rank) {
             return !by_job.contains(rank.pid) && descends(all_, rank.pid, task.pid);
           });
  });
  return found;
}

pid_t CommandTree::worker(pid_t command) const {
  constexpr int kDeepest = 16;
  pid_t at = command;
  for (int i = 0; i < kDeepest; ++i) {
    const auto call = parse_waiting_call(proc_file(at, "syscall"));
    if (!(call && waits_for_process(call->name)) && proc_file(at, "wchan") != "do_wait") return at;
    std::map<int, std::vector<pid_t>> children;  // by how much speaks for them
    for (const pid_t pid : mine_) {
      const ProcessState& state = all_.at(pid);
      if (state.parent != at || state.state == 'Z') continue;
      children[has_torch(pid) ? 2 : is_python(state.name) ? 1 : 0].push_back(pid);
    }
    if (children.empty()) return at;
    const auto& [speaks, likely] = *children.rbegin();
    if (likely.size() != 1 || speaks < (has_torch(at) ? 2 : 1)) return at;
    at = likely.front();
  }
  return at;
}

pid_t CommandTree::owner(pid_t pid, const std::vector<pid_t>& candidates) const {
  constexpr int kDeepest = 64;
  for (int i = 0; i < kDeepest && pid > 1; ++i) {
    if (std::find(candidates.begin(), candidates.end(), pid) != candidates.end()) return pid;
    const auto at = all_.find(pid);
    pid = at == all_.end() ? 0 : at->second.parent;
  }
  return 0;
}

}  // namespace harness
