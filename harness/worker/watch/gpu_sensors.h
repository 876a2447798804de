// What the driver says of the card that this rank works on, recorded as samples: utilisation, clock, power, temperature. A rank
// that is slow because its card is throttled or shared shows it here.
#pragma once

#include <chrono>
#include <memory>

#include "harness/worker/session.h"
#include "nsa/torch.h"

namespace harness {

class GpuSensors {
 public:
  // Without a driver library, or on the CPU, nothing is ever recorded.
  explicit GpuSensors(const torch::Device& device);
  ~GpuSensors();
  GpuSensors(const GpuSensors&) = delete;
  GpuSensors& operator=(const GpuSensors&) = delete;

  // Samples of `step`; at most two a second, since the driver's own figures change no faster and asking costs a millisecond.
  void record(Session& session, std::int64_t step);
  // How much of the driver's last sampling period a kernel ran, of whichever process; -1 where nobody knows. Any thread may ask.
  [[nodiscard]] int busy_percent() const;
  // Of the card's memory, by all processes; -1 where nobody knows.
  [[nodiscard]] std::int64_t used_bytes() const;
  // How many processes compute on the card; -1 where nobody knows: a driver in a container often lists none at all.
  [[nodiscard]] int processes() const;

 private:
  struct Library;
  std::unique_ptr<Library> library_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace harness
