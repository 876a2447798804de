// Judges one call of a foreign kernel of level `attention`: compression by averages, scores, choice, the three
// branches and their gated sum, from queries, keys, values and gates. Only its output is seen. Where one branch alone
// is gated the output is that branch's and judged as such; else it is the layer's.
//
// The choice of blocks cannot be seen. A query is judged where it is certain: where the oracle's scores choose the
// same whatever rounding does to scores and compressed keys; or where the lists were given. Gradients are judged
// where all queries are that a gradient comes in at.
#pragma once

#include "harness/checks/kernel/kernel_judge.h"
#include "harness/scenario/scenario.h"
#include "nsa/base/safetensors.h"

namespace harness::checks {

struct AttentionJudgement {
  LayerJudgement judged;
  std::int64_t rows = 0;        // whose choice is certain, of
  std::int64_t rows_asked = 0;  // those that the trial has judged
  bool of_gradients = false;    // they were judged
};

// `alone`: the branch that is gated alone, "" for all. Throws: nsa::Error where a tensor is missing, or has not the
// shape that the case demands.
[[nodiscard]] AttentionJudgement judge_kernel_attention(const Scenario& scenario,
                                                        const nsa::SafetensorsFile& inputs,
                                                        const nsa::SafetensorsFile& outputs,
                                                        const std::string& alone);

// Vectors that refute a law of "y" or of one branch's output, as in kernel_judge.h. Of a branch that is not gated here it says
// nothing; where all are gated it is what their sum would be.
[[nodiscard]] std::vector<std::size_t> refuting(const Scenario& scenario,
                                                const nsa::SafetensorsFile& inputs,
                                                const nsa::SafetensorsFile& outputs,
                                                const std::string& alone,
                                                const AskedLaw& asked);

}  // namespace harness::checks
