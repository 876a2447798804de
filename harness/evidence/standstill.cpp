#include "harness/evidence/standstill.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>

#include "harness/evidence/python_frame.h"

namespace harness {
namespace {

constexpr double kIdleShare = 0.1;  // heartbeats and samplers take about a hundredth of a core
constexpr std::int64_t kCompilesMs = 180'000;
constexpr std::int64_t kDiskBytes = 1 << 16;  // between two looks; a log line is a fraction of it

bool is_stopped(const Observation& look) {
  return look.state == "T" || look.state == "t";
}

bool takes(std::int64_t before_ms, std::int64_t after_ms, std::int64_t wall_ms) {
  return static_cast<double>(after_ms - before_ms) > kIdleShare * static_cast<double>(wall_ms);
}

// Ready to run: on a busy machine it may be given no processor for long.
bool runs(const Observation& look) {
  return std::any_of(look.threads.begin(), look.threads.end(), [](const ThreadStack& thread) {
    return thread.state == "R";
  });
}

bool child_runs(const Observation& look) {
  return std::any_of(look.children.begin(), look.children.end(), [](const ChildProcess& child) {
    return child.state == "R";
  });
}

bool is_plain_sleep(const ThreadStack& thread) {
  return thread.call == "clock_nanosleep" || thread.call == "nanosleep" ||
         thread.wchan == "hrtimer_nanosleep";
}

// Threads of the training: the main one, and those that run the backward of a device. Other threads of libraries (watchdogs,
// pollers) wait with limits all the time; of them only an outright sleep counts, which somebody may wait for.
bool is_of_training(const ThreadStack& thread, bool is_main) {
  return is_main || thread.thread.compare(0, 12, "pt_autograd_") == 0;
}

bool has_far_limit(const ThreadStack& thread) {
  return thread.timed && thread.left_ms > kFarLimitMs;
}

bool is_main_of(const ChildProcess& child, const ThreadStack& thread) {
  return thread.thread.ends_with(" " + std::to_string(child.pid));
}

bool is_of_child(const Observation& look, const ThreadStack& thread) {
  return std::any_of(look.children.begin(), look.children.end(), [&](const ChildProcess& child) {
    return is_main_of(child, thread);
  });
}

// A monitor that sleeps between two figures is a child that nobody waits for: then no thread waits for the end of a process, and
// the main thread waits for nothing that a child may send.
bool may_wait_for_child(const Observation& look) {
  constexpr std::array kFromChild = {"read",
                                     "readv",
                                     "recvfrom",
                                     "recvmsg",
                                     "poll",
                                     "ppoll",
                                     "select",
                                     "pselect6",
                                     "epoll_wait",
                                     "epoll_pwait",
                                     "epoll_pwait2",
                                     ""};
  const ThreadStack& main = look.threads.front();
  const bool hears = std::find(kFromChild.begin(), kFromChild.end(), main.call) != kFromChild.end();
  if ((hears && !has_far_limit(main)) || waits_for_child(look)) return true;
  return std::any_of(look.threads.begin(), look.threads.end(), [&](const ThreadStack& thread) {
    return waits_for_process(thread.call) && !is_of_child(look, thread);
  });
}

// The main thread waits without a limit, and its stack does not say that it does so inside of torch: another thread of its own may
// be what it waits for.
bool may_wait_for_thread(const ThreadStack& main) {
  if (main.call != "futex" || main.timed) return false;
  for (const std::string& frame : main.frames) {
    if (is_of_user(frame)) return true;
    if (frame.find("(torch/") != std::string::npos) return false;
  }
  return true;
}

// A child that sleeps beyond all patience ends no wait for it. What is outside may be at work on what is waited for.
bool sleeps(const Observation& look, std::size_t i) {
  const ThreadStack& thread = look.threads[i];
  const ThreadStack& main = look.threads.front();
  if (i > 0 && is_of_child(look, thread)) {
    const bool ends = thread.outside || (is_plain_sleep(thread) && !has_far_limit(thread));
    return ends && may_wait_for_child(look);
  }
  if (thread.outside && (i == 0 || may_wait_for_thread(main))) return true;
  if (has_far_limit(thread)) return is_plain_sleep(thread);
  // Who waits for its peers waits for none of its own threads.
  if (i > 0 && has_far_limit(main) && !is_plain_sleep(main)) return false;
  return is_plain_sleep(thread) || (thread.timed && is_of_training(thread, i == 0));
}

bool any_sleeps(const Observation& look) {
  for (std::size_t i = 0; i < look.threads.size(); ++i) {
    if (sleeps(look, i)) return true;
  }
  return false;
}

const ThreadStack* thread_named(const Observation& look, const std::string& name) {
  const auto at = std::find_if(look.threads.begin(),
                               look.threads.end(),
                               [&](const ThreadStack& thread) { return thread.thread == name; });
  return at == look.threads.end() ? nullptr : &*at;
}

// A worker of a loader, or a child in the user's own code: no helper that waits for work all the time.
bool has_work(const ChildProcess& child) {
  return child.name.starts_with("pt_data_worker") || !users_line(child.frames).empty();
}

// Between two looks it stayed in one wait without a limit. A sleep that ends beyond all patience is such a wait.
bool stays(const ThreadStack& before, const ThreadStack& after) {
  const bool soon =
      after.outside || ((after.timed || is_plain_sleep(after)) && !has_far_limit(after));
  return after.state == "S" && !soon && !waits_for_process(after.call) && !after.call.empty() &&
         after.call == before.call && after.switches >= 0 && after.switches == before.switches;
}

using Frames = std::span<const std::string>;  // the innermost first

// Of lists that begin at the same depth. A list ends where the reader stops counting: one that begins further inside is cut off
// earlier, and tells less.
bool same_as_far_as_known(const Frames& before, const Frames& after) {
  const std::size_t known = std::min(before.size(), after.size());
  return std::equal(
      before.begin(), before.begin() + static_cast<std::ptrdiff_t>(known), after.begin());
}

// Who called the driver: the frames behind the outermost one of it, which may call the clock of the C library in its loop. Nothing
// where no frame is the driver's.
std::optional<Frames> callers_of_driver(const std::vector<std::string>& frames) {
  const auto outermost = std::find_if(frames.rbegin(), frames.rend(), [](const std::string& frame) {
    return frame.find("libcuda.so") != std::string::npos;
  });
  if (outermost == frames.rend()) return std::nullopt;
  return Frames(outermost.base(), frames.end());
}

// The driver waits for the device in a loop of several functions: its own frames differ from look to look.
bool called_from_same_place(const std::vector<std::string>& before,
                            const std::vector<std::string>& after) {
  const auto then = callers_of_driver(before);
  const auto now = callers_of_driver(after);
  return then && now && same_as_far_as_known(*then, *now);
}

}  // namespace

std::int64_t StillLimits::after_ms(std::int64_t longest_gap_ms) const {
  const double by_gap = std::ceil(factor * static_cast<double>(longest_gap_ms));
  const double most = std::min(by_gap, static_cast<double>(cap_ms));
  return std::max(floor_ms, static_cast<std::int64_t>(most));
}

Doing doing_between(const Observation& before, const Observation& after, std::int64_t wall_ms) {
  if (is_stopped(before) && is_stopped(after)) return Doing::stopped;
  if (takes(before.children_cpu_ms, after.children_cpu_ms, wall_ms)) return Doing::child;
  if (child_runs(before) && child_runs(after)) return Doing::child;
  if (takes(before.cpu_ms, after.cpu_ms, wall_ms)) return Doing::computing;
  if (runs(before) && runs(after)) return Doing::computing;
  if (after.disk_bytes - before.disk_bytes >= kDiskBytes) return Doing::disk;
  constexpr std::int64_t kComes = 2;  // wake-ups: one is that with which a wait begins
  if (before.woke >= kComes) return Doing::sleeping;
  return any_sleeps(before) || any_sleeps(after) ? Doing::sleeping : Doing::waiting;
}

std::int64_t wake_ups_between(const Observation& first, const Observation& last) {
  std::int64_t least = -1;
  for (std::size_t i = 0; i < last.threads.size(); ++i) {
    if (!sleeps(last, i)) continue;
    const ThreadStack* before = thread_named(first, last.threads[i].thread);
    const bool readable =
        before != nullptr && before->switches >= 0 && last.threads[i].switches >= 0;
    if (!readable) return -1;
    const std::int64_t times = last.threads[i].switches - before->switches;
    least = least < 0 ? times : std::min(least, times);
  }
  return least;
}

bool waits_with_far_limit(const Observation& look) {
  return std::any_of(look.threads.begin(), look.threads.end(), [](const ThreadStack& thread) {
    return !is_plain_sleep(thread) && thread.left_ms > kFarLimitMs;
  });
}

const std::vector<std::string>& main_frames(const Observation& look) {
  static const std::vector<std::string> kNone;
  if (look.threads.empty()) return kNone;
  const ThreadStack& main = look.threads.front();
  return main.frames.empty() ? main.kernel : main.frames;
}

bool is_joining(const Observation& look) {
  const std::vector<std::string>& frames = main_frames(look);
  return std::any_of(frames.begin(), frames.end(), [](const std::string& frame) {
    return frame.starts_with("init_process_group (torch/distributed/") ||
           frame.find("(torch/distributed/elastic/rendezvous/") != std::string::npos;
  });
}

bool is_in_distributed(const Observation& look) {
  for (const std::string& frame : main_frames(look)) {
    if (is_of_user(frame)) return false;
    if (frame.find("(torch/distributed/distributed_c10d.py:") != std::string::npos) return true;
  }
  return false;
}

// Of these packages only what is left before the compiled code runs: its frames stand above others of the same packages.
bool is_compiling(const Observation& look) {
  constexpr std::array kInside = {"(torch/_dynamo/convert_frame.py:",
                                  "compile_fx_inner (torch/_inductor/compile_fx.py:",
                                  "(torch/_inductor/async_compile.py:",
                                  "compile (triton/compiler/compiler.py:",
                                  "_jit_compile (torch/utils/cpp_extension.py:"};
  const std::vector<std::string>& frames = main_frames(look);
  return std::any_of(frames.begin(), frames.end(), [&](const std::string& frame) {
    return std::any_of(kInside.begin(), kInside.end(), [&](std::string_view inside) {
      return inside.starts_with('(') ? frame.find(inside) != std::string::npos
                                     : frame.starts_with(inside);
    });
  });
}

bool waits_for_device(const Observation& before, const Observation& after) {
  for (std::size_t i = 0; i < after.threads.size(); ++i) {
    const ThreadStack& thread = after.threads[i];
    const ThreadStack* earlier = thread_named(before, thread.thread);
    if (!is_of_training(thread, i == 0) || earlier == nullptr) continue;
    if (called_from_same_place(earlier->frames, thread.frames)) return true;
  }
  return false;
}

bool same_place(const Observation& before, const Observation& after) {
  const auto of_main = [](const Observation& look) {
    std::vector<std::string> frames = main_frames(look);
    std::erase_if(frames,
                  [](const std::string& frame) { return frame.starts_with(kAnotherThread); });
    return frames;
  };
  const std::vector<std::string> earlier = of_main(before);
  const std::vector<std::string> frames = of_main(after);
  return (!frames.empty() && frames == earlier) || called_from_same_place(earlier, frames);
}

bool waits_for_child(const Observation& look) {
  if (look.threads.empty()) return false;
  for (const std::string& frame : look.threads.front().frames) {
    if (is_of_user(frame)) return false;
    for (const char* file :
         {"(torch/utils/data/dataloader.py:", "(multiprocessing/", "(subprocess.py:"}) {
      if (frame.find(file) != std::string::npos) return true;
    }
  }
  return false;
}

const ThreadStack* waits_outside(const Observation& look) {
  for (std::size_t i = 0; i < look.threads.size(); ++i) {
    if (look.threads[i].outside && sleeps(look, i)) return &look.threads[i];
  }
  return nullptr;
}

bool is_inside_nccl(const Observation& look) {
  const std::vector<std::string>& frames = main_frames(look);
  return std::any_of(frames.begin(), frames.end(), [](const std::string& frame) {
    return frame.find("libnccl") != std::string::npos;
  });
}

bool waits_for_process(std::string_view call) {
  return call == "wait4" || call == "waitid";
}

const ThreadStack* main_thread_of(const Observation& look, const ChildProcess& child) {
  const auto at =
      std::find_if(look.threads.begin(), look.threads.end(), [&](const ThreadStack& thread) {
        return is_main_of(child, thread);
      });
  return at == look.threads.end() ? nullptr : &*at;
}

std::vector<const ChildProcess*> stuck_children(const Observation& before,
                                                const Observation& after) {
  const bool by_stack = waits_for_child(after);
  bool may_read_later = false;
  for (const ThreadStack& thread : after.threads) {
    const bool sleeps = is_plain_sleep(thread) && !has_far_limit(thread);
    if (is_of_child(after, thread)) {
      if (sleeps || thread.state == "D") return {};
      continue;
    }
    constexpr std::int64_t kPolls = 2;  // wake-ups between the looks
    const ThreadStack* earlier = thread_named(before, thread.thread);
    const bool polls = earlier != nullptr && thread.switches - earlier->switches >= kPolls;
    may_read_later = may_read_later || (sleeps && !polls) || thread.state == "D";
  }
  std::vector<const ChildProcess*> stuck;
  for (const ChildProcess& child : after.children) {
    const ThreadStack* main = main_thread_of(after, child);
    if (main == nullptr) continue;
    const bool is_waited_for = by_stack && (has_work(child) || is_plain_sleep(*main));
    if (!is_waited_for && (!child.writes_to_rank || may_read_later)) continue;
    const ThreadStack* earlier = thread_named(before, main->thread);
    if (earlier != nullptr && stays(*earlier, *main)) stuck.push_back(&child);
  }
  return stuck;
}

namespace {

Doing without_peers(const Looked& process) {
  if (process.before == nullptr || process.after == nullptr) return Doing::computing;
  const Doing doing = doing_between(*process.before, *process.after, process.wall_ms);
  // A thread beside one that waits without a limit may poll as it likes. What is outside wakes no thread up before it is done.
  const bool outside = waits_outside(*process.after) != nullptr;
  const bool main_polls = outside || (!process.after->threads.empty() && sleeps(*process.after, 0));
  // Another process that compiles what is polled for may take minutes.
  const std::int64_t borne_ms =
      is_compiling(*process.after) ? std::max(process.polls_ms, kCompilesMs) : process.polls_ms;
  const bool is_borne = main_polls && process.polled_ms < borne_ms;
  const bool polled = (outside || process.wake_ups >= kWakeUpsOfAHang) && !is_borne;
  if (doing == Doing::sleeping && polled) return Doing::waiting;
  // It polls for its peers, or looks again and again whether they are there.
  if (doing == Doing::sleeping && is_joining(*process.before) && is_joining(*process.after))
    return Doing::waiting;
  if (doing == Doing::sleeping && !stuck_children(*process.before, *process.after).empty())
    return Doing::waiting;
  if (process.held && doing == Doing::computing) return Doing::waiting;
  if (!process.with_peers && !process.held) return doing;
  // Who waits for its peers may do so with a limit, or in a loop. An outright sleep is its own.
  const bool asleep =
      !process.after->threads.empty() &&
      (process.after->threads.front().outside || is_plain_sleep(process.after->threads.front()));
  if (doing == Doing::sleeping && !asleep) return Doing::waiting;
  const bool loops = doing == Doing::computing && same_place(*process.before, *process.after);
  return loops ? Doing::waiting : doing;
}

}  // namespace

Doing slowed_by(const Looked& process) {
  const Doing doing = without_peers(process);
  return doing == Doing::waiting && process.connecting ? Doing::connecting : doing;
}

bool stands_still(std::span<const Looked> processes) {
  const auto stopped = [](const Looked& process) {
    return process.before != nullptr && process.after != nullptr && is_stopped(*process.before) &&
           is_stopped(*process.after);
  };
  // A stopped process is no slow one, whatever its peers do while they wait for it.
  if (std::any_of(processes.begin(), processes.end(), stopped)) return true;
  bool all_connect = true;
  for (const Looked& process : processes) {
    const Doing doing = slowed_by(process);
    if (doing != Doing::waiting && doing != Doing::connecting) return false;
    all_connect = all_connect && doing == Doing::connecting;
  }
  return !all_connect;
}

std::string told(const Observation& look) {
  if (look.threads.empty()) return "its threads could not be read";
  const ThreadStack& main = look.threads.front();
  if (main.call == "running") return "running";
  const std::string where = main.call.empty() ? main.wchan : main.call;
  if (where.empty()) return "in a wait that could not be read";
  if (main.call.empty() && !is_plain_sleep(main)) return "in " + where;
  const bool timed = main.timed || is_plain_sleep(main);
  return "in " + where + (timed ? " with a time limit" : " without a time limit");
}

std::string told(const Looked& process) {
  if (process.before == nullptr || process.after == nullptr) return "not looked at twice";
  if (is_stopped(*process.before) && is_stopped(*process.after)) return "stopped in both looks";
  std::string text = told(*process.after) + ", " +
                     std::to_string(process.after->cpu_ms - process.before->cpu_ms) +
                     " ms of processor time in " + std::to_string(process.wall_ms) + " ms";
  if (process.wake_ups >= kWakeUpsOfAHang) {
    text += ", woke up " + std::to_string(process.wake_ups) + " times";
  }
  return text;
}

}  // namespace harness
