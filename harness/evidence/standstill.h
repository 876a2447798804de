// What processes did between two looks from outside, while none of their counters moved: is that a standstill? Pure, from
// what the controller read in /proc, so that whoever ends a case and whoever judges its record say the same.
//
// A standstill is a claim about all ranks: each is stopped, waits without a limit, waits for its peers, or has woken up often
// enough without moving. A rank that computes, sleeps, writes or waits for a busy child is slow until it proves otherwise.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/evidence/rows.h"

namespace harness {

// How long nothing must move before somebody looks: so many times the phase's longest gap, within these bounds.
struct StillLimits {
  std::int64_t floor_ms = 10'000;
  double factor = 20.0;
  std::int64_t cap_ms = 20'000;  // of what the factor gives
  // How long a process may wake up again and again before what it waits for counts as what does not come. Whoever counts nothing,
  // as a command of the user's own, may poll for a file for a minute.
  std::int64_t polls_ms = 0;

  [[nodiscard]] std::int64_t after_ms(std::int64_t longest_gap_ms) const;
};

enum class Doing {
  stopped,     // by a signal or a tracer, in both looks
  child,       // a process that it started takes processor time, or is ready to
  computing,   // it takes processor time, or is ready to
  disk,        // it reads from or writes to a disk
  sleeping,    // it waits in a call that ends by itself
  connecting,  // it waits inside NCCL at the rendezvous: it has met its peers, and the driver prepares memory that they share
  waiting      // none of these
};

// The two looks at one process and the time between them. REQUIRES: of one process, `before` the earlier one.
[[nodiscard]] Doing doing_between(const Observation& before,
                                  const Observation& after,
                                  std::int64_t wall_ms);

// Of the threads that sleep in `last`: the least number of times that one of them woke up since `first`; -1 where not readable.
[[nodiscard]] std::int64_t wake_ups_between(const Observation& first, const Observation& last);

// So many wake-ups without any counter moving: what it waits for does not come.
inline constexpr std::int64_t kWakeUpsOfAHang = 5;

// The main thread was at the same place of the same calls in both looks, as far as its stack is known; a wait that loops in the
// driver of the device is at one place.
[[nodiscard]] bool same_place(const Observation& before, const Observation& after);

// A thread that waits for something outside of the command (ThreadStack::outside), if the main thread is that one or may wait for
// it; nothing where there is none.
[[nodiscard]] const ThreadStack* waits_outside(const Observation& look);

// The main thread is inside of torch.distributed.init_process_group, as far as its stack is known.
[[nodiscard]] bool is_joining(const Observation& look);

// The main thread is inside of a call of torch.distributed which other ranks have to make too, as far as its stack is known: a
// collective, new_group, a barrier.
[[nodiscard]] bool is_in_distributed(const Observation& look);

// The main thread is inside of what compiles for Python (torch.compile, Triton, extensions in C++), as far as its stack is known:
// it compiles, or waits for who does.
[[nodiscard]] bool is_compiling(const Observation& look);

// A thread of the training waits inside the driver of the device, called from the same place in both looks.
[[nodiscard]] bool waits_for_device(const Observation& before, const Observation& after);

// A limit that ends later than this is none for whoever watches: those of sleeps and polls are seconds, those that libraries of
// communication give to a wait for a peer are half an hour.
inline constexpr std::int64_t kFarLimitMs = 300'000;
[[nodiscard]] bool waits_with_far_limit(const Observation& look);  // a thread of it

// The stack of the main thread: its own frames, or those inside the kernel.
[[nodiscard]] const std::vector<std::string>& main_frames(const Observation& look);

inline constexpr std::string_view kAnotherThread =
    "another thread: ";  // such a frame begins so if it is none of the main thread

// The main thread is inside of the code of Python or torch that waits for a process which this one has started (a loader, a pool,
// join, subprocess), as far as its stack is known.
[[nodiscard]] bool waits_for_child(const Observation& look);
// In a call that ends when another process does.
[[nodiscard]] bool waits_for_process(std::string_view call);
// The main thread of a child, which stands among those of its rank; nothing where it was not looked at.
[[nodiscard]] const ThreadStack* main_thread_of(const Observation& look, const ChildProcess& child);

// Children without which the process cannot go on, though it looks at them again and again: between the looks the child stayed in
// a pipe that is full and that the process itself should read; or the process's main thread is inside the code of Python or torch
// that waits for a child (a loader, a pool, join, a pipe, subprocess), and the child stayed in one wait without a limit or in a
// sleep of more than kFarLimitMs. Empty while a child sleeps for less, and of a full pipe while a thread of the process itself
// does.
[[nodiscard]] std::vector<const ChildProcess*> stuck_children(const Observation& before,
                                                              const Observation& after);

// A process as it is asked about.
struct Looked {
  const Observation* before = nullptr;  // null: not looked at, and no standstill
  const Observation* after = nullptr;
  std::int64_t wall_ms = 0;
  bool with_peers = false;  // it entered a collective and did not leave it, or is at the rendezvous
  // PyTorch's flight recorder shows that it cannot go on without its peers (evidence/flight.h): in whatever loop it waits for them
  bool held = false;
  std::int64_t wake_ups = 0;   // known so far
  std::int64_t polled_ms = 0;  // for which these were counted
  std::int64_t polls_ms = 0;   // StillLimits::polls_ms
  bool connecting = false;     // at the rendezvous, inside NCCL
};

// The main thread is inside NCCL, as far as its stack is known.
[[nodiscard]] bool is_inside_nccl(const Observation& look);

// What keeps this process from standing still, or none of it (`stopped`, `waiting`).
[[nodiscard]] Doing slowed_by(const Looked& process);
// Where all connect, nobody is missing: on a machine whose cards are busy that takes as long as a standstill.
[[nodiscard]] bool stands_still(std::span<const Looked> processes);

// "in futex without a time limit"; what could not be read is said.
[[nodiscard]] std::string told(const Observation& look);
// "in futex without a time limit, 3 ms of processor time in 2001 ms"; what could not be read is said.
[[nodiscard]] std::string told(const Looked& process);

}  // namespace harness
