// The birth certificates of NaNs: the first operator, forward or backward, that made a NaN out of inputs without one, and
// the seam and layer it ran for. Looks at every operator's inputs and outputs while it is on, which costs about as much again
// as the operators themselves: for small cases, or to run a step again that went wrong. One at a time in a process.
#pragma once

#include <cstdint>
#include <optional>

#include "harness/evidence/rows.h"
#include "harness/worker/record/operator_call.h"
#include "harness/worker/watch/seam_watch.h"

namespace harness {

class NanWatch {
 public:
  // Watches until it is destroyed. `seams` tells where an operator belongs and must outlive it.
  NanWatch(const SeamWatch& seams, std::int64_t step, bool poisoned);
  ~NanWatch();
  NanWatch(const NanWatch&) = delete;
  NanWatch& operator=(const NanWatch&) = delete;

  // One of these looks at an operator on this thread now: what runs then is its own.
  [[nodiscard]] static bool is_looking();

  // The first birth so far.
  [[nodiscard]] std::optional<NanBirth> birth() const;
  // What to record of a NaN that was seen: its birth; without one it came out of memory that nobody had written, and op is "".
  [[nodiscard]] NanBirth certificate() const;
  // The call that made it, on as few rows as give it again; nothing where no operator made it.
  [[nodiscard]] std::optional<OperatorCall> call() const;

 private:
  std::uint64_t handle_ = 0;
};

// Writes the certificate, and the call beside it where there is one that can be written.
void write_certificate(const NanWatch& watch, const ArtefactOut& out);

}  // namespace harness
