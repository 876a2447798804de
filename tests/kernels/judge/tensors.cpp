#include "tests/kernels/judge/tensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace judge {
namespace {

using nsa::kernels::Element;

struct Steps {
  std::int64_t batch, head, position, first, count;
};

Steps steps_of(const Case& one,
               std::int64_t heads,
               std::int64_t width,
               std::int64_t length,
               std::int64_t batch) {
  const std::int64_t padded = (width + 7) / 8 * 8;
  switch (one.layout) {
    case Layout::heads_first:
      return {heads * length * padded, length * padded, padded, 0, batch * heads * length * padded};
    case Layout::positions_first:
      return {heads * length * padded, padded, heads * padded, 0, batch * heads * length * padded};
    case Layout::with_gaps: {
      const std::int64_t head = padded + 8;
      const std::int64_t position = head * (heads + 1) + 16;
      const std::int64_t sequence = position * (length + 3) + 24;
      return {sequence, head, position, 40, batch * sequence + 40};
    }
  }
  return {};
}

std::int64_t total_of(const Case& one, const DeviceTensor::Place& place) {
  if (place.lengths.empty()) return 0;
  if (!one.problem.varlen) return *std::max_element(place.lengths.begin(), place.lengths.end());
  std::int64_t total = 0;
  for (std::size_t b = 0; b < place.lengths.size(); ++b)
    total = std::max(total, place.offsets[b] + place.lengths[b]);
  return total;
}

}  // namespace

std::uint16_t element_bits(double value, Element element) {
  const double kept = rounded(value, element);
  if (std::isnan(kept)) return 0x7fff;
  if (element == Element::bf16) {
    const auto as_float = static_cast<float>(kept);
    std::uint32_t bits;
    std::memcpy(&bits, &as_float, 4);
    return static_cast<std::uint16_t>(bits >> 16);
  }
  const std::uint16_t sign = std::signbit(kept) ? 0x8000 : 0;
  const double magnitude = std::abs(kept);
  if (std::isinf(magnitude)) return sign | 0x7c00;
  if (magnitude < std::ldexp(1.0, -14))
    return sign | static_cast<std::uint16_t>(std::ldexp(magnitude, 24));
  int exponent = 0;
  const double fraction = std::frexp(magnitude, &exponent);
  return sign | static_cast<std::uint16_t>((exponent + 14) << 10) |
         static_cast<std::uint16_t>((fraction * 2 - 1) * 1024);
}

double element_value(std::uint16_t bits, Element element) {
  if (element == Element::bf16) {
    const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &wide, 4);
    return value;
  }
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) return fraction == 0 ? sign * INFINITY : NAN;
  return sign *
         (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25));
}

DeviceTensor::DeviceTensor(
    const Case& one, Kind kind, std::int64_t heads, std::int64_t width, const Place& place)
    : kind_(kind),
      element_(one.problem.element),
      heads_(heads),
      width_(width),
      place_(place),
      varlen_(one.problem.varlen),
      memory_([&] {
        const auto steps =
            steps_of(one, heads, width, total_of(one, place), varlen_ ? 1 : one.problem.batch);
        return static_cast<std::size_t>(steps.count + 64) * (kind == Kind::element ? 2 : 4);
      }()) {
  const auto steps =
      steps_of(one, heads, width, total_of(one, place), varlen_ ? 1 : one.problem.batch);
  batch_step_ = steps.batch;
  head_step_ = steps.head;
  position_step_ = steps.position;
  first_ = steps.first;
  count_ = steps.count;
}

nsa::kernels::MutableRows DeviceTensor::rows() const {
  return {memory_.data() + first_ * element_bytes(), batch_step_, head_step_, position_step_};
}

std::int64_t DeviceTensor::at(std::size_t b, std::int64_t head, std::int64_t t) const {
  const std::int64_t position = varlen_ ? place_.offsets[b] + t : t;
  return first_ + (varlen_ ? 0 : static_cast<std::int64_t>(b) * batch_step_) + head * head_step_ +
         position * position_step_;
}

void DeviceTensor::upload(const std::vector<const Numbers*>& values) const {
  std::vector<unsigned char> all(memory_.bytes(), 0xff);
  for (std::size_t b = 0; b < place_.lengths.size(); ++b) {
    for (std::int64_t head = 0; head < heads_; ++head) {
      for (std::int64_t t = 0; t < place_.lengths[b]; ++t) {
        const double* from = values[b]->data() + (head * place_.lengths[b] + t) * width_;
        for (std::int64_t c = 0; c < width_; ++c) {
          unsigned char* to = all.data() + (at(b, head, t) + c) * element_bytes();
          if (kind_ == Kind::element) {
            const std::uint16_t bits = element_bits(from[c], element_);
            std::memcpy(to, &bits, 2);
          } else if (kind_ == Kind::float32) {
            const auto value = static_cast<float>(from[c]);
            std::memcpy(to, &value, 4);
          } else {
            const auto value = static_cast<std::int32_t>(from[c]);
            std::memcpy(to, &value, 4);
          }
        }
      }
    }
  }
  memory_.upload(all.data(), all.size());
}

std::vector<unsigned char> DeviceTensor::bytes() const {
  std::vector<unsigned char> all(memory_.bytes());
  memory_.download(all.data(), all.size());
  return all;
}

std::vector<Numbers> DeviceTensor::download() const {
  const auto all = bytes();
  std::vector<Numbers> values;
  for (std::size_t b = 0; b < place_.lengths.size(); ++b) {
    Numbers& out = values.emplace_back(heads_ * place_.lengths[b] * width_);
    for (std::int64_t head = 0; head < heads_; ++head) {
      for (std::int64_t t = 0; t < place_.lengths[b]; ++t) {
        for (std::int64_t c = 0; c < width_; ++c) {
          const unsigned char* from = all.data() + (at(b, head, t) + c) * element_bytes();
          double& to = out[(head * place_.lengths[b] + t) * width_ + c];
          if (kind_ == Kind::element) {
            std::uint16_t bits;
            std::memcpy(&bits, from, 2);
            to = element_value(bits, element_);
          } else if (kind_ == Kind::float32) {
            float value;
            std::memcpy(&value, from, 4);
            to = value;
          } else {
            std::int32_t value;
            std::memcpy(&value, from, 4);
            to = value;
          }
        }
      }
    }
  }
  return values;
}

std::string DeviceTensor::gaps_written() const {
  auto all = bytes();
  for (std::size_t b = 0; b < place_.lengths.size(); ++b) {
    for (std::int64_t head = 0; head < heads_; ++head) {
      for (std::int64_t t = 0; t < place_.lengths[b]; ++t) {
        std::fill_n(all.begin() + at(b, head, t) * element_bytes(), width_ * element_bytes(), 0xff);
      }
    }
  }
  const auto found =
      std::find_if(all.begin(), all.end(), [](unsigned char x) { return x != 0xff; });
  if (found == all.end()) return "";
  return "byte " + std::to_string(found - all.begin()) + " lies between rows and was written";
}

DeviceTensor::Place query_place(const Case& one) {
  DeviceTensor::Place place{one.lengths, {}};
  std::int64_t at = 0;
  for (const std::int64_t length : one.lengths) {
    place.offsets.push_back(at);
    at += length;
  }
  return place;
}

DeviceTensor::Place key_place(const Case& one) {
  auto place = query_place(one);
  for (auto& length : place.lengths) length += one.problem.first;
  return place;
}

DeviceTensor::Place compressed_place(const Case& one) {
  auto place = key_place(one);
  const auto config = config_of(one.problem);
  for (auto& length : place.lengths) length = config.compressed_count(length);
  for (auto& offset : place.offsets) offset /= one.problem.d;
  return place;
}

std::vector<std::int32_t> starts_of(const Case& one) {
  std::vector<std::int32_t> starts{0};
  for (const std::int64_t length : one.lengths)
    starts.push_back(starts.back() + static_cast<std::int32_t>(length));
  return starts;
}

}  // namespace judge
