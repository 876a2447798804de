// The rules behind data_laws.h. Internal to the oracle.
#pragma once

#include <vector>

#include "oracles/expected.h"
#include "oracles/training/data.h"

namespace oracles {

// A batch of a run.
struct BatchFacts {
  const DataConfig& config;
  BatchPlace place;
  Text text;
};
using DataRule = WrongLaw<BatchFacts>;

// They give the tokens [R,S].
const std::vector<DataRule>& data_rules();

Expected exact(const IntTensor& tokens);

}  // namespace oracles
