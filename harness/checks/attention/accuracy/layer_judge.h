// Judges one recorded attention layer against the float64 oracle: every stage of the forward, and
// the gradients. A stage is judged from the recorded inputs of that stage, so that what is wrong
// downstream of a wrong stage is not blamed for it. The oracle replays the blocks that were chosen:
// values and choice are judged apart (the choice in choice_judge.h).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/checks/attention/accuracy/layer_departure.h"
#include "harness/checks/attention/record/layer_record.h"
#include "oracles/laws/match.h"

namespace harness::checks {

struct ErrorOfTensor {
  double value = 0.0;  // relative error
  double limit = 0.0;
};

// A tensor that was compared with the oracle's, for those who judge several layers together.
struct ComparedTensor {
  oracles::Allowed allowed;
  std::vector<std::size_t> wrong;  // its vectors, ascending
  oracles::Shape shape;
  // The number of the wrong vector with the lowest row that is furthest off, and where in the tensor it is.
  std::size_t at = 0;
  double found = 0.0;
  double wanted = 0.0;
};
[[nodiscard]] ComparedTensor compared(const oracles::Tensor& found,
                                      const oracles::Tensor& wanted,
                                      const oracles::Allowed& allowed,
                                      std::vector<std::size_t> wrong);

struct LayerJudgement {
  std::vector<Departure> departures;
  std::vector<DepartedTensor> departed;
  std::map<std::string, ErrorOfTensor> errors;  // by tensor
  std::map<std::string, ComparedTensor> compared;
  std::vector<std::int64_t> positions;  // of the rows of tensors that belong to queries
  std::vector<std::string> missing;     // what could not be judged
  std::int64_t rows = 0;                // of the sequence: judged
  std::int64_t rows_in_all = 0;
  std::int64_t rows_without_list = 0;  // whose selected branch has no defined output
};

[[nodiscard]] LayerJudgement judge_layer(const LayerRecord& record, const nsa::ModelConfig& model);

// Says in `result` which tensors of the layer's file do not follow from the others.
void take_departed(const LayerJudgement& judged,
                   const Evidence& evidence,
                   const LayerPlace& at,
                   ResultBuilder& result);

}  // namespace harness::checks
