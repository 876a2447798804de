// The rules behind data_laws.h. Internal to the oracle.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "oracles/naming.h"
#include "oracles/training/data.h"

namespace oracles {

struct DataRule {
  Law law;
  // The number of the sequence in a row. Steps before the first have numbers that wrap around.
  std::function<std::uint64_t(const DataConfig&, BatchPlace, std::int64_t row)> number = {};
  // Another config; none where the law has no meaning.
  std::function<std::optional<DataConfig>(DataConfig, const BatchPlace&, Text)> config = {};
  // Where the window of a number begins, for texts only.
  std::function<std::int64_t(const DataConfig&, Text, std::uint64_t)> begin = {};
  std::int64_t shift = 0;  // of every sequence, in tokens
};

const std::vector<DataRule>& data_rules();

// The batch [R,S]; none where the rule has no meaning.
std::optional<IntTensor> batch_of_rule(const DataRule& rule,
                                       const DataConfig& config,
                                       const BatchPlace& place,
                                       Text text);

}  // namespace oracles
