#include "harness/checks/law_match.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <set>
#include <string_view>

#include "harness/checks/largest.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

std::size_t width_of(const oracles::Tensor& tensor) {
  return static_cast<std::size_t>(tensor.shape.back());
}

// Of the finite entries.
double finite_scale(const oracles::Tensor& tensor) {
  double most = 0.0;
  for (const double value : tensor.data) {
    if (std::isfinite(value)) most = std::max(most, std::abs(value));
  }
  return most;
}

}  // namespace

std::vector<std::size_t> wrong_vectors(const oracles::Tensor& found,
                                       const oracles::Tensor& wanted,
                                       double limit) {
  const std::size_t width = width_of(wanted);
  std::vector<std::size_t> wrong;
  for (std::size_t i = 0; i < wanted.data.size(); ++i) {
    if (!std::isfinite(wanted.data[i])) continue;  // made of something that is not finite
    if (std::abs(found.data[i] - wanted.data[i]) <= limit) continue;
    wrong.push_back(i / width);
    i = (i / width + 1) * width - 1;  // on to the next vector
  }
  return wrong;
}

Explanation::Explanation(const oracles::Tensor& found,
                         const oracles::Tensor& wanted,
                         const std::vector<std::size_t>& wrong,
                         double relative_limit)
    : found_(found),
      wanted_(wanted),
      wrong_(wrong),
      relative_limit_(relative_limit),
      scale_(finite_scale(wanted)) {}

bool Explanation::same(const oracles::Tensor& output, std::size_t vector, double limit) const {
  const std::size_t width = width_of(wanted_);
  for (std::size_t i = vector * width; i < (vector + 1) * width; ++i) {
    if (!(std::abs(found_.data[i] - output.data[i]) <= limit)) return false;
  }
  return true;
}

bool Explanation::all_same(const oracles::Tensor& output, double limit) const {
  return std::all_of(wrong_.begin(), wrong_.end(), [&](std::size_t vector) {
    return same(output, vector, limit);
  });
}

void Explanation::consider(Law law, const oracles::Tensor& output) {
  if (wrong_.empty() || output.data.size() != wanted_.data.size()) return;
  const double limit = relative_limit_ * std::max(finite_scale(output), scale_);
  if (!all_same(output, limit)) return;
  const std::size_t would_be = wrong_vectors(output, wanted_, limit).size();
  law.share =
      static_cast<double>(wrong_.size()) / static_cast<double>(std::max(would_be, wrong_.size()));
  laws_.push_back(std::move(law));
}

void Explanation::consider_factor() {
  const std::size_t width = width_of(wanted_);
  double most = 0.0;
  double factor = 1.0;
  for (const std::size_t vector : wrong_) {
    for (std::size_t i = vector * width; i < (vector + 1) * width; ++i) {
      if (!(std::abs(wanted_.data[i]) > most)) continue;
      most = std::abs(wanted_.data[i]);
      factor = found_.data[i] / wanted_.data[i];
    }
  }
  // A factor that a single element would fit says nothing.
  if (wrong_.size() * width < 4 || !std::isfinite(factor) || most == 0.0) return;
  oracles::Tensor scaled = wanted_;
  for (double& value : scaled.data) value *= factor;
  const std::string text = nsa::to_text(factor, 4);
  consider({"factor " + text, "NUMERIC.FORWARD", "it is " + text + " times what it should be"},
           scaled);
}

void Explanation::consider_bfloat16() {
  const std::size_t width = width_of(wanted_);
  const double limit = relative_limit_ * scale_;
  for (const std::size_t vector : wrong_) {
    for (std::size_t i = vector * width; i < (vector + 1) * width; ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(found_.data[i]));
      const double error = std::abs(found_.data[i] - wanted_.data[i]);
      const bool kept = (bits & 0xFFFFU) == 0U && std::abs(found_.data[i]) > 0.0;
      if (!kept || !(error <= limit + 0x1p-8 * std::abs(wanted_.data[i]))) return;
    }
  }
  laws_.push_back({"rounded_to_bfloat16",
                   "NUMERIC.FORWARD",
                   "every wrong value is the right one rounded to bfloat16",
                   "",
                   "",
                   1.0});
}

std::optional<std::int64_t> Explanation::source_of(std::int64_t lane,
                                                   std::int64_t lanes,
                                                   const std::vector<std::size_t>& wrong) const {
  const std::size_t width = width_of(wanted_);
  const auto rows = static_cast<std::size_t>(wanted_.shape[wanted_.shape.size() - 2]);
  const double limit = relative_limit_ * scale_;
  for (std::int64_t other = 0; other < lanes; ++other) {
    if (other == lane) continue;
    const bool all = std::all_of(wrong.begin(), wrong.end(), [&](std::size_t vector) {
      const auto shift = (other - lane) * static_cast<std::int64_t>(rows);
      const auto from = static_cast<std::size_t>(static_cast<std::int64_t>(vector) + shift) * width;
      for (std::size_t i = 0; i < width; ++i) {
        if (!(std::abs(found_.data[vector * width + i] - wanted_.data[from + i]) <= limit)) {
          return false;
        }
      }
      return true;
    });
    if (all) return other;
  }
  return std::nullopt;
}

void Explanation::consider_lanes(std::int64_t lanes, const std::string& noun) {
  const auto rows = static_cast<std::size_t>(wanted_.shape[wanted_.shape.size() - 2]);
  std::map<std::int64_t, std::vector<std::size_t>> of_lane;
  for (const std::size_t vector : wrong_) {
    of_lane[static_cast<std::int64_t>(vector / rows) % lanes].push_back(vector);
  }
  std::vector<std::string> moves;
  for (const auto& [lane, wrong] : of_lane) {
    const auto source = source_of(lane, lanes, wrong);
    if (!source) return;
    moves.push_back(noun + " " + std::to_string(lane) + " holds " + noun + " " +
                    std::to_string(*source));
  }
  if (moves.empty()) return;
  constexpr std::size_t kMostNamed = 4;
  const std::size_t all = moves.size();
  if (all > kMostNamed) moves.resize(kMostNamed);
  laws_.push_back({noun + "s_permuted",
                   "NUMERIC.FORWARD",
                   nsa::join(moves, ", ") + (all > kMostNamed ? ", ..." : ""),
                   "",
                   "",
                   1.0});
}

std::optional<Law> Explanation::law() const {
  std::set<std::string> codes;
  for (const Law& law : laws_) codes.insert(law.code);
  if (codes.size() != 1) return std::nullopt;
  return *std::max_element(
      laws_.begin(), laws_.end(), [](const Law& a, const Law& b) { return a.share < b.share; });
}

std::string code_of_key_law(std::string_view law) {
  using Entry = std::pair<std::string_view, const char*>;
  constexpr std::array kCodes = {
      Entry{"top_left", "MASK.ALIGNMENT"},
      Entry{"inverted", "MASK.POLARITY"},
      Entry{"inverted_past", "MASK.POLARITY"},
      Entry{"inverted_slice", "MASK.POLARITY"},
      Entry{"no_mask", "MASK.ABSENT"},
      Entry{"every_key", "MASK.ABSENT"},
      Entry{"every_past_key", "MASK.ABSENT"},
  };
  for (const auto& [name, code] : kCodes) {
    if (name == law) return code;
  }
  return "NUMERIC.FORWARD";
}

}  // namespace harness::checks
