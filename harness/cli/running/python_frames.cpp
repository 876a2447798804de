#include "harness/cli/running/python_frames.h"

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "harness/cli/command.h"
#include "harness/cli/paths.h"
#include "harness/evidence/python_frame.h"
#include "harness/evidence/standstill.h"
#include "harness/run/clock.h"
#include "harness/run/looks/proc_look.h"
#include "harness/run/looks/stacks_file.h"
#include "harness/run/processes/spawn_process.h"
#include "nsa/base/text.h"

namespace harness::cli {
namespace {

constexpr int kPySpyMs = 3'000;
constexpr int kArmedMs = 1'000;
constexpr int kSettledMs = 30;  // nothing more comes for so long: the dump is whole

std::int64_t bytes_of(const Fd& file) {
  struct stat told {};
  return fstat(file.get(), &told) == 0 ? told.st_size : 0;
}

// A signal may end a wait in the kernel early. So it goes to a thread of ours, if the process has one (stacks.py names it).
bool ask(pid_t pid) {
  const std::string folder = "/proc/" + std::to_string(pid) + "/task";
  std::error_code error;
  std::filesystem::directory_iterator at(folder, error);
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    const std::string tid = at->path().filename().string();
    if (proc_file(pid, "task/" + tid + "/comm") != "nsa_harness\n") continue;
    const auto number = nsa::parse_int(tid);
    if (number && syscall(SYS_tgkill, pid, static_cast<pid_t>(*number), stacks_signal()) == 0)
      return true;
  }
  return kill(pid, stacks_signal()) == 0;
}

// The child of a fork writes to the file of its parent: of those that share one, each is asked when the other has answered.
std::mutex& turn_at(const Fd& file) {
  static std::mutex guard;
  static std::map<std::pair<dev_t, ino_t>, std::mutex> turns;
  struct stat told {};
  (void)fstat(file.get(), &told);
  const std::lock_guard lock(guard);
  return turns[{told.st_dev, told.st_ino}];
}

std::string armed_dump(pid_t pid) {
  constexpr std::int64_t kMost = 1 << 20;
  const std::string path = stacks_file_of(pid);
  if (path.empty()) return "";
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) return "";
  const std::lock_guard turn(turn_at(file));
  const std::int64_t before = bytes_of(file);
  if (!ask(pid)) return "";
  const std::int64_t begun = monotonic_ms();
  std::int64_t bytes = before;
  for (std::int64_t grew = begun; monotonic_ms() - begun < kArmedMs; usleep(2'000)) {
    const std::int64_t now = bytes_of(file);
    if (now > bytes) grew = monotonic_ms();
    bytes = now;
    if (bytes > before && monotonic_ms() - grew > kSettledMs) break;
  }
  std::string text(static_cast<std::size_t>(std::clamp<std::int64_t>(bytes - before, 0, kMost)),
                   '\0');
  const ssize_t got = pread(file.get(), text.data(), text.size(), before);
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return text;
}

std::string line_of(const std::string& path, std::int64_t number) {
  constexpr std::int64_t kMostLines = 100'000;
  std::error_code error;
  if (number < 1 || number > kMostLines || !std::filesystem::is_regular_file(path, error))
    return "";
  std::ifstream file(path);
  std::string line;
  for (std::int64_t i = 0; i < number; ++i) {
    if (!std::getline(file, line)) return "";
  }
  line.erase(0, line.find_first_not_of(" \t"));
  line.erase(line.find_last_not_of(" \t\r") + 1);
  return line;
}

// A wheel brings py-spy with it, and its folder of programs need not be on PATH.
std::string py_spy() {
  const auto beside = std::filesystem::path(users_python()).parent_path() / "py-spy";
  return access(beside.c_str(), X_OK) == 0 ? beside.string() : "py-spy";
}

bool runs_python(pid_t pid) {
  std::error_code error;
  const auto program =
      std::filesystem::read_symlink("/proc/" + std::to_string(pid) + "/exe", error);
  const auto state = read_process_state(pid);
  return (state && is_python(state->name)) || is_python(program.filename().string());
}

SpyLimits limits_of(pid_t pid, bool installed) {
  constexpr unsigned kPtrace = 19;  // CAP_SYS_PTRACE
  SpyLimits limits{installed};
  struct stat owner {};
  limits.own =
      stat(("/proc/" + std::to_string(pid)).c_str(), &owner) == 0 && owner.st_uid == geteuid();
  limits.root = geteuid() == 0;
  const std::uint64_t effective = status_bits(getpid(), "CapEff:");
  limits.privileged = (effective >> kPtrace & 1U) != 0;
  std::ifstream("/proc/sys/kernel/yama/ptrace_scope") >> limits.yama;
  return limits;
}

}  // namespace

std::string way_to_stacks(const SpyLimits& limits) {
  std::vector<std::string> commands;
  if (!limits.installed) commands.emplace_back("`pip install py-spy`");
  if (!limits.privileged && limits.root) {
    commands.emplace_back("the option `--cap-add=SYS_PTRACE` of the container");
  } else if (!limits.privileged && !limits.own) {
    commands.emplace_back("`sudo` before this command");
  } else if (!limits.privileged && limits.yama > 0) {
    commands.emplace_back("`sudo sysctl kernel.yama.ptrace_scope=0`");
  }
  if (commands.empty()) return "`py-spy dump --pid PID` tells why, as long as it stands there";
  return nsa::join(commands, " and ") + (commands.size() == 1 ? " allows it" : " allow it");
}

std::string told_frame(std::string_view frame) {
  const std::size_t open = frame.rfind(" (");
  const std::size_t colon = frame.rfind(':');
  const bool is_whole = open != std::string_view::npos && colon != std::string_view::npos &&
                        colon > open && frame.ends_with(')');
  if (!is_whole) return std::string(frame);
  const std::string_view path = frame.substr(open + 2, colon - open - 2);
  const std::string_view number = frame.substr(colon + 1, frame.size() - colon - 2);
  const std::string text = path.starts_with('/') && !library_path(path)
                               ? line_of(std::string(path), nsa::parse_int(number).value_or(0))
                               : "";
  return harness::told_frame(frame.substr(0, open), path, number, text);
}

Threads threads_in_dump(const std::string& dump) {
  constexpr std::string_view kFrame = "    ";
  constexpr std::string_view kThread = "Thread ";
  std::istringstream lines(dump);
  Threads threads;
  std::size_t main = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(kThread)) {
      threads.emplace_back();
      if (line.find("\"MainThread\"") != std::string::npos) main = threads.size() - 1;
    } else if (!threads.empty() && line.starts_with(kFrame)) {
      threads.back().push_back(line.substr(kFrame.size()));
    }
  }
  if (!threads.empty()) std::swap(threads[main], threads.back());
  return threads;
}

Threads threads_in_faults(const std::string& dump) {
  std::istringstream lines(dump);
  Threads threads;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("(most recent call first)") != std::string::npos) threads.emplace_back();
    constexpr std::string_view kFile = "  File \"";
    const std::size_t quote = line.rfind("\", line ");
    const std::size_t in = line.rfind(" in ");
    const bool is_frame = line.starts_with(kFile) && quote != std::string::npos &&
                          in != std::string::npos && in > quote;
    if (!is_frame || threads.empty()) continue;
    const std::string path = line.substr(kFile.size(), quote - kFile.size());
    const std::string number = line.substr(quote + 8, in - quote - 8);
    threads.back().push_back(line.substr(in + 4) + " (" + path + ":" + number + ")");
  }
  return threads;
}

std::vector<std::string> told_frames(Threads threads) {
  if (threads.empty()) return {};
  for (auto& thread : threads) {
    // What a fork's child has from its parent tells nothing of it: where it was started.
    const auto begin = std::find_if(thread.begin(), thread.end(), [](const std::string& frame) {
      return frame.starts_with("_bootstrap (") &&
             frame.find("/multiprocessing/process.py:") != std::string::npos;
    });
    if (begin != thread.end()) thread.erase(begin + 1, thread.end());
    for (std::string& frame : thread) frame = told_frame(frame);
  }
  const std::vector<std::string> main = std::move(threads.back());
  threads.pop_back();
  if (std::any_of(main.begin(), main.end(), &is_of_user)) return main;
  std::vector<std::string> frames = main;
  for (const auto& thread : threads) {
    const auto own = std::find_if(thread.begin(), thread.end(), &is_of_user);
    if (own == thread.end()) continue;
    frames.push_back(std::string(kAnotherThread) + *own);
    break;
  }
  return frames;
}

PythonStack python_frames(pid_t pid, bool quickly) {
  auto threads = threads_in_faults(armed_dump(pid));
  std::string way;
  if (threads.empty() && !quickly) {
    const CommandResult dump = run_command(
        {py_spy(), "dump", "--nonblocking", "--full-filenames", "--pid", std::to_string(pid)},
        kPySpyMs);
    if (dump.ok()) {
      threads = threads_in_dump(dump.out);
    } else if (runs_python(pid)) {
      way = way_to_stacks(limits_of(pid, dump.started));
    }
  }
  return {told_frames(std::move(threads)), std::move(way)};
}

}  // namespace harness::cli
