// The classes of tensors that a rank with the two lines takes a digest of in every step (StepDigest).
#pragma once

#include <array>
#include <string>

#include "harness/evidence/rows.h"

namespace harness {

struct TensorClass {
  const char* name;                 // of TensorDigest::of, and in the file of the last steps
  const char* in_words;             // "frozen parameters"
  char letter;                      // in StepDigest::not_finite
  std::string StepDigest::*digest;  // null: of gradients there is one for each reduction
  std::string StepDigest::*piece = &StepDigest::piece;  // ranks with the same one hold the same
};

inline constexpr TensorClass kGradientClass{"gradients", "reduced gradients", 'g', nullptr};
inline constexpr TensorClass kParameterClass{
    "parameters", "parameters", 'p', &StepDigest::parameters};
inline constexpr TensorClass kFrozenClass{"frozen", "frozen parameters", 'f', &StepDigest::frozen};
inline constexpr TensorClass kBufferClass{"buffers", "buffers", 'b', &StepDigest::buffers};
inline constexpr TensorClass kStateClass{
    "states", "optimiser states", 's', &StepDigest::states, &StepDigest::states_of};
inline constexpr std::array kTensorClasses = {
    kGradientClass, kParameterClass, kFrozenClass, kBufferClass, kStateClass};

// "" where the class is empty or was not read.
[[nodiscard]] std::string digest_of(const StepDigest& digest, const TensorClass& of);

}  // namespace harness
