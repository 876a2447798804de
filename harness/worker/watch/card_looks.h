// Looks at the card while times are taken: is this rank alone on it? The driver says how busy the card is while the rank lets it
// rest, how much of its memory is used beside what the rank's allocator holds, and how many processes compute on it. Recorded as
// CardLook.
#pragma once

#include "harness/worker/session.h"
#include "harness/worker/watch/gpu_sensors.h"
#include "nsa/torch.h"

namespace harness {

// Before this process has anything on its card, which it lets rest first.
void look_at_unused_card(Session& session, const torch::Device& device);

class CardLooks {
 public:
  // Looks where `machine_sound` is asked for, on a card. `sensors` outlives it.
  CardLooks(Session& session, const GpuSensors& sensors, const torch::Device& device);

  // After a step, at most twice a second: nothing is waited for.
  void look(std::int64_t step);
  // Lets the card rest for longer than the driver's sampling period first. Not within what is timed.
  void look_at_rest(std::int64_t step);

 private:
  Session& session_;
  const GpuSensors& sensors_;
  torch::Device device_;
  bool asked_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace harness
