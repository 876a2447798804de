#include "harness/run/looks/proc_look.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <sstream>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include "harness/run/looks/control_group.h"
#include "harness/run/looks/other_end.h"
#include "harness/run/looks/system_call.h"
#include "nsa/base/text.h"

namespace harness {
namespace {

constexpr std::size_t kMaxThreads = 256;  // a rank has about 50; more would only fill the record
constexpr int kMaxKernelFrames = 32;
constexpr std::size_t kMaxChildren = 64;  // as named ones; the time of all is counted

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Entries of a folder of /proc that are numbers: processes, or threads of one.
std::vector<pid_t> numbered(const std::string& folder) {
  std::vector<pid_t> ids;
  std::error_code error;
  std::filesystem::directory_iterator at(folder, error);
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    const auto id = nsa::parse_int(at->path().filename().string());
    if (id && *id > 0) ids.push_back(static_cast<pid_t>(*id));
  }
  return ids;
}

std::vector<pid_t> thread_ids(pid_t pid) {
  std::vector<pid_t> ids = numbered("/proc/" + std::to_string(pid) + "/task");
  std::sort(ids.begin(), ids.end(), [&](pid_t a, pid_t b) {
    return std::pair(a != pid, a) < std::pair(b != pid, b);  // the main thread first
  });
  if (ids.size() > kMaxThreads) ids.resize(kMaxThreads);
  return ids;
}

// Lines such as "[<0>] futex_wait_queue+0x66/0x90".
std::vector<std::string> kernel_frames(const std::string& path) {
  std::vector<std::string> frames;
  std::ifstream file(path);
  std::string line;
  while (frames.size() < kMaxKernelFrames && std::getline(file, line)) {
    const std::size_t begin = line.find("] ");
    if (begin == std::string::npos) continue;
    const std::string name = line.substr(begin + 2, line.find('+') - begin - 2);
    frames.push_back(name);
  }
  return frames;
}

ThreadStack look_at_thread(pid_t pid, pid_t tid, OtherEnds& ends) {
  const std::string folder = "/proc/" + std::to_string(pid) + "/task/" + std::to_string(tid) + "/";
  ThreadStack stack;
  stack.thread = first_line(folder + "comm") + " " + std::to_string(tid);
  if (const auto state = parse_stat(first_line(folder + "stat"))) {
    stack.state = {state->state};
    stack.cpu_ms = state->cpu_ms;
  }
  if (const auto call = parse_waiting_call(first_line(folder + "syscall"))) {
    stack.call = call->name;
    stack.timed = call->timed;
    stack.left_ms = time_left_ms(pid, *call).value_or(-1);
    OtherEnd end = ends.of(pid, *call);
    stack.other_end = std::move(end.told);
    stack.outside = end.outside;
  }
  stack.switches = read_counter(folder + "status", "voluntary_ctxt_switches:").value_or(-1);
  const std::string wchan = first_line(folder + "wchan");
  if (wchan != "0") stack.wchan = wchan;
  stack.kernel = kernel_frames(folder + "stack");
  return stack;
}

// The child waits until what it wrote is read, and `reader` has the pipe open.
bool writes_to(pid_t child, pid_t reader, OtherEnds& ends) {
  const auto call = parse_waiting_call(proc_file(child, "syscall"));
  if (!call || (call->name != "write" && call->name != "writev")) return false;
  const std::vector<pid_t> holders = ends.of(child, *call).holders;
  return std::find(holders.begin(), holders.end(), reader) != holders.end();
}

// A worker is the leader of its process group: a child whose parent has ended is known by it.
void look_at_children(pid_t pid,
                      const Processes& all,
                      OtherEnds& ends,
                      Observation& observation) {
  const auto self = all.find(pid);
  if (self != all.end()) observation.children_cpu_ms = self->second.ended_children_cpu_ms;
  for (const auto& [child, state] : all) {
    if (child == pid || (state.group != pid && !descends(all, child, pid))) continue;
    observation.children_cpu_ms += state.cpu_ms + state.ended_children_cpu_ms;
    if (observation.children.size() < kMaxChildren) {
      observation.children.push_back({state.name, child, {state.state}, state.cpu_ms});
      observation.children.back().writes_to_rank = writes_to(child, pid, ends);
      // Whoever waits for a child that sleeps waits as long as it does.
      if (observation.threads.size() < kMaxThreads) {
        observation.threads.push_back(look_at_thread(child, child, ends));
      }
    }
  }
}

// "name tid" -> " tid"; names may hold spaces.
std::string_view tid_of(const std::string& thread) {
  const std::size_t at = thread.rfind(' ');
  return at == std::string::npos ? std::string_view() : std::string_view(thread).substr(at);
}

}  // namespace

std::string proc_file(pid_t pid, const std::string& name) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/" + name, std::ios::binary);
  std::ostringstream content;
  content << file.rdbuf();  // an iterator would throw where the process ends between open and read
  return content.str();
}

std::uint64_t status_bits(pid_t pid, const std::string& name) {
  std::istringstream lines(proc_file(pid, "status"));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(name)) return std::strtoull(line.c_str() + name.size(), nullptr, 16);
  }
  return 0;
}

std::optional<ProcessState> parse_stat(std::string_view text) {
  const std::size_t name_end = text.rfind(')');  // the name may hold anything, parentheses too
  if (name_end == std::string_view::npos) return std::nullopt;
  const std::size_t name_begin = text.find('(');
  if (name_begin > name_end) return std::nullopt;
  std::istringstream fields{std::string(text.substr(name_end + 1))};
  std::string letter;
  ProcessState state;
  fields >> letter >> state.parent >> state.group;
  constexpr int kBetween = 8;  // session to cmajflt: fields 6 to 13
  std::string ignored;
  for (int i = 0; i < kBetween; ++i) fields >> ignored;
  std::int64_t ticks[4] = {};  // user and system time, and both of the children
  for (std::int64_t& each : ticks) fields >> each;
  if (!fields || letter.size() != 1) return std::nullopt;
  const std::int64_t ticks_per_s = sysconf(_SC_CLK_TCK);
  state.state = letter.front();
  state.name = text.substr(name_begin + 1, name_end - name_begin - 1);
  state.cpu_ms = (ticks[0] + ticks[1]) * 1000 / ticks_per_s;
  state.ended_children_cpu_ms = (ticks[2] + ticks[3]) * 1000 / ticks_per_s;
  return state;
}

std::vector<pid_t> with_ancestors(const Processes& all, pid_t pid) {
  constexpr std::size_t kDeepest =
      64;  // parents are read one after the other, so a chain of them may be a ring
  std::vector<pid_t> chain = {pid};
  for (auto at = all.find(pid); at != all.end() && chain.size() < kDeepest;
       at = all.find(chain.back())) {
    chain.push_back(at->second.parent);
  }
  return chain;
}

bool descends(const Processes& all, pid_t child, pid_t from) {
  const std::vector<pid_t> chain = with_ancestors(all, child);
  return std::find(chain.begin() + 1, chain.end(), from) != chain.end();
}

std::int64_t peak_resident_bytes_of(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/status";
  return read_counter(path, "VmHWM:").value_or(0) * 1024;
}

std::optional<ProcessState> read_process_state(pid_t pid) {
  return parse_stat(first_line("/proc/" + std::to_string(pid) + "/stat"));
}

std::int64_t main_thread_switches_of(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/status";
  return read_counter(path, "voluntary_ctxt_switches:").value_or(-1);
}

std::vector<pid_t> process_ids() {
  std::vector<pid_t> pids = numbered("/proc");
  std::sort(pids.rbegin(), pids.rend());
  return pids;
}

std::string newest_process() {
  const std::string line = first_line("/proc/loadavg");  // its last field
  const std::size_t space = line.rfind(' ');
  return space == std::string::npos ? "" : line.substr(space + 1);
}

Processes all_processes() {
  Processes all;
  for (const pid_t pid : process_ids()) {
    if (auto state = read_process_state(pid)) all.emplace(pid, std::move(*state));
  }
  return all;
}

Observation look_at(int process, int look, pid_t pid, const Processes& all) {
  Observation observation;
  observation.process_observed = process;
  observation.look = look;
  if (const auto state = read_process_state(pid)) {
    observation.state = {state->state};
    observation.cpu_ms = state->cpu_ms;
  }
  OtherEnds ends(all);
  for (const pid_t tid : thread_ids(pid)) {
    observation.threads.push_back(look_at_thread(pid, tid, ends));
  }
  look_at_children(pid, all, ends, observation);
  const std::string io = "/proc/" + std::to_string(pid) + "/io";
  observation.disk_bytes =
      read_counter(io, "read_bytes:").value_or(0) + read_counter(io, "write_bytes:").value_or(0);
  return observation;
}

bool is_python(std::string_view process_name) {
  return process_name.starts_with("python") || process_name.starts_with("pt_");
}

void put_python_frames(pid_t pid, const FramesOf& frames_of, Observation& seen) {
  constexpr std::size_t kMostChildren = 4;
  if (!frames_of || seen.threads.empty()) return;
  std::vector<std::future<void>> asked;
  for (ChildProcess& child : seen.children) {
    if (seen.look != 1 || !is_python(child.name) || asked.size() == kMostChildren) continue;
    asked.push_back(std::async([&] { child.frames = frames_of(child.pid, true).frames; }));
  }
  PythonStack own = frames_of(pid, false);
  for (std::future<void>& one : asked) one.get();
  seen.threads.front().frames = std::move(own.frames);
  seen.way_to_stacks = std::move(own.way);
}

void merge_frames(Observation& outside, const Observation& inside) {
  outside.device_busy_percent = inside.device_busy_percent;
  for (ThreadStack& thread : outside.threads) {
    const auto at =
        std::find_if(inside.threads.begin(), inside.threads.end(), [&](const ThreadStack& other) {
          return tid_of(other.thread) == tid_of(thread.thread);
        });
    if (at != inside.threads.end()) thread.frames = at->frames;
  }
}

}  // namespace harness
