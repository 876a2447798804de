#include "harness/worker/watch/gpu_sensors.h"

#include <array>
#include <cstdio>
#include <dlfcn.h>

#ifdef NSA_CUDA
#include <ATen/cuda/CUDAContext.h>
#endif

namespace harness {
namespace {

constexpr auto kLeastApart = std::chrono::milliseconds(500);

// Of NVML's interface, whose functions are looked up by name: the library belongs to the driver and is not there at build time.
constexpr int kSuccess = 0;
constexpr unsigned kSmClock = 1;
constexpr unsigned kCoreSensor = 0;
struct Utilization {
  unsigned gpu = 0;  // percent of the driver's last sampling period in which a kernel ran
  unsigned memory = 0;
};
struct Memory {
  unsigned version = 0;
  unsigned long long total = 0;
  unsigned long long reserved = 0;  // by the driver itself
  unsigned long long free = 0;
  unsigned long long used = 0;
};
constexpr unsigned kSecondVersion = 2U << 24U;
constexpr int kInsufficientSize = 7;
using Handle = void*;

#ifdef NSA_CUDA
// As the driver names cards: CUDA's own numbering is another one where some are hidden.
std::string bus_id(const torch::Device& device) {
  const auto* card = at::cuda::getDeviceProperties(device.index());
  std::array<char, 32> text{};
  std::snprintf(text.data(),
                text.size(),
                "%08x:%02x:%02x.0",
                static_cast<unsigned>(card->pciDomainID),
                static_cast<unsigned>(card->pciBusID),
                static_cast<unsigned>(card->pciDeviceID));
  return text.data();
}
#endif

}  // namespace

struct GpuSensors::Library {
  void* library = nullptr;
  Handle card = nullptr;

  ~Library() {
    if (library == nullptr) return;
    if (const auto shutdown = function<int (*)()>("nvmlShutdown")) shutdown();
    dlclose(library);
  }

  template <typename Function>
  [[nodiscard]] Function function(const char* name) const {
    return reinterpret_cast<Function>(dlsym(library, name));
  }

  [[nodiscard]] bool open(const std::string& bus) {
    library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return false;
    const auto init = function<int (*)()>("nvmlInit_v2");
    const auto find = function<int (*)(const char*, Handle*)>("nvmlDeviceGetHandleByPciBusId_v2");
    return init != nullptr && find != nullptr && init() == kSuccess &&
           find(bus.c_str(), &card) == kSuccess;
  }

  // Into instances (MIG): what the driver says of the whole card is said of other instances too.
  [[nodiscard]] bool is_divided() const {
    const auto mode = function<int (*)(Handle, unsigned*, unsigned*)>("nvmlDeviceGetMigMode");
    unsigned now = 0;
    unsigned later = 0;
    return mode != nullptr && mode(card, &now, &later) == kSuccess && now != 0;
  }

  // Writes what `name` gives for the card with these arguments, if it gives anything.
  template <typename Value, typename... Arguments>
  [[nodiscard]] bool ask(const char* name, Value& value, Arguments... arguments) const {
    const auto asked = function<int (*)(Handle, Arguments..., Value*)>(name);
    return asked != nullptr && asked(card, arguments..., &value) == kSuccess;
  }
};

GpuSensors::GpuSensors(const torch::Device& device) {
#ifdef NSA_CUDA
  if (!device.is_cuda()) return;
  auto library = std::make_unique<Library>();
  if (library->open(bus_id(device))) library_ = std::move(library);
#else
  (void)device;
#endif
}

GpuSensors::~GpuSensors() = default;

int GpuSensors::busy_percent() const {
  Utilization busy;
  const bool known = library_ && library_->ask("nvmlDeviceGetUtilizationRates", busy);
  return known ? static_cast<int>(busy.gpu) : -1;
}

std::int64_t GpuSensors::used_bytes() const {
  Memory memory;
  memory.version = kSecondVersion | static_cast<unsigned>(sizeof(Memory));
  const bool known =
      library_ && !library_->is_divided() && library_->ask("nvmlDeviceGetMemoryInfo_v2", memory);
  return known ? static_cast<std::int64_t>(memory.used) : -1;
}

int GpuSensors::processes() const {
  if (!library_ || library_->is_divided()) return -1;
  const auto list = library_->function<int (*)(Handle, unsigned*, void*)>(
      "nvmlDeviceGetComputeRunningProcesses_v3");
  if (list == nullptr) return -1;
  // With room for none it tells how many there are.
  unsigned count = 0;
  const int answer = list(library_->card, &count, nullptr);
  const bool told = answer == kInsufficientSize && count > 0;
  return told ? static_cast<int>(count) : -1;
}

void GpuSensors::record(Session& session, std::int64_t step) {
  const auto now = std::chrono::steady_clock::now();
  if (!library_ || (last_.time_since_epoch().count() != 0 && now - last_ < kLeastApart)) return;
  last_ = now;
  Utilization busy;
  unsigned number = 0;
  const auto sample = [&](const char* metric, double value) {
    session.sample(metric, step, value);
  };
  if (library_->ask("nvmlDeviceGetUtilizationRates", busy)) {
    sample("gpu_utilization_percent", busy.gpu);
  }
  if (library_->ask("nvmlDeviceGetClockInfo", number, kSmClock)) sample("gpu_sm_clock_mhz", number);
  if (library_->ask("nvmlDeviceGetPowerUsage", number)) sample("gpu_power_w", number / 1000.0);
  if (library_->ask("nvmlDeviceGetTemperature", number, kCoreSensor)) {
    sample("gpu_temperature_c", number);
  }
}

}  // namespace harness
