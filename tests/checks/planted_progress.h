// Standing still and being slow.
#pragma once

#include "tests/checks/planted_case.h"

namespace fixtures {

struct Look {
  std::string state = "S";
  std::int64_t cpu_ms = 0;
  std::vector<std::string> frames = {};
  std::string call = {};
  bool timed = false;
  std::int64_t switches = -1;
  std::int64_t children_cpu_ms = 0;
  std::int64_t disk_bytes = 0;
  int device_busy_percent = -1;
  std::string child = "cc1plus";
};

// Looks 0 and 1, and those without stacks that came after them.
inline void look_at(
    Healthy& h, int rank, const Look& first, const Look& second, std::vector<Look> later = {}) {
  int number = 0;
  later.insert(later.begin(), {first, second});
  for (const Look& look : later) {
    harness::Observation row;
    row.process_observed = rank;
    row.look = number;
    row.state = look.state;
    row.cpu_ms = look.cpu_ms;
    harness::ThreadStack stack;
    stack.thread = "main";
    stack.state = look.state;
    stack.frames = look.frames;
    stack.call = look.call;
    stack.timed = look.timed;
    stack.switches = look.switches;
    row.threads.push_back(stack);
    row.children_cpu_ms = look.children_cpu_ms;
    row.disk_bytes = look.disk_bytes;
    row.device_busy_percent = look.device_busy_percent;
    if (look.children_cpu_ms > 0) row.children.push_back({look.child, 77, "R", 0});
    put(h.evidence.observations, kController, row, 30'000 + 2'000 * number);
    ++number;
  }
}

// All ranks still there, in `phase`, ended by the controller.
inline void stopped(Healthy& h, const std::string& reason, const std::string& phase) {
  h.without_twin();
  for (int rank = 0; rank < h.evidence.ranks(); ++rank) {
    h.ends(rank, 0, SIGKILL, true, 40'000);
    harness::Heartbeat beat;
    beat.phase = phase;
    beat.step = 1;
    beat.layer = 1;
    beat.counters.operators_forward = 60;
    beat.longest_gap_ms = 40;
    put(h.evidence.heartbeats, rank, beat, 20'000);
  }
  put(h.evidence.stopped, kController, harness::Stopped{reason, "", 34'000}, 34'000);
  if (reason == "still")
    put(h.evidence.suspects, kController, harness::Suspect{12'000, 10'000, 40}, 30'000);
}

// A case that was suspected, looked at, and moved on and ended by itself.
inline void moved_again(Healthy& h) {
  put(h.evidence.suspects, kController, harness::Suspect{12'000, 10'000, 40}, 30'000);
  put(h.evidence.facts, kController, harness::Fact{"moved_again_ms", "9000"}, 39'000);
  for (const int process : {0, 1}) {
    harness::Heartbeat beat;
    beat.phase = "forward";
    beat.step = 1;
    beat.layer = process == 1 ? 2 : -1;
    put(h.evidence.heartbeats, process, beat, 29'000);
    beat.layer = 0;
    put(h.evidence.heartbeats, process, beat, 39'000);
  }
}

inline void twin_needed(Healthy& h, std::int64_t longest_gap_ms) {
  harness::Heartbeat beat;
  beat.phase = "forward";
  beat.longest_gap_ms = longest_gap_ms;
  put(h.evidence.heartbeats, harness::kTwin, beat, 60'000);
}

const inline Look kAsleep = {"S", 400, {"sleep"}, "clock_nanosleep", true, 7};
const inline Look kInLock = {"S", 400, {"lock"}, "futex", false, 7};
const inline Look kComputing = {"R", 100, {"op"}, "running", false, 7};
const inline Look kComputingOn = {"R", 1'900, {"op"}, "running", false, 7};

// Ranks from `first` on wait in collective 2.
inline void waiting(Healthy& h, int first) {
  remove_if(h.evidence.collectives_done,
            [=](const auto& row) { return row.process >= first && row.row.sequence == 2; });
}

// `rank` waits for its batch and then computes, in milliseconds.
// `rank` waits so long for every batch of `steps` steps, and computes so long in each.
inline void wait_for_all_data(
    Healthy& h, int rank, int steps, std::int64_t waited_ms, std::int64_t forward_ms) {
  remove_if(h.evidence.phases, [=](const auto& row) { return row.process == rank; });
  std::int64_t now = 100;
  for (int step = 1; step <= steps; ++step) {
    put(h.evidence.phases, rank, harness::Phase{"data", step}, now);
    put(h.evidence.phases, rank, harness::Phase{"forward", step}, now += waited_ms);
    put(h.evidence.phases, rank, harness::Phase{"optimizer", step}, now += forward_ms);
    now += 1;
  }
}

inline void wait_for_data(Healthy& h, int rank, std::int64_t waited_ms, std::int64_t forward_ms) {
  remove_if(h.evidence.phases, [=](const auto& row) { return row.process == rank; });
  put(h.evidence.phases, rank, harness::Phase{"data", 1}, 100);
  put(h.evidence.phases, rank, harness::Phase{"forward", 1}, 100 + waited_ms);
  put(h.evidence.phases, rank, harness::Phase{"backward", 1}, 100 + waited_ms + forward_ms);
}

// What a process counted around its seams: [[seam, layer, calls, waits], ...].
inline void counts_waits(Healthy& h, int process, const std::string& waits) {
  put(h.evidence.facts, process, harness::Fact{"host_waits", waits}, 900);
}

// Both ranks and the twin wait as their implementations do: the twin ran twice as often.
inline void waits_as_ever(Healthy& h) {
  counts_waits(h, 0, R"([["attend_sel", 0, 4, 8], ["attend_sel", 1, 4, 8]])");
  counts_waits(h, harness::kTwin, R"([["attend_sel", 0, 8, 16], ["attend_sel", 1, 8, 16]])");
}

// One rank that loops in the driver of a card, until the case is out of its budget at `until_ms`; it moved last at 20 s.
inline void wait_for_kernel(
    Healthy& h,
    int busy_percent,
    std::int64_t until_ms,
    const std::string& caller = "cudaStreamSynchronize+0x5 (libcudart.so)") {
  stopped(h, "budget", "forward");
  h.evidence.stopped.front().t_ms = until_ms;
  for (auto& row : h.evidence.exited) row.t_ms = until_ms + 1'000;
  put(h.evidence.suspects, kController, harness::Suspect{12'000, 10'000, 40}, 30'000);
  // Without a caller the stack ends inside the driver.
  const auto look = [&](std::int64_t cpu_ms, const std::string& inner, const std::string& frame) {
    Look at = {"R", cpu_ms, {"clock_gettime (libc.so)", inner}, "running"};
    if (!frame.empty()) at.frames.insert(at.frames.end(), {frame, "item"});
    at.device_busy_percent = busy_percent;
    return at;
  };
  look_at(h,
          0,
          look(100, "libcuda.so.1+0x10", "cudaStreamSynchronize+0x5 (libcudart.so)"),
          look(1'900, "libcuda.so.1+0x20", caller));
}

inline void add_kernel_hangs(std::vector<Planted>& list) {
  const auto add = [&](const std::string& name,
                       const std::string& code,
                       const std::string& site,
                       std::function<void(Healthy&)> spoil) {
    list.push_back({"progress", name, Verdict::fail, code, site, std::move(spoil), 1});
  };
  add("a kernel that does not end",
      "HANG.KERNEL",
      R"({"ranks":[0],"step":1,"layers":[1],"phase":"forward"})",
      [](Healthy& h) { wait_for_kernel(h, 100, 60'000); });
  add("a kernel that does not end, one look cut off inside the driver",
      "HANG.KERNEL",
      R"({"ranks":[0],"step":1})",
      [](Healthy& h) { wait_for_kernel(h, 100, 60'000, ""); });
  // Of a deep stack only the innermost calls are kept: how many are the driver's differs from look to look.
  add("a kernel that does not end, looks cut off at different callers",
      "HANG.KERNEL",
      R"({"ranks":[0],"step":1})",
      [](Healthy& h) {
        wait_for_kernel(h, 100, 60'000);
        auto& frames = h.evidence.observations.back().row.threads.front().frames;
        frames.insert(frames.begin(), "libcuda.so.1+0x30");
        frames.pop_back();
      });
  const auto undecided = [&](const std::string& name, std::function<void(Healthy&)> spoil) {
    list.push_back({"progress", name, Verdict::inconclusive, "", "{}", std::move(spoil), 1});
  };
  undecided("a kernel that ran for less than half a minute",
            [](Healthy& h) { wait_for_kernel(h, 100, 49'000); });
  undecided("a kernel in a phase whose steps are long", [](Healthy& h) {
    wait_for_kernel(h, 100, 60'000);
    for (auto& row : h.evidence.heartbeats) row.row.longest_gap_ms = 2'100;
  });
  undecided("a card of which nobody knows", [](Healthy& h) { wait_for_kernel(h, -1, 60'000); });
  add("a card that no kernel keeps", "SLOW.HOST", "{}", [](Healthy& h) {
    wait_for_kernel(h, 40, 60'000);
  });
  add("calls of the driver from two places", "SLOW.HOST", "{}", [](Healthy& h) {
    wait_for_kernel(h, 100, 60'000, "cudaLaunchKernel+0x5 (libcudart.so)");
  });
}

inline void add_progress(std::vector<Planted>& list) {
  add_kernel_hangs(list);
  const std::string check = "progress";
  list.push_back({check, "healthy", Verdict::pass, "", "{}", kLeaveAsItIs});
  list.push_back({check,
                  "a stopped process",
                  Verdict::fail,
                  "HANG.HOST",
                  R"({"ranks":[1],"step":1,"detail":{"state":"T"}})",
                  [](Healthy& h) {
                    stopped(h, "still", "forward");
                    waiting(h, 0);
                    look_at(h, 0, {"S", 500, {"epoll_wait"}}, {"S", 510, {"epoll_wait"}});
                    look_at(h, 1, {"T", 400, {}}, {"T", 400, {}});
                  }});
  list.push_back({check,
                  "all in the rendezvous",
                  Verdict::fail,
                  "HANG.INIT",
                  R"({"phase":"rendezvous"})",
                  [](Healthy& h) {
                    stopped(h, "still", "rendezvous");
                    for (int rank = 0; rank < 2; ++rank)
                      look_at(h, rank, {"S", 5, {"accept"}}, {"S", 6, {"accept"}});
                  }});
  const auto connect = [](Healthy& h, const std::string& reason, int ranks) {
    stopped(h, reason, "rendezvous");
    put(h.evidence.suspects, kController, harness::Suspect{11'000, 10'000, 40}, 25'000);
    for (int rank = 0; rank < 2; ++rank) {
      const std::string inside = rank < ranks ? "libnccl.so.2+0xe9271" : "accept";
      look_at(h, rank, {"S", 5, {"recvmsg", inside}}, {"S", 6, {"recvmsg", inside}});
    }
  };
  list.push_back({check,
                  "NCCL never connects those that met",
                  Verdict::fail,
                  "HANG.INIT",
                  R"({"phase":"rendezvous"})",
                  [=](Healthy& h) { connect(h, "budget", 2); }});
  // Ended after half a minute: on a machine whose cards are busy NCCL takes as long.
  list.push_back({check, "NCCL still connects", Verdict::inconclusive, "", "{}", [=](Healthy& h) {
                    connect(h, "still", 2);
                  }});
  list.push_back({check,
                  "NCCL waits for one that waits elsewhere",
                  Verdict::fail,
                  "HANG.INIT",
                  R"({"phase":"rendezvous"})",
                  [=](Healthy& h) { connect(h, "still", 1); }});
  list.push_back(
      {check, "one never joined", Verdict::fail, "HANG.INIT", R"({"ranks":[1]})", [](Healthy& h) {
         stopped(h, "still", "rendezvous");
         for (auto& row : h.evidence.heartbeats) {
           if (row.process == 1) row.row.phase = "init";
         }
         for (int rank = 0; rank < 2; ++rank)
           look_at(h, rank, {"S", 5, {"accept"}}, {"S", 6, {"accept"}});
       }});
  list.push_back({check,
                  "all in a collective",
                  Verdict::fail,
                  "HANG.COLLECTIVE",
                  R"({"ranks":[0,1],"sequence":2,"step":1})",
                  [](Healthy& h) {
                    stopped(h, "still", "backward");
                    waiting(h, 0);
                    for (int rank = 0; rank < 2; ++rank)
                      look_at(h, rank, {"S", 5, {"wait"}}, {"S", 6, {"wait"}});
                  }});
  list.push_back({check,
                  "data that came late",
                  Verdict::fail,
                  "SLOW.DATA",
                  R"({"ranks":[1],"step":1,"phase":"data","detail":{"waited_ms":5000}})",
                  [](Healthy& h) { wait_for_data(h, 1, 5'000, 40); }});
  list.push_back(
      {check, "data that took as long as computing", Verdict::pass, "", "{}", [](Healthy& h) {
         wait_for_data(h, 1, 5'000, 4'000);
       }});
  list.push_back({check,
                  "data that comes slower than it is taken",
                  Verdict::fail,
                  "SLOW.DATA",
                  R"({"ranks":[1],"phase":"data","detail":{"waited_ms":900,"computed_ms":301}})",
                  [](Healthy& h) { wait_for_all_data(h, 1, 12, 900, 300); }});
  list.push_back(
      {check, "data that is as quick as it must be", Verdict::pass, "", "{}", [](auto& h) {
         wait_for_all_data(h, 1, 12, 290, 300);
       }});
  list.push_back({check, "seven slow batches are no habit", Verdict::pass, "", "{}", [](auto& h) {
                    wait_for_all_data(h, 1, 7, 900, 300);
                  }});
  list.push_back({check, "milliseconds are no wait", Verdict::pass, "", "{}", [](auto& h) {
                    wait_for_all_data(h, 1, 12, 19, 3);
                  }});
  list.push_back(
      {check,
       "data that came late before the ranks were started again",
       Verdict::fail,
       "SLOW.DATA",
       R"({"ranks":[1],"step":1,"phase":"data","detail":{"waited_ms":5000}})",
       [](Healthy& h) {
         wait_for_data(h, 1, 5'000, 40);
         put(h.evidence.relaunches, kController, harness::Relaunched{1, "killed"}, 6'000);
         put(h.evidence.phases, 1, harness::Phase{"data", 1}, 6'001);
         put(h.evidence.phases, 1, harness::Phase{"forward", 1}, 6'010);
       }});
  list.push_back({check,
                  "a number read to the host in every layer",
                  Verdict::fail,
                  "SLOW.SYNC_STORM",
                  R"({"op":"attend_win","layers":[0,1],"ranks":[1],
                      "detail":{"host_waits_per_step":6.0}})",
                  [](Healthy& h) {
                    waits_as_ever(h);
                    counts_waits(h, 1, R"([["attend_win", 0, 3, 3], ["attend_win", 1, 3, 3],
                                  ["attend_sel", 0, 4, 8], ["attend_sel", 1, 4, 8]])");
                  }});
  list.push_back({check,
                  "waits that the implementation makes on the twin too",
                  Verdict::pass,
                  "",
                  "{}",
                  [](Healthy& h) {
                    waits_as_ever(h);
                    counts_waits(h, 1, R"([["attend_sel", 0, 1, 2], ["attend_sel", 1, 1, 2]])");
                  }});
  list.push_back({check, "waits once in many calls", Verdict::pass, "", "{}", [](Healthy& h) {
                    waits_as_ever(h);
                    counts_waits(h, 1, R"([["attend_win", 0, 4, 2]])");
                  }});
  list.push_back(
      {check, "waits that no twin can be asked about", Verdict::pass, "", "{}", [](Healthy& h) {
         counts_waits(h, 1, R"([["attend_win", 0, 4, 4]])");
       }});
  list.push_back({check, "waits told in no words of ours", Verdict::pass, "", "{}", [](Healthy& h) {
                    counts_waits(h, 1, R"([["attend_win"], 7, {"a": 1}, ["x", "y", 1, 1]])");
                    counts_waits(h, 0, "no list");
                    counts_waits(h, harness::kTwin, "[]");
                  }});
  list.push_back({check, "lived again after a kill", Verdict::pass, "", "{}", &lived_before});
  list.push_back({check,
                  "all in a collective of the second life",
                  Verdict::fail,
                  "HANG.COLLECTIVE",
                  R"({"ranks":[0,1],"sequence":2,"step":1,"phase":"backward"})",
                  [](Healthy& h) {
                    stopped(h, "still", "backward");
                    waiting(h, 0);
                    for (int rank = 0; rank < 2; ++rank)
                      look_at(h, rank, {"S", 5, {"wait"}}, {"S", 6, {"wait"}});
                    lived_before(h);
                  }});
  list.push_back({check,
                  "a spinning wait",
                  Verdict::fail,
                  "HANG.COLLECTIVE",
                  R"({"sequence":2})",
                  [](Healthy& h) {
                    stopped(h, "still", "backward");
                    waiting(h, 0);
                    for (int rank = 0; rank < 2; ++rank)
                      look_at(h, rank, {"R", 0, {"spin"}}, {"R", 2000, {"spin"}});
                  }});
  // The frames that the driver's loop has at two moments, called from the same place.
  const Look first = {"R", 0, {"libcuda.so.1", "libcuda.so.1", "copy (libcuda.so.1)", "item"}};
  const Look second = {"R", 2'000, {"libcuda.so.1", "item"}};
  const Look elsewhere = {"R", 2'000, {"libcuda.so.1", "sort"}};
  list.push_back({check,
                  "all in a collective, spinning in the driver",
                  Verdict::fail,
                  "HANG.COLLECTIVE",
                  R"({"sequence":2})",
                  [=](Healthy& h) {
                    stopped(h, "still", "backward");
                    waiting(h, 0);
                    for (int rank = 0; rank < 2; ++rank) look_at(h, rank, first, second);
                  }});
  list.push_back({check,
                  "in the driver, called from another place each time",
                  Verdict::fail,
                  "SLOW.HOST",
                  R"({"ranks":[0,1]})",
                  [=](Healthy& h) {
                    stopped(h, "still", "backward");
                    waiting(h, 0);
                    for (int rank = 0; rank < 2; ++rank) look_at(h, rank, first, elsewhere);
                  }});
  list.push_back({check,
                  "in the driver and in no collective: a kernel may take long",
                  Verdict::inconclusive,
                  "",
                  "{}",
                  [=](Healthy& h) {
                    stopped(h, "still", "backward");
                    for (int rank = 0; rank < 2; ++rank) look_at(h, rank, first, second);
                  }});
  list.push_back({check,
                  "a stopped process and a peer that looks busy",
                  Verdict::fail,
                  "HANG.HOST",
                  R"({"ranks":[1],"detail":{"state":"T"}})",
                  [=](Healthy& h) {
                    stopped(h, "still", "backward");
                    waiting(h, 0);
                    look_at(h, 0, first, elsewhere);
                    look_at(h, 1, {"T", 400, {}}, {"T", 400, {}});
                  }});
  list.push_back({check,
                  "one in no collective",
                  Verdict::fail,
                  "HANG.HOST",
                  R"({"ranks":[0],"layers":[1],"phase":"forward"})",
                  [](Healthy& h) {
                    stopped(h, "still", "forward");
                    waiting(h, 1);
                    for (int rank = 0; rank < 2; ++rank)
                      look_at(h, rank, {"S", 5, {"lock"}}, {"S", 6, {"lock"}});
                  }});
  list.push_back({check,
                  "in different groups",
                  Verdict::fail,
                  "HANG.COLLECTIVE",
                  R"({"ranks":[0,1]})",
                  [](Healthy& h) {
                    stopped(h, "still", "backward");
                    put(h.evidence.collectives,
                        0,
                        harness::Collective{0, 1, "backward", "allreduce", "sum", "Float", 4, "a"});
                    put(h.evidence.collectives,
                        1,
                        harness::Collective{0, 1, "backward", "allreduce", "sum", "Float", 4, "b"});
                    for (int rank = 0; rank < 2; ++rank)
                      look_at(h, rank, {"S", 5, {"wait"}}, {"S", 6, {"wait"}});
                  }});
  list.push_back({check,
                  "no counter, but busy",
                  Verdict::fail,
                  "SLOW.HOST",
                  R"({"ranks":[0],"phase":"forward"})",
                  [](Healthy& h) {
                    stopped(h, "still", "forward");
                    look_at(h, 0, {"R", 0, {"loop", "a"}}, {"R", 1900, {"loop", "b"}});
                    look_at(h, 1, {"S", 5, {"wait"}}, {"S", 6, {"wait"}});
                  }});
  list.push_back({check,
                  "out of budget while moving",
                  Verdict::fail,
                  "SLOW.HOST",
                  R"({"phase":"forward","step":1})",
                  [](Healthy& h) {
                    stopped(h, "budget", "forward");
                    for (auto& row : h.evidence.heartbeats) row.t_ms += 12'000;
                  }});
  list.push_back({check,
                  "asleep until the budget was up",
                  Verdict::fail,
                  "HANG.HOST",
                  R"({"ranks":[0],"layers":[1],"phase":"forward"})",
                  [](Healthy& h) {
                    stopped(h, "still", "forward");
                    h.evidence.stopped.front().row.reason = "budget";
                    waiting(h, 1);
                    look_at(h, 0, kAsleep, kAsleep, {kAsleep, kAsleep});
                    look_at(h, 1, kInLock, kInLock);
                  }});
  list.push_back(
      {check, "asleep, ended too early to tell", Verdict::inconclusive, "", "{}", [](Healthy& h) {
         stopped(h, "still", "forward");
         waiting(h, 1);
         look_at(h, 0, kAsleep, kAsleep);
         look_at(h, 1, kInLock, kInLock);
       }});
  list.push_back({check,
                  "wakes up again and again, and nothing moves",
                  Verdict::fail,
                  "HANG.HOST",
                  R"({"ranks":[0]})",
                  [](Healthy& h) {
                    stopped(h, "still", "forward");
                    waiting(h, 1);
                    Look later = kAsleep;
                    later.switches = 12;
                    look_at(h, 0, kAsleep, kAsleep, {kAsleep, later});
                    look_at(h, 1, kInLock, kInLock);
                  }});
  list.push_back({check,
                  "waits for its peers with a limit",
                  Verdict::fail,
                  "HANG.COLLECTIVE",
                  R"({"ranks":[0,1]})",
                  [](Healthy& h) {
                    stopped(h, "still", "backward");
                    waiting(h, 0);
                    const Look wait = {"S", 5, {"wait"}, "futex", true, 3};
                    for (int rank = 0; rank < 2; ++rank) look_at(h, rank, wait, wait);
                  }});
  const auto child = [](const std::string& name, auto change) {
    return [=](Healthy& h) {
      stopped(h, "still", "forward");
      h.evidence.stopped.front().row.reason = "budget";
      waiting(h, 0);
      look_at(h, 0, kInLock, kInLock);
      Look waits = {"S", 5, {"wait"}, "wait4", false, 3, 1'000};
      waits.child = name;
      Look later = waits;
      later.children_cpu_ms = 2'800;
      remove_if(h.evidence.collectives, [](const auto& row) { return row.process == 1; });
      look_at(h, 1, waits, later);
      change(h.evidence.observations);
    };
  };
  // Another child of rank 1.
  const auto beside = [](const harness::ChildProcess& other) {
    return [=](auto& observations) {
      for (auto& row : observations) {
        if (row.row.process_observed == 1) row.row.children.push_back(other);
      }
    };
  };
  list.push_back({check,
                  "a child that computed until the budget was up",
                  Verdict::fail,
                  "SLOW.HOST",
                  R"({"ranks":[1]})",
                  child("python3", [](auto&) {})});
  list.push_back({check,
                  "a child that compiled until the budget was up",
                  Verdict::fail,
                  "SLOW.COMPILE",
                  R"({"ranks":[1],"phase":"forward"})",
                  child("cicc", [](auto&) {})});
  list.push_back({check,
                  "a shell that waits for the compiler",
                  Verdict::fail,
                  "SLOW.COMPILE",
                  R"({"ranks":[1]})",
                  child("cc1plus", beside({"sh", 78, "S", 3}))});
  list.push_back({check,
                  "a compiler beside another child that computes",
                  Verdict::fail,
                  "SLOW.HOST",
                  R"({"ranks":[1]})",
                  child("cc1plus", beside({"tune", 78, "R", 3}))});
  list.push_back({check,
                  "a disk that was written until the budget was up",
                  Verdict::fail,
                  "SLOW.HOST",
                  R"({"ranks":[0]})",
                  [](Healthy& h) {
                    stopped(h, "still", "forward");
                    h.evidence.stopped.front().row.reason = "budget";
                    waiting(h, 1);
                    look_at(h, 1, kInLock, kInLock);
                    const Look writes = {"D", 5, {"write"}, "write", false, 3};
                    Look later = writes;
                    later.disk_bytes = 1 << 24;
                    look_at(h, 0, writes, later);
                  }});
  list.push_back({check,
                  "slept and moved on",
                  Verdict::fail,
                  "SLOW.HOST",
                  R"({"ranks":[1],"layers":[2],"step":1,"phase":"forward"})",
                  [](Healthy& h) {
                    moved_again(h);
                    look_at(h, 0, kInLock, kInLock);
                    look_at(h, 1, kAsleep, kAsleep);
                  }});
  list.push_back({check,
                  "computed for what the twin did in no time, and moved on",
                  Verdict::fail,
                  "SLOW.HOST",
                  R"({"ranks":[1],"layers":[2]})",
                  [](Healthy& h) {
                    moved_again(h);
                    twin_needed(h, 900);
                    look_at(h, 0, kInLock, kInLock);
                    look_at(h, 1, kComputing, kComputingOn);
                  }});
  list.push_back(
      {check, "computed for as long as the twin did", Verdict::pass, "", "{}", [](Healthy& h) {
         moved_again(h);
         twin_needed(h, 19'000);
         look_at(h, 0, kInLock, kInLock);
         look_at(h, 1, kComputing, kComputingOn);
       }});
  list.push_back(
      {check, "had a child that compiled, and moved on", Verdict::pass, "", "{}", [](Healthy& h) {
         moved_again(h);
         twin_needed(h, 900);
         look_at(h, 0, kInLock, kInLock);
         Look later = kInLock;
         later.children_cpu_ms = 1'800;
         look_at(h, 1, kInLock, later);
       }});
  list.push_back({check,
                  "out of budget, counters unknown, a compiler at work",
                  Verdict::fail,
                  "SLOW.COMPILE",
                  R"({"ranks":[1]})",
                  [=](Healthy& h) {
                    child("cicc", [](auto&) {})(h);
                    stopped(h, "budget", "forward");
                    h.evidence.heartbeats.clear();
                  }});
  list.push_back({check,
                  "out of budget, counters unknown, asleep",
                  Verdict::inconclusive,
                  "",
                  "{}",
                  [](Healthy& h) {
                    stopped(h, "budget", "forward");
                    for (int rank = 0; rank < 2; ++rank) look_at(h, rank, kInLock, kInLock);
                    h.evidence.heartbeats.clear();
                  }});
  list.push_back(
      {check, "out of budget, movement unknown", Verdict::inconclusive, "", "{}", [](Healthy& h) {
         stopped(h, "budget", "forward");
         h.evidence.heartbeats.clear();
       }});
  list.push_back({check, "no looks", Verdict::inconclusive, "", "{}", [](Healthy& h) {
                    stopped(h, "still", "backward");
                  }});
  list.push_back({check, "interrupted", Verdict::inconclusive, "", "{}", [](Healthy& h) {
                    stopped(h, "interrupted", "forward");
                  }});
  list.push_back({check, "a peer had ended", Verdict::inconclusive, "", "{}", [](Healthy& h) {
                    stopped(h, "peer_ended", "forward");
                  }});
  list.push_back({check, "no end known", Verdict::inconclusive, "", "{}", [](Healthy& h) {
                    h.evidence.exited.clear();
                  }});
}

}  // namespace fixtures
