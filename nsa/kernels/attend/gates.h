// Gates of one row.
#pragma once

#include "nsa/kernels/attend/params.h"
#include "nsa/kernels/common/device.h"

namespace nsa::kernels {

struct Gates {
  float cmp;
  float sel;
  float win;
};

template <class E>
NSA_DEVICE float read_number(const char* from, bool is_float) {
  if (is_float) return *reinterpret_cast<const float*>(from);
  return read_element<E>(from);
}

template <class E>
NSA_DEVICE void write_number(char* to, bool is_float, float value) {
  if (is_float) {
    *reinterpret_cast<float*>(to) = value;
  } else {
    *reinterpret_cast<std::uint16_t*>(to) = static_cast<std::uint16_t>(pack<E>(value, 0.0F));
  }
}

NSA_DEVICE char* gates_at(const Common& c, const GateRef& gates, int b, int group, int row) {
  const int query = c.heads.quotient(row);
  const int head = row - query * c.heads.divisor;
  const int owner = gates.per_head ? group * c.heads.divisor + head : group;
  return at_sequence(gates.values, c.sequences, b) + owner * gates.values.head +
         query * gates.values.position;
}

template <class E>
NSA_DEVICE Gates read_gates(const Common& c, const GateRef& gates, int b, int group, int row) {
  const char* from = gates_at(c, gates, b, group, row);
  return {read_number<E>(from, gates.is_float),
          read_number<E>(from + gates.branch, gates.is_float),
          read_number<E>(from + 2 * gates.branch, gates.is_float)};
}

}  // namespace nsa::kernels
