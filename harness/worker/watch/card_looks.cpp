#include "harness/worker/watch/card_looks.h"

#include <thread>

#ifdef NSA_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#endif

namespace harness {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kApart(500);
// The driver averages over up to a second; after that nothing of this rank is in the figure any more.
constexpr milliseconds kRest(1200);

void finish_on(const torch::Device& device) {
#ifdef NSA_CUDA
  if (device.is_cuda()) c10::cuda::device_synchronize();
#else
  (void)device;
#endif
}

std::int64_t held_by_allocator([[maybe_unused]] const torch::Device& device) {
#ifdef NSA_CUDA
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device.index());
  return stats.reserved_bytes[0].current;
#else
  return -1;
#endif
}

bool is_asked(const Session& session, const torch::Device& device) {
  return device.is_cuda() && session.wants_check("machine_sound");
}

void record_look(Session& session, const GpuSensors& sensors, CardLook row) {
  row.busy_percent = sensors.busy_percent();
  row.used_bytes = sensors.used_bytes();
  row.processes = sensors.processes();
  session.channel().write(row);
}

}  // namespace

void look_at_unused_card(Session& session, const torch::Device& device) {
  if (!is_asked(session, device) || session.observe() < kWatchValues) return;
  const GpuSensors sensors(device);
  std::this_thread::sleep_for(kRest);
  CardLook row{0, true};
  row.own_bytes = 0;
  record_look(session, sensors, row);
}

CardLooks::CardLooks(Session& session, const GpuSensors& sensors, const torch::Device& device)
    : session_(session), sensors_(sensors), device_(device), asked_(is_asked(session, device)) {}

void CardLooks::look(std::int64_t step) {
  const auto now = std::chrono::steady_clock::now();
  if (!asked_ || (last_.time_since_epoch().count() != 0 && now - last_ < kApart)) return;
  last_ = now;
  CardLook row{step, false};
  row.own_bytes = held_by_allocator(device_);
  record_look(session_, sensors_, row);
}

void CardLooks::look_at_rest(std::int64_t step) {
  if (!asked_) return;
  finish_on(device_);
  std::this_thread::sleep_for(kRest);
  CardLook row{step, true};
  row.own_bytes = held_by_allocator(device_);
  record_look(session_, sensors_, row);
}

}  // namespace harness
