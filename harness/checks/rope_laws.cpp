#include "harness/checks/rope_laws.h"

#include <bit>
#include <cmath>
#include <functional>

#include "oracles/attention/rope.h"

namespace harness::checks {
namespace {

using oracles::Tensor;
using oracles::Turn;

double in_bfloat16(double value) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  const std::uint32_t even = ((bits >> 16U) & 1U) + 0x7FFFU;  // nearest, ties to even
  return static_cast<double>(std::bit_cast<float>((bits + even) & 0xFFFF0000U));
}

// Turns the pairs that `pair` names of every vector by the angle that `angle` gives.
struct Rotation {
  std::function<std::pair<std::int64_t, std::int64_t>(std::int64_t c)> pair;
  std::function<double(std::int64_t t, std::int64_t c)> angle;
  std::function<double(double)> kept = [](double value) { return value; };
};

Tensor turned(const Tensor& z, const std::vector<std::int64_t>& positions, const Rotation& by) {
  const std::int64_t width = z.shape.back();
  const auto rows = static_cast<std::int64_t>(positions.size());
  Tensor out = z;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(z.data.size()) / width; ++i) {
    const std::int64_t t = positions[static_cast<std::size_t>(i % rows)];
    for (std::int64_t c = 0; c < width / 2; ++c) {
      const auto [first, second] = by.pair(c);
      const double angle = by.angle(t, c);
      const double cosine = by.kept(std::cos(angle));
      const double sine = by.kept(std::sin(angle));
      const double a = z.data[static_cast<std::size_t>(i * width + first)];
      const double b = z.data[static_cast<std::size_t>(i * width + second)];
      out.data[static_cast<std::size_t>(i * width + first)] = a * cosine - b * sine;
      out.data[static_cast<std::size_t>(i * width + second)] = a * sine + b * cosine;
    }
  }
  return out;
}

// All heads of a row as one vector: the frequencies run over all of them.
Tensor over_all_heads(const oracles::AttentionConfig& config,
                      const std::vector<std::int64_t>& positions,
                      const Tensor& z) {
  const std::int64_t heads = z.shape[1];
  Tensor flat = oracles::merge_heads(z);
  const auto width = static_cast<double>(flat.shape.back());
  flat = turned(flat,
                positions,
                {[](std::int64_t c) {
                   return std::pair{2 * c, 2 * c + 1};
                 },
                 [&](std::int64_t t, std::int64_t c) {
                   return static_cast<double>(t) / config.rope_scale *
                          std::pow(config.rope_base, -2.0 * static_cast<double>(c) / width);
                 }});
  return oracles::split_heads(flat, heads);
}

}  // namespace

std::vector<RopeLaw> rope_laws(const oracles::AttentionConfig& config,
                               const std::vector<std::int64_t>& positions,
                               const Tensor& z) {
  const auto neighbours = [](std::int64_t c) { return std::pair{2 * c, 2 * c + 1}; };
  const auto halves = [&](std::int64_t c) { return std::pair{c, c + config.d_k / 2}; };
  const auto right = [&](std::int64_t t, std::int64_t c) {
    return oracles::rope_angle(config, t, c);
  };
  const auto times = [&](double factor) {
    return [&config, factor](std::int64_t t, std::int64_t c) {
      return factor * oracles::rope_angle(config, t, c);
    };
  };
  std::vector<RopeLaw> laws;
  const auto add = [&](const char* name, const char* about, Tensor output) {
    laws.push_back({name, about, std::move(output)});
  };
  add("not_rotated", "it is not rotated", z);
  add("rotated_twice", "it is rotated twice", turned(z, positions, {neighbours, times(2.0)}));
  add("rotated_backwards",
      "it is rotated the other way",
      turned(z, positions, {neighbours, times(-1.0)}));
  add("rotated_by_halves",
      "element c is paired with c + d_k/2 instead of its neighbour",
      turned(z, positions, {halves, right}));
  add("positions_from_1",
      "positions are counted from 1",
      turned(z, positions, {neighbours, [&](std::int64_t t, std::int64_t c) {
                              return oracles::rope_angle(config, t + 1, c);
                            }}));
  add("bfloat16_angles",
      "sine and cosine are rounded to bfloat16",
      turned(z, positions, {neighbours, right, in_bfloat16}));
  add("over_all_heads",
      "all heads are rotated as one vector, with frequencies that run over all of them",
      over_all_heads(config, positions, z));
  if (config.rope_scale != 1.0) {
    add("rope_scale_ignored",
        "rope_scale is ignored",
        turned(z, positions, {neighbours, times(config.rope_scale)}));
  }
  return laws;
}

}  // namespace harness::checks
