#include "harness/run/proc_look.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <unistd.h>
#include <vector>

#include "harness/run/control_group.h"

namespace harness {
namespace {

constexpr std::size_t kMaxThreads = 256;  // a rank has about 50; more would only fill the record
constexpr int kMaxKernelFrames = 32;

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::vector<pid_t> thread_ids(pid_t pid) {
  std::vector<pid_t> ids;
  std::error_code error;
  const std::string folder = "/proc/" + std::to_string(pid) + "/task";
  std::filesystem::directory_iterator at(folder, error);
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    ids.push_back(static_cast<pid_t>(std::atol(at->path().filename().c_str())));
  }
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

ThreadStack look_at_thread(pid_t pid, pid_t tid) {
  const std::string folder = "/proc/" + std::to_string(pid) + "/task/" + std::to_string(tid) + "/";
  ThreadStack stack;
  stack.thread = first_line(folder + "comm") + " " + std::to_string(tid);
  if (const auto state = parse_stat(first_line(folder + "stat"))) stack.state = {state->state};
  const std::string wchan = first_line(folder + "wchan");
  if (wchan != "0") stack.wchan = wchan;
  stack.kernel = kernel_frames(folder + "stack");
  return stack;
}

// "name tid" -> " tid"; names may hold spaces.
std::string_view tid_of(const std::string& thread) {
  const std::size_t at = thread.rfind(' ');
  return at == std::string::npos ? std::string_view() : std::string_view(thread).substr(at);
}

}  // namespace

std::optional<ProcessState> parse_stat(std::string_view text) {
  const std::size_t name_end = text.rfind(')');  // the name may hold anything, parentheses too
  if (name_end == std::string_view::npos) return std::nullopt;
  std::istringstream fields{std::string(text.substr(name_end + 1))};
  std::string state;
  fields >> state;
  constexpr int kBetween = 10;  // ppid to cmajflt: fields 4 to 13
  std::string ignored;
  for (int i = 0; i < kBetween; ++i) fields >> ignored;
  std::int64_t user_ticks = 0;
  std::int64_t system_ticks = 0;
  fields >> user_ticks >> system_ticks;
  if (!fields || state.size() != 1) return std::nullopt;
  const std::int64_t ticks_per_s = sysconf(_SC_CLK_TCK);
  return ProcessState{state.front(), (user_ticks + system_ticks) * 1000 / ticks_per_s};
}

std::int64_t peak_resident_bytes_of(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/status";
  return read_counter(path, "VmHWM:").value_or(0) * 1024;
}

std::optional<ProcessState> read_process_state(pid_t pid) {
  return parse_stat(first_line("/proc/" + std::to_string(pid) + "/stat"));
}

Observation look_at(int process, int look, pid_t pid) {
  Observation observation;
  observation.process_observed = process;
  observation.look = look;
  if (const auto state = read_process_state(pid)) {
    observation.state = {state->state};
    observation.cpu_ms = state->cpu_ms;
  }
  for (const pid_t tid : thread_ids(pid)) observation.threads.push_back(look_at_thread(pid, tid));
  return observation;
}

void merge_frames(Observation& outside, const Observation& inside) {
  for (ThreadStack& thread : outside.threads) {
    const auto at =
        std::find_if(inside.threads.begin(), inside.threads.end(), [&](const ThreadStack& other) {
          return tid_of(other.thread) == tid_of(thread.thread);
        });
    if (at != inside.threads.end()) thread.frames = at->frames;
  }
}

}  // namespace harness
