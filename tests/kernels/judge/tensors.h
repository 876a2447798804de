// Tensors [B, heads, S, D] of all sequences in device memory, in the layout of the case, poisoned with NaNs where nobody has
// written.
#pragma once

#include <string>

#include "tests/kernels/judge/case.h"
#include "tests/kernels/judge/device_memory.h"

namespace judge {

enum class Kind { element, float32, int32 };

class DeviceTensor {
 public:
  // Positions of sequence b: lengths[b], from offsets[b] on where lengths vary.
  struct Place {
    std::vector<std::int64_t> lengths;
    std::vector<std::int64_t> offsets;  // varlen only
  };
  DeviceTensor(
      const Case& one, Kind kind, std::int64_t heads, std::int64_t width, const Place& place);

  [[nodiscard]] nsa::kernels::MutableRows rows() const;
  // values[b]: [heads, length, width]
  void upload(const std::vector<const Numbers*>& values) const;
  [[nodiscard]] std::vector<Numbers> download() const;
  void poison() const { memory_.fill(0xff); }
  // "" where all bytes between rows are still poison.
  [[nodiscard]] std::string gaps_written() const;
  [[nodiscard]] std::vector<unsigned char> bytes() const;

 private:
  [[nodiscard]] std::int64_t at(std::size_t b, std::int64_t head, std::int64_t t) const;
  [[nodiscard]] int element_bytes() const { return kind_ == Kind::element ? 2 : 4; }

  Kind kind_;
  nsa::kernels::Element element_;
  std::int64_t heads_;
  std::int64_t width_;
  Place place_;
  bool varlen_;
  std::int64_t batch_step_ = 0;
  std::int64_t head_step_ = 0;
  std::int64_t position_step_ = 0;
  std::int64_t first_ = 0;
  std::int64_t count_ = 0;
  DeviceMemory memory_;
};

DeviceTensor::Place query_place(const Case& one);
DeviceTensor::Place key_place(const Case& one);
DeviceTensor::Place compressed_place(const Case& one);
std::vector<std::int32_t> starts_of(const Case& one);

std::uint16_t element_bits(double value, nsa::kernels::Element element);
double element_value(std::uint16_t bits, nsa::kernels::Element element);

}  // namespace judge
