// Memory that kernels work on: of the card, or of the host where kernels are emulated.
#pragma once

#include <cstddef>
#include <vector>

#include "nsa/kernels/attention.h"

namespace judge {

class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t bytes);
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&&) = delete;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  [[nodiscard]] char* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  void fill(int byte) const;
  void upload(const void* from, std::size_t bytes) const;
  void download(void* to, std::size_t bytes) const;

 private:
  char* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Waits for the stream and throws std::runtime_error where something failed on the card.
void synchronize(nsa::kernels::Stream stream);
nsa::kernels::Stream new_stream();

}  // namespace judge
