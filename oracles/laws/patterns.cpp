// Patterns that need no inputs of the stage; those with a free number or order are fitted to what was recorded.
#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <string>

#include "oracles/laws/match.h"

namespace oracles {
namespace {

std::string number_text(double value) {
  std::array<char, 32> text{};
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::general, 4);
  return {text.data(), end.ptr};
}

class Patterns {
 public:
  Patterns(const Tensor& found,
           const Tensor& wanted,
           const std::vector<std::size_t>& wrong,
           const Allowed& allowed)
      : found_(found),
        wanted_(wanted),
        wrong_(wrong),
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
    return LawFit{{"factor", "it is a constant factor times what it should be", /*fitted=*/true},
                  {},
                  1,
                  number_text(factor) + " times"};
  }

  // found = wanted, rounded to bfloat16. Nothing to see in a type that is no wider.
  [[nodiscard]] std::optional<LawFit> bfloat16() const {
    constexpr double kUnitRoundoff = 0x1p-8;
    if (!(allowed_.unit_roundoff < kUnitRoundoff)) {
      return std::nullopt;
    }
    const double limit = allowed_.of(wanted_);
    const bool fits = for_each_number([&](std::size_t i) {
      const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(found_.data[i]));
      const bool is_narrow = (bits & 0xFFFFU) == 0U && std::abs(found_.data[i]) > 0;
      const double error = std::abs(found_.data[i] - wanted_.data[i]);
      return is_narrow && error <= limit + kUnitRoundoff * std::abs(wanted_.data[i]);
    });
    if (!fits) {
      return std::nullopt;
    }
    return LawFit{
        {"rounded_to_bfloat16", "every wrong number is the right one rounded to bfloat16"},
        {},
        1,
        {}};
  }

  // Vector (lane, row) is that of another lane, the same other one in all wrong rows.
  [[nodiscard]] std::optional<LawFit> permuted(std::int64_t lanes) const {
    const auto rows = static_cast<std::size_t>(wanted_.shape[wanted_.shape.size() - 2]);
    std::map<std::int64_t, std::vector<std::size_t>> of_lane;
    for (const std::size_t vector : wrong_) {
      of_lane[static_cast<std::int64_t>(vector / rows) % lanes].push_back(vector);
    }
    constexpr std::size_t kMostNamed = 4;
    std::string moves;
    std::size_t named = 0;
    for (const auto& [lane, wrong] : of_lane) {
      const auto source = source_of(lane, lanes, rows, wrong);
      if (!source) {
        return std::nullopt;
      }
      if (++named > kMostNamed) {
        continue;
      }
      moves +=
          (moves.empty() ? "" : ", ") + std::to_string(lane) + " holds " + std::to_string(*source);
    }
    moves += named > kMostNamed ? ", ..." : "";
    return LawFit{{"heads_permuted", "heads hold what belongs to other heads", /*fitted=*/true},
                  {},
                  1,
                  moves};
  }

 private:
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
                                                      std::int64_t lanes,
                                                      std::size_t rows,
                                                      const std::vector<std::size_t>& wrong) const {
    const double limit = allowed_.of(wanted_);
    for (std::int64_t other = 0; other < lanes; ++other) {
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
  const Allowed& allowed_;
  std::size_t width_;
};

}  // namespace

std::vector<LawFit> fitted_patterns(const Tensor& found,
                                    const Tensor& wanted,
                                    const std::vector<std::size_t>& wrong,
                                    std::int64_t lanes,
                                    const Allowed& allowed) {
  const Patterns patterns(found, wanted, wrong, allowed);
  std::vector<LawFit> fits;
  for (const auto& fit : {patterns.factor(),
                          patterns.bfloat16(),
                          lanes > 1 ? patterns.permuted(lanes) : std::nullopt}) {
    if (fit) {
      fits.push_back(*fit);
    }
  }
  return fits;
}

}  // namespace oracles
