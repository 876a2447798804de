#include "harness/checks/gradients/recompute_record.h"

#include <tuple>

namespace harness::checks {
namespace {

// A recomputation that went another way (other weights, another block) may not have been seen choosing: what is not known is
// no difference.
bool differ(const std::string& forward, const std::string& again) {
  return !again.empty() && forward != again;
}

void add(const Recompute& row, int rank, LayerAgain& layer) {
  layer.rows += row.rows;
  if (differ(row.dtype_forward, row.dtype_recompute)) {
    layer.other_dtype = true;
    layer.dtypes.insert(row.dtype_forward + " forward, " + row.dtype_recompute + " again");
  } else if (row.output_equal) {
    return;  // blocks that give the same output bit by bit are the same choice
  } else if (!row.queries_equal) {
    layer.other_output = true;  // other inputs or weights: of course it then chooses other blocks
  } else if (row.rows_differing > 0 || differ(row.blocks_forward, row.blocks_recompute)) {
    layer.other_blocks = true;
    layer.rows_differing += row.rows_differing;
    layer.queries.insert(row.queries.begin(), row.queries.end());
  } else {
    layer.other_output = true;
  }
  layer.ranks.insert(rank);
}

}  // namespace

std::map<int, LayerAgain> recomputed(const Evidence& evidence,
                                     std::int64_t step,
                                     ResultBuilder& result) {
  using Key = std::tuple<int, int, std::int64_t>;  // layer, rank, micro-batch
  Latest<Key, Recompute> rows;
  for (const auto& row : evidence.recomputes) {
    if (row.process < 0 || row.row.step != step) continue;
    rows.put({row.row.layer, row.process, row.row.micro}, row);
  }
  const Scenario& scenario = evidence.the_case.scenario;
  std::map<int, LayerAgain> layers;
  for (const int layer : scenario.parallel.checkpoint_layers) {
    for (const int rank : all_ranks(evidence)) {
      for (std::int64_t micro = 0; micro < scenario.training.accumulate; ++micro) {
        const Recompute* row = rows.find({layer, rank, micro});
        const bool whole = row != nullptr && !row->dtype_forward.empty() &&
                           !row->dtype_recompute.empty() && !row->blocks_forward.empty();
        if (whole) add(*row, rank, layers[layer]);
        if (whole) continue;
        result.missing("what " + process_name(rank) + " computed again of layer " +
                       std::to_string(layer) + ", step " + std::to_string(step) +
                       ended_early(evidence, rank));
      }
    }
  }
  std::erase_if(layers, [](const auto& entry) { return entry.second.ranks.empty(); });
  return layers;
}

}  // namespace harness::checks
