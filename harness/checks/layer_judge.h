// Judges one recorded attention layer against the float64 oracle: every stage of the forward, the choice of blocks, the
// gradients. The oracle replays the blocks that were chosen, so that values and choice are judged apart (SPEC 8).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/checks/law_match.h"
#include "harness/checks/layer_record.h"

namespace harness::checks {

struct Deviation {  // one way in which a layer is wrong
  std::string code;
  std::string branch;
  std::string op;
  std::string param;
  std::string law;                   // the law that reproduces it, "" for none
  std::vector<std::string> tensors;  // that exceed their ceiling, the first one first
  std::vector<int> rows;
  std::vector<int> heads;  // when not all are wrong
  std::vector<int> groups;
  std::int64_t row_count = 0;  // (batch, group, row) triples
  std::int64_t rows_in_all = 0;
  double share = 0.0;  // of the rows that would be wrong under the law
  double error = 0.0;  // relative
  double limit = 0.0;
  [[nodiscard]] bool is_forward() const { return code != "NUMERIC.GRADIENT"; }
};

struct ErrorOfTensor {
  double value = 0.0;  // relative error
  double limit = 0.0;
};

struct LayerJudgement {
  std::vector<Deviation> deviations;
  std::map<std::string, ErrorOfTensor> errors;  // by tensor
  std::vector<std::string> missing;             // what could not be judged
  std::int64_t rows = 0;
  std::int64_t ties = 0;  // rows whose choice only rounding explains
  double tie_gap = 0.0;   // of the tie that is hardest to explain
  double tie_bound = 0.0;
};

// `with_gradients`: backward too, which costs about twice the forward.
[[nodiscard]] LayerJudgement judge_layer(const LayerRecord& record,
                                         const nsa::ModelConfig& model,
                                         bool with_gradients);

}  // namespace harness::checks
