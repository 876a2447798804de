// Which sequences of a batch are wrong, where others of the same call are right: a mistake that goes from one to another, or
// begins where one ends.
#pragma once

#include "harness/checks/attention/accuracy/layer_judge.h"

namespace harness::checks {

// The sequences that hold a number further from `wanted` than `most`. REQUIRES: both have the batch as their first axis.
[[nodiscard]] std::set<int> sequences_apart(const oracles::Tensor& found,
                                            const oracles::Tensor& wanted,
                                            double most);

// Puts them into the departure: none where all of the batch are wrong.
void put_sequences(const std::set<int>& wrong, std::int64_t batch, Departure& seen);

// The same of every departure of the forward, from the tensors that departed.
void put_sequences(const LayerRecord& record, LayerJudgement& judged);

}  // namespace harness::checks
