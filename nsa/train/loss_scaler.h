// Dynamic loss scaling for float16, whose smallest number is 6e-8: the loss is multiplied by a power of two before the backward
// pass. It halves when a gradient overflows, and doubles after many steps without (Micikevicius et al., arXiv 1710.03740,
// section 3.2). Initial scale and intervals are those of torch's GradScaler.
#pragma once

#include <cstdint>

namespace nsa {

class LossScaler {
 public:
  static constexpr double kInitialScale = 65536.0;
  static constexpr double kSmallestScale = 1.0;
  static constexpr double kLargestScale = 0x1p60;        // far above any use, far below infinity
  static constexpr std::int64_t kGrowthInterval = 2000;  // steps without overflow

  [[nodiscard]] double scale() const { return scale_; }
  [[nodiscard]] std::int64_t skipped() const { return skipped_; }

  // What a snapshot keeps.
  struct State {
    double scale = kInitialScale;
    std::int64_t good_steps = 0;
    std::int64_t skipped = 0;
  };
  [[nodiscard]] State state() const { return {scale_, good_steps_, skipped_}; }
  void load(const State& state) {
    scale_ = state.scale;
    good_steps_ = state.good_steps;
    skipped_ = state.skipped;
  }

  // After the gradients of a step were looked at. Returns whether the step may be taken.
  bool update(bool finite) {
    if (!finite) {
      scale_ = scale_ / 2.0 > kSmallestScale ? scale_ / 2.0 : kSmallestScale;
      good_steps_ = 0;
      ++skipped_;
      return false;
    }
    if (++good_steps_ == kGrowthInterval) {
      scale_ = scale_ * 2.0 < kLargestScale ? scale_ * 2.0 : kLargestScale;
      good_steps_ = 0;
    }
    return true;
  }

 private:
  double scale_ = kInitialScale;
  std::int64_t good_steps_ = 0;
  std::int64_t skipped_ = 0;
};

}  // namespace nsa
