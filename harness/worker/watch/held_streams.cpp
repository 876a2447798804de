#include "harness/worker/watch/held_streams.h"

#ifdef NSA_CUDA
#include <array>
#include <atomic>
#include <dlfcn.h>
#include <string>

#include <cuda.h>

#include "nsa/base/error.h"

namespace harness {
namespace {

// hold(said, ended, number, patience): waits until `patience` cycles were counted since *said last changed, then writes `number` to
// *ended. A look is some microseconds; one that took longer than 20 us was interrupted and counts as that.
constexpr const char* kPtx = R"(
.version 7.0
.target sm_80
.address_size 64
.visible .entry hold(.param .u64 said, .param .u64 ended, .param .u32 number, .param .u64 patience)
{
  .reg .pred %changed, %more;
  .reg .b32 %number, %before, %now;
  .reg .b64 %said, %ended, %patience, %counted, %last, %clock, %step;
  ld.param.u64 %said, [said];
  ld.param.u64 %ended, [ended];
  ld.param.u32 %number, [number];
  ld.param.u64 %patience, [patience];
  mov.u64 %counted, 0;
  mov.u64 %last, %clock64;
  ld.volatile.global.u32 %before, [%said];
LOOK:
  nanosleep.u32 500;
  mov.u64 %clock, %clock64;
  sub.s64 %step, %clock, %last;
  mov.u64 %last, %clock;
  max.s64 %step, %step, 0;
  min.s64 %step, %step, 40000;
  add.s64 %counted, %counted, %step;
  ld.volatile.global.u32 %now, [%said];
  setp.ne.u32 %changed, %now, %before;
  mov.u32 %before, %now;
  @%changed mov.u64 %counted, 0;
  setp.lt.s64 %more, %counted, %patience;
  @%more bra LOOK;
  membar.sys;
  st.volatile.global.u32 [%ended], %number;
  ret;
}
)";

constexpr std::int64_t kPatience = 40'000'000;  // cycles: 20 ms at 2 GHz

template <class Function>
Function driver_function(const char* name) {
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  void* const found = driver == nullptr ? nullptr : dlsym(driver, name);
  if (found == nullptr) throw nsa::Error(std::string("the driver of the card has no ") + name);
  return reinterpret_cast<Function>(found);
}

void must(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  throw nsa::Error(std::string("the driver of the card did not ") + what + ": CUresult " +
                   std::to_string(static_cast<int>(result)));
}

// In the context of the current device, which has one by now. It stays loaded.
CUfunction hold_kernel() {
  CUmodule module = nullptr;
  must(driver_function<decltype(&cuModuleLoadData)>("cuModuleLoadData")(&module, kPtx),
       "load a kernel");
  CUfunction kernel = nullptr;
  must(driver_function<decltype(&cuModuleGetFunction)>("cuModuleGetFunction")(
           &kernel, module, "hold"),
       "find a kernel");
  return kernel;
}

void launch_hold(const c10::cuda::CUDAStream& stream,
                 const std::uint32_t* said,
                 std::uint32_t* ended,
                 std::uint32_t number) {
  static const CUfunction kernel = hold_kernel();
  static const auto launch = driver_function<decltype(&cuLaunchKernel)>("cuLaunchKernel");
  std::int64_t patience = kPatience;
  std::array<void*, 4> arguments{&said, &ended, &number, &patience};
  must(launch(kernel, 1, 1, 1, 1, 1, 1, 0, stream.stream(), arguments.data(), nullptr),
       "launch a kernel");
}

}  // namespace

HeldStreams::HeldStreams(std::vector<c10::cuda::CUDAStream> streams)
    : streams_(std::move(streams)),
      words_(torch::zeros({static_cast<std::int64_t>(streams_.size()) + 1},
                          torch::dtype(torch::kInt).pinned_memory(true))),
      begun_(streams_.size(), 0) {}

void HeldStreams::hold() {
  auto* const words = reinterpret_cast<std::uint32_t*>(words_.data_ptr<int>());
  std::atomic_ref<std::uint32_t>(words[0]).fetch_add(1);
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    std::uint32_t* const ended = words + 1 + i;
    if (std::atomic_ref<std::uint32_t>(*ended).load() != begun_[i]) continue;
    launch_hold(streams_[i], words, ended, ++begun_[i]);
  }
}

void hold_once(const c10::cuda::CUDAStream& stream) {
  // It lives on: at the end the driver may be gone.
  static auto* const nothing =
      new torch::Tensor(torch::zeros({2}, torch::dtype(torch::kInt).pinned_memory(true)));
  auto* const words = reinterpret_cast<std::uint32_t*>(nothing->data_ptr<int>());
  launch_hold(stream, words, words + 1, 1);
}

}  // namespace harness
#endif
