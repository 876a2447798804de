#include <stdexcept>
#include <string>
#include <utility>

#include <cuda_runtime.h>

#include "tests/kernels/judge/device_memory.h"

namespace judge {
namespace {

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess)
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

}  // namespace

DeviceMemory::DeviceMemory(std::size_t bytes) : bytes_(bytes) {
  check(cudaMalloc(reinterpret_cast<void**>(&data_), bytes + 256), "cudaMalloc");
  fill(0xff);
}
DeviceMemory::~DeviceMemory() {
  if (data_ != nullptr) cudaFree(data_);
}
DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

void DeviceMemory::fill(int byte) const {
  check(cudaMemset(data_, byte, bytes_), "cudaMemset");
  check(cudaDeviceSynchronize(), "cudaMemset");
}
void DeviceMemory::upload(const void* from, std::size_t bytes) const {
  check(cudaMemcpy(data_, from, bytes, cudaMemcpyHostToDevice), "upload");
}
void DeviceMemory::download(void* to, std::size_t bytes) const {
  check(cudaMemcpy(to, data_, bytes, cudaMemcpyDeviceToHost), "download");
}

void synchronize(nsa::kernels::Stream stream) {
  check(cudaStreamSynchronize(stream), "kernels");
}
nsa::kernels::Stream new_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  return stream;
}

}  // namespace judge
