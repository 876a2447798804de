// Do ranks that are given the same inputs choose the same blocks? From the decision ledger: hashes of the scores and of the lists
// of blocks, layer by layer. A layer whose scores are not the same on all ranks is not compared: what differs there came before it.
#include <tuple>

#include "harness/checks/agreement.h"
#include "harness/checks/departures.h"
#include "harness/checks/list.h"
#include "harness/checks/result.h"

namespace harness::checks {
namespace {

using DecisionKey = std::tuple<std::int64_t, int, int>;  // step, layer, rank

class Decisions {
 public:
  explicit Decisions(const Evidence& evidence) : evidence_(evidence) {
    for (const auto& row : evidence.block_choices) {
      const int rank = row.process == kTwin ? row.row.of_rank : row.process;
      const DecisionKey key{row.row.step, row.row.layer, rank};
      if (row.process == kTwin) twin_.put(key, row);
      if (row.process >= 0) ranks_.put(key, row);
    }
  }

  CheckResult judge() {
    const Scenario& scenario = evidence_.the_case.scenario;
    if (!scenario.training.data.replicated || evidence_.ranks() < 2) {
      return inconclusive("ranks have inputs of their own (training.data.replicated: false)");
    }
    if (ranks_.all().empty()) return inconclusive("no decision was recorded");
    for (std::int64_t step = 1; step <= scenario.training.steps; ++step) {
      for (int layer = 0; layer < static_cast<int>(scenario.model.n_layers); ++layer) {
        judge_layer(step, layer);
      }
    }
    for (auto& [layer, apart] : apart_) {
      if (const std::int64_t steps = steps_apart_[layer]; steps > 1) {
        apart.site.detail["steps"] = steps;
      }
      result_.found(apart);
    }
    if (compared_ == 0) result_.missing("a layer with the same scores on all ranks");
    return result_.finish(summary());
  }

 private:
  void judge_layer(std::int64_t step, int layer) {
    std::map<int, Held> scores;
    std::map<int, Held> blocks;
    for (const int rank : all_ranks(evidence_)) {
      const BlockChoice* row = ranks_.find({step, layer, rank});
      if (row == nullptr || row->blocks.empty() || row->scores.empty()) {
        result_.missing("decisions of " + process_name(rank) + ", step " + std::to_string(step) +
                            ended_early(evidence_, rank),
                        site_of_rank(rank));
        return;
      }
      scores[rank] = Held::hash(row->scores);
      blocks[rank] = Held::hash(row->blocks);
    }
    if (agree(scores).said != Said::equal) {
      ++other_scores_;
      return;
    }
    ++compared_;
    const Agreement<int> agreed = agree(blocks);
    if (agreed.said == Said::equal) return;
    if (steps_apart_[layer]++ > 0) return;  // the first step gives the place
    Departure& apart = apart_.try_emplace(layer, "DESYNC.SELECTION", "picks").first->second;
    apart.site.layers = {layer};
    apart.site.op = "select";
    apart.site.phase = "forward";
    apart.site.step = step;
    apart.site.ranks = odd_ones(step, layer, blocks, agreed.odd);
  }

  // The twin chose from the same scores, on its own.
  [[nodiscard]] std::vector<int> odd_ones(std::int64_t step,
                                          int layer,
                                          const std::map<int, Held>& blocks,
                                          const std::vector<int>& by_majority) const {
    std::vector<int> odd;
    for (const auto& [rank, hash] : blocks) {
      const BlockChoice* own = ranks_.find({step, layer, rank});
      const BlockChoice* twin = twin_.find({step, layer, rank});
      if (twin == nullptr || twin->scores != own->scores) return by_majority;
      if (twin->blocks != hash.bits) odd.push_back(rank);
    }
    return odd;
  }

  [[nodiscard]] std::string summary() const {
    std::string text = "the blocks of " + counted(compared_, "layer and step") +
                       " are the same on " + ranks_text(all_ranks(evidence_));
    if (other_scores_ > 0) {
      text += "; " + std::to_string(other_scores_) + " were not compared: their scores differ";
    }
    return text;
  }

  const Evidence& evidence_;
  Latest<DecisionKey, BlockChoice> ranks_;
  Latest<DecisionKey, BlockChoice> twin_;
  ResultBuilder result_;
  std::map<int, Departure> apart_;  // by layer
  std::map<int, std::int64_t> steps_apart_;
  std::int64_t compared_ = 0;
  std::int64_t other_scores_ = 0;
};

}  // namespace

Check decisions_agree() {
  return {"decisions_agree",
          "ranks that are given the same inputs choose the same blocks",
          {"DESYNC.SELECTION"},
          [](const Evidence& evidence) { return Decisions(evidence).judge(); }};
}

}  // namespace harness::checks
