// The mistakes of initial values, told one by one. Internal to initial_values.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "oracles/training/distribution.h"

namespace oracles {

// One tensor, or the tensors of one kind together.
struct InitialSample {
  std::string name;
  Shape shape;  // of one tensor
  InitialLaw law;
  Number number = Number::f32;
  Moments moments;
  std::vector<double> some;  // of its numbers, spread evenly
};

// What is wrong with numbers that the law cannot have given, or with a constant that is another.
InitialWrong told(const InitialSample& sample, double alarm);

// Rows and tensors that are too much alike, one for each tensor that is the later of two.
std::vector<InitialWrong> repeated(std::span<const InitialRecord> records,
                                   const std::vector<InitialLaw>& laws);

}  // namespace oracles
