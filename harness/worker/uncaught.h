// An exception that no one catches ends the whole process by SIGABRT: one of a thread that LibTorch started (the watchdog of NCCL
// learns of a card's error before the thread that computes does), or one of a destructor. What it was is recorded before that:
// the signal alone names nothing.
#pragma once

#include "harness/worker/channel.h"
#include "harness/worker/work_counters.h"

namespace harness {

// While it lives, an exception that nobody catches is written as the worker's error; then the process is ended as before.
// One at a time. Both arguments must outlive it.
class TellUncaught {
 public:
  TellUncaught(Channel& channel, const Progress& progress);
  ~TellUncaught();
  TellUncaught(const TellUncaught&) = delete;
  TellUncaught& operator=(const TellUncaught&) = delete;
};

}  // namespace harness
