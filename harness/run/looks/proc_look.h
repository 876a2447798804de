// A process seen from outside, through /proc: what tells a stopped, a sleeping and a computing process apart even when it
// cannot answer. Everything may vanish while it is read: what could not be read is left empty.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "harness/evidence/rows.h"

namespace harness {

struct ProcessState {
  char state = '?';         // the letter of /proc/PID/stat
  std::int64_t cpu_ms = 0;  // user and system time of all threads
  std::string name;
  pid_t parent = 0;
  pid_t group = 0;
  std::int64_t ended_children_cpu_ms = 0;  // of children that it has waited for
  std::int64_t switches = -1;  // main_thread_switches_of(), where it was asked for
};

// /proc/PID/`name`; empty when it cannot be read, or the process ends meanwhile.
[[nodiscard]] std::string proc_file(pid_t pid, const std::string& name);
// A mask of /proc/PID/status, such as "SigCgt:"; 0 where no line has this name.
[[nodiscard]] std::uint64_t status_bits(pid_t pid, const std::string& name);

// Reads the content of /proc/PID/stat. Nothing when it is not of that form.
[[nodiscard]] std::optional<ProcessState> parse_stat(std::string_view text);

[[nodiscard]] std::optional<ProcessState> read_process_state(pid_t pid);

// Times that its main thread gave up the processor of its own will; -1: not readable.
[[nodiscard]] std::int64_t main_thread_switches_of(pid_t pid);

// The largest resident set that a living process has had; 0 where nothing tells.
[[nodiscard]] std::int64_t peak_resident_bytes_of(pid_t pid);

// Of the machine, as far as this process sees it; the largest first, which are the newest where numbers have not begun anew.
[[nodiscard]] std::vector<pid_t> process_ids();

// Changes whenever a process or a thread begins; "" where it cannot be read.
[[nodiscard]] std::string newest_process();

using Processes = std::map<pid_t, ProcessState>;

// All processes of the machine, to find children among.
[[nodiscard]] Processes all_processes();

// Itself, its parent and so on.
[[nodiscard]] std::vector<pid_t> with_ancestors(const Processes& all, pid_t pid);
// Whether `from` is among the ancestors of `child`.
[[nodiscard]] bool descends(const Processes& all, pid_t child, pid_t from);

// All threads with name, state, wait channel, system call and kernel stack (the latter as root only), no frames; and those of
// `all` that this process started, by ancestry or by its process group.
[[nodiscard]] Observation look_at(int process, int look, pid_t pid, const Processes& all);

struct PythonStack {
  std::vector<std::string> frames;  // of the main thread, innermost first; may be empty
  std::string way;                  // Observation::way_to_stacks
};

// Of a Python process, asked by several threads at once. `quickly`: from what answers within a second.
using FramesOf = std::function<PythonStack(pid_t pid, bool quickly)>;

// As far as its name says.
[[nodiscard]] bool is_python(std::string_view process_name);

// Puts the frames of process `pid` into the look at it and, into the second look (1), those of the first few Python processes
// that it has started, such as the workers of its loader. All are asked at once, and take no longer than the slowest.
void put_python_frames(pid_t pid, const FramesOf& frames_of, Observation& seen);

// Takes the frames of `inside`, the process's own answer, over into the threads of `outside`.
void merge_frames(Observation& outside, const Observation& inside);

}  // namespace harness
