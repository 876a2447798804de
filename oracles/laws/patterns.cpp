// Patterns that need no inputs of the stage; those with a free number or order are fitted to what was recorded.
#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "oracles/laws/match.h"
#include "oracles/numbers.h"

namespace oracles {
namespace {

std::string number_text(double value) {
  std::array<char, 32> text{};
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::general, 4);
  return {text.data(), end.ptr};
}

constexpr Law kFactor{"factor", "it is a constant factor times what it should be", /*fitted=*/true};
constexpr Law kBFloat16{"rounded_to_bfloat16",
                        "every wrong number is the right one rounded to bfloat16"};
constexpr Law kPermuted{
    "heads_permuted", "heads hold what belongs to other heads", /*fitted=*/true};

constexpr double kUnitRoundoff = 0x1p-8;  // of bfloat16

bool is_bfloat16(double value) {
  return (std::bit_cast<std::uint32_t>(static_cast<float>(value)) & 0xFFFFU) == 0U;
}

class Patterns {
 public:
  Patterns(const Tensor& found,
           const Tensor& wanted,
           const std::vector<std::size_t>& wrong,
           std::int64_t lanes,
           const Allowed& allowed)
      : found_(found),
        wanted_(wanted),
        wrong_(wrong),
        lanes_(lanes),
        allowed_(allowed),
        width_(static_cast<std::size_t>(wanted.shape.back())) {}

  // found = factor * wanted.
  [[nodiscard]] std::optional<LawFit> factor() const {
    double most = 0;
    double factor = 1;
    for_each_number([&](std::size_t i) {
      if (std::abs(wanted_.data[i]) > most) {
        most = std::abs(wanted_.data[i]);
        factor = found_.data[i] / wanted_.data[i];
      }
      return true;
    });
    // A factor that a single number would fit says nothing.
    if (wrong_.size() * width_ < 4 || !std::isfinite(factor) || most == 0) {
      return std::nullopt;
    }
    const double limit =
        allowed_.relative * std::max({allowed_.scale, most, std::abs(factor) * most});
    const bool fits = for_each_number([&](std::size_t i) {
      return std::abs(found_.data[i] - factor * wanted_.data[i]) <= limit;
    });
    if (!fits) {
      return std::nullopt;
    }
    Tensor output = wanted_;
    for (double& value : output.data) {
      value *= factor;
    }
    return LawFit{kFactor, {}, share_of(output), number_text(factor) + " times", factor};
  }

  // found = wanted, rounded to bfloat16. Nothing to see in a type that is no wider.
  [[nodiscard]] std::optional<LawFit> bfloat16() const {
    if (!(allowed_.unit_roundoff < kUnitRoundoff)) {
      return std::nullopt;
    }
    const double limit = allowed_.of(wanted_);
    const bool fits = for_each_number([&](std::size_t i) {
      const bool is_narrow = is_bfloat16(found_.data[i]) && std::abs(found_.data[i]) > 0;
      const double error = std::abs(found_.data[i] - wanted_.data[i]);
      return is_narrow && error <= limit + kUnitRoundoff * std::abs(wanted_.data[i]);
    });
    if (!fits) {
      return std::nullopt;
    }
    Tensor output = wanted_;
    for (double& value : output.data) {
      value = rounded(value, Number::bf16);
    }
    return LawFit{kBFloat16, {}, share_of(output), {}};
  }

  // Vector (lane, row) is that of another lane, the same other one in all wrong rows.
  [[nodiscard]] std::optional<LawFit> permuted() const {
    const auto rows = static_cast<std::size_t>(wanted_.shape[wanted_.shape.size() - 2]);
    std::map<std::int64_t, std::vector<std::size_t>> of_lane;
    for (const std::size_t vector : wrong_) {
      of_lane[static_cast<std::int64_t>(vector / rows) % lanes_].push_back(vector);
    }
    constexpr std::size_t kMostNamed = 4;
    std::string moves;
    std::size_t named = 0;
    Tensor output = wanted_;
    for (const auto& [lane, wrong] : of_lane) {
      const auto source = source_of(lane, rows, wrong);
      if (!source) {
        return std::nullopt;
      }
      move(*source, lane, output);
      if (++named > kMostNamed) {
        continue;
      }
      moves +=
          (moves.empty() ? "" : ", ") + std::to_string(lane) + " holds " + std::to_string(*source);
    }
    moves += named > kMostNamed ? ", ..." : "";
    return LawFit{kPermuted, {}, share_of(output), moves};
  }

 private:
  // Lane `to` of `output` becomes lane `from` of what is right, in every sequence.
  void move(std::int64_t from, std::int64_t to, Tensor& output) const {
    const std::int64_t size =
        wanted_.shape[wanted_.shape.size() - 2] * static_cast<std::int64_t>(width_);
    for (std::int64_t lane = to * size; lane < static_cast<std::int64_t>(output.data.size());
         lane += lanes_ * size) {
      std::copy_n(
          wanted_.data.begin() + lane + (from - to) * size, size, output.data.begin() + lane);
    }
  }

  // Of the vectors that a pattern would make wrong, in the lanes that are wrong anywhere, those that are.
  [[nodiscard]] double share_of(const Tensor& output) const {
    const auto rows = wanted_.shape.size() < 2
                          ? std::size_t{1}
                          : static_cast<std::size_t>(wanted_.shape[wanted_.shape.size() - 2]);
    const std::size_t lanes = static_cast<std::size_t>(std::max<std::int64_t>(1, lanes_));
    std::set<std::size_t> wrong_lanes;
    for (const std::size_t vector : wrong_) {
      wrong_lanes.insert(vector / rows % lanes);
    }
    std::size_t refuted = 0;
    const auto all = refuting_vectors(found_, wanted_, output, allowed_);
    std::vector<std::size_t> right;
    std::set_difference(
        all.begin(), all.end(), wrong_.begin(), wrong_.end(), std::back_inserter(right));
    for (const std::size_t vector : right) {
      refuted += wrong_lanes.count(vector / rows % lanes);
    }
    return static_cast<double>(wrong_.size()) / static_cast<double>(wrong_.size() + refuted);
  }

  // Calls visit(i) for the numbers of all wrong vectors until it says no; did it never?
  template <typename Visit>
  bool for_each_number(Visit visit) const {
    return std::all_of(wrong_.begin(), wrong_.end(), [&](std::size_t vector) {
      for (std::size_t i = vector * width_; i < (vector + 1) * width_; ++i) {
        if (!visit(i)) {
          return false;
        }
      }
      return true;
    });
  }

  [[nodiscard]] std::optional<std::int64_t> source_of(std::int64_t lane,
                                                      std::size_t rows,
                                                      const std::vector<std::size_t>& wrong) const {
    const double limit = allowed_.of(wanted_);
    for (std::int64_t other = 0; other < lanes_; ++other) {
      const bool all = std::all_of(wrong.begin(), wrong.end(), [&](std::size_t vector) {
        const std::int64_t shift = (other - lane) * static_cast<std::int64_t>(rows);
        const auto from = static_cast<std::size_t>(static_cast<std::int64_t>(vector) + shift);
        for (std::size_t i = 0; i < width_; ++i) {
          const double difference =
              found_.data[vector * width_ + i] - wanted_.data[from * width_ + i];
          if (!(std::abs(difference) <= limit)) {
            return false;
          }
        }
        return true;
      });
      if (other != lane && all) {
        return other;
      }
    }
    return std::nullopt;
  }

  const Tensor& found_;
  const Tensor& wanted_;
  const std::vector<std::size_t>& wrong_;
  std::int64_t lanes_;  // heads or groups of a sequence, 0 where there are none
  const Allowed& allowed_;
  std::size_t width_;
};

}  // namespace

std::vector<LawFit> fitted_patterns(const Tensor& found,
                                    const Tensor& wanted,
                                    const std::vector<std::size_t>& wrong,
                                    std::int64_t lanes,
                                    const Allowed& allowed) {
  const Patterns patterns(found, wanted, wrong, lanes, allowed);
  std::vector<LawFit> fits;
  for (const auto& fit :
       {patterns.factor(), patterns.bfloat16(), lanes > 1 ? patterns.permuted() : std::nullopt}) {
    if (fit) {
      fits.push_back(*fit);
    }
  }
  return fits;
}

bool is_pattern(std::string_view name) {
  return name == kFactor.name || name == kBFloat16.name || name == kPermuted.name;
}

// Heads that are right are in their own order: another order shows wherever there are heads.
bool refutes_pattern(std::string_view name,
                     double number,
                     const Tensor& found,
                     const Tensor& wanted,
                     const Allowed& allowed) {
  if (name == kBFloat16.name) {
    return !std::all_of(found.data.begin(), found.data.end(), is_bfloat16);
  }
  const double most = finite_scale(wanted);
  return name == kFactor.name ? std::abs(number - 1) * most > 2 * allowed.of(wanted) : most > 0;
}

}  // namespace oracles
