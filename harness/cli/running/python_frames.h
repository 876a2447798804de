// Where a Python process stands, asked for from outside. It goes on meanwhile.
#pragma once

#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "harness/run/looks/proc_look.h"

namespace harness::cli {

// The main thread's frames, innermost first: "poll (selectors.py:415)", "wait (torch/utils/data/dataloader.py:1138)". A frame of
// the user's own has the text of its line: "main (train.py:31): for batch in loader". If the main thread has none, such a frame
// of another thread comes last ("another thread: ..."). First from Python's faulthandler, which python/nsa_harness/stacks.py
// armed and which waits for no lock of the interpreter (one second at most); else from py-spy, if it is installed (beside the
// Python of users_python(), or on PATH) and may attach (three seconds) and not `quickly`. Empty: neither answers, or the process
// is no Python.
[[nodiscard]] PythonStack python_frames(pid_t pid, bool quickly = false);

// What may keep py-spy from reading a process.
struct SpyLimits {
  bool installed = false;
  bool own = false;         // the process belongs to the user of this one
  bool root = false;        // this one is root's
  bool privileged = false;  // it has CAP_SYS_PTRACE, which Yama lets do all
  int yama = 0;             // kernel.yama.ptrace_scope; 0 also where the kernel has no Yama
};
[[nodiscard]] std::string way_to_stacks(const SpyLimits& limits);  // Observation::way_to_stacks

// Of the last dump of faulthandler, and of the text that `py-spy dump --full-filenames` prints: frames of each thread as they
// say them, with whole paths. The main thread stands last: it is the oldest one.
using Threads = std::vector<std::vector<std::string>>;
[[nodiscard]] Threads threads_in_faults(const std::string& dump);
[[nodiscard]] Threads threads_in_dump(const std::string& dump);
[[nodiscard]] std::vector<std::string> told_frames(Threads threads);

// "log (/home/a/train.py:31)" as it is told. A path without a folder, or one that cannot be read, stays without a text.
[[nodiscard]] std::string told_frame(std::string_view frame);

}  // namespace harness::cli
