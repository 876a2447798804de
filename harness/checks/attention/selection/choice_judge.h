// Judges the choice of blocks of one recorded layer, in all rows: are these lists of blocks; are
// the scores what the recorded queries and compressed keys give; is the choice what the recorded
// scores demand. What rounding of the scores explains is a tie, never a failure.
#pragma once

#include <string>
#include <vector>

#include "harness/checks/attention/accuracy/layer_departure.h"
#include "harness/checks/attention/record/layer_record.h"

namespace harness::checks {

// Rows in which the oracle's scores choose other blocks than the recorded ones, within the bound on their error.
struct Ties {
  std::int64_t rows = 0;  // (batch, group, row)
  double gap = 0.0;       // of the tie that is hardest to explain
  double bound = 0.0;

  void take(const Ties& more);
};

struct ChoiceJudgement {
  std::vector<Departure> departures;
  std::vector<std::string> missing;
  std::int64_t rows = 0;              // (batch, group, row) whose choice was judged
  Ties ties;                          // of them
  double worst_share_of_bound = 0.0;  // of the scores' errors
};

// Block scores are computed and stored in float32 where other results are narrower.
[[nodiscard]] oracles::Arithmetic arithmetic_of_scores(const LayerRecord& record);

[[nodiscard]] ChoiceJudgement judge_choice(const LayerRecord& record);

}  // namespace harness::checks
