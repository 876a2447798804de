// Launching a kernel, on a card or emulated.
#pragma once

#include "nsa/kernels/attention.h"
#include "nsa/kernels/common/device.h"

#if !defined(NSA_EMULATED)
#include <cuda_runtime.h>
#endif

#include <stdexcept>
#include <string>

namespace nsa::kernels {

struct GridSize {
  std::int64_t x = 1;
  std::int64_t y = 1;
  std::int64_t z = 1;
};

#if defined(NSA_EMULATED)

template <class P>
void launch(void (*kernel)(P), const GridSize& grid, int threads, int shared, Stream, const P& p) {
  if (grid.x <= 0 || grid.y <= 0 || grid.z <= 0) return;
  const emulated::Grid size{
      static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y), static_cast<unsigned>(grid.z)};
  emulated::run_grid(size, threads, shared, [&] { kernel(p); });
}

#else

inline void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  throw std::runtime_error(std::string(what) + ": " + cudaGetErrorName(error) + ", " +
                           cudaGetErrorString(error));
}

template <class P>
void launch(
    void (*kernel)(P), const GridSize& grid, int threads, int shared, Stream stream, const P& p) {
  if (grid.x <= 0 || grid.y <= 0 || grid.z <= 0) return;
  constexpr int kWithoutAsking = 48 * 1024;
  if (shared > kWithoutAsking) {
    check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                               cudaFuncAttributeMaxDynamicSharedMemorySize,
                               shared),
          "shared memory of a kernel");
  }
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(
      static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y), static_cast<unsigned>(grid.z));
  config.blockDim = dim3(static_cast<unsigned>(threads), 1, 1);
  config.dynamicSmemBytes = static_cast<std::size_t>(shared);
  config.stream = stream;
  check(cudaLaunchKernelEx(&config, kernel, p), "launch of a kernel");
}

#endif

}  // namespace nsa::kernels
