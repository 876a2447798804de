#include "harness/checks/step/step_order.h"

#include <algorithm>

#include "harness/checks/step/part_judge.h"
#include "nsa/base/text.h"
#include "oracles/model/stream_stage.h"

namespace harness::checks {
namespace {

constexpr oracles::Law kOtherOrder{"blocks_in_other_order", "the blocks ran in another order"};

bool is_of_stream(const Departure& departure) {
  return departure.code == "NUMERIC.FORWARD" &&
         (departure.site.op == "embed" || departure.site.op == "residual");
}

// Follows the stream from the embedding to the head.
class BlockOrder {
 public:
  BlockOrder(const RecordedModel& model, const oracles::IntTensor& tokens)
      : model_(model), tokens_(tokens) {
    left_ = model.order;
  }

  // All blocks in the order in which they ran; empty where the record does not tell it.
  std::vector<int> find() {
    std::vector<int> order;
    oracles::Expected stream = expected_embedding(embedding_inputs(model_, tokens_));
    while (!left_.empty()) {
      const auto next = std::find_if(left_.begin(), left_.end(), [&](int layer) {
        return is_what_enters(*model_.blocks[static_cast<std::size_t>(layer)], stream);
      });
      if (next == left_.end()) return {};
      stream = left_by(*model_.blocks[static_cast<std::size_t>(*next)]);
      order.push_back(*next);
      left_.erase(next);
    }
    return is_what_enters(*model_.head, stream) ? order : std::vector<int>{};
  }

 private:
  static bool is_what_enters(const nsa::SafetensorsFile& part, const oracles::Expected& stream) {
    return oracles::misfit_of(recorded_matrix(part, "x").numbers, stream).fits();
  }

  [[nodiscard]] oracles::Expected left_by(const nsa::SafetensorsFile& block) const {
    return oracles::expected_residual(
        {tensor_of(recorded_matrix(block, "middle")),
         tensor_of(recorded_matrix(block, model_.dropout > 0 ? "mlp_dropped" : "mlp")),
         {},
         {},
         model_.rounding});
  }

  const RecordedModel& model_;
  const oracles::IntTensor& tokens_;
  std::vector<int> left_;  // blocks that are not in the order yet
};

}  // namespace

void name_block_order(RecordedModel& model,
                      const oracles::IntTensor& tokens,
                      std::vector<PartJudgement>& parts,
                      const JudgeParts& judge_again) {
  const bool any = std::any_of(parts.begin(), parts.end(), [](const PartJudgement& part) {
    return std::any_of(part.departures.begin(), part.departures.end(), is_of_stream);
  });
  if (!any) return;
  std::vector<int> order = BlockOrder(model, tokens).find();
  if (order.empty() || order == model.order) return;
  model.order = std::move(order);
  parts = judge_again(model);
  std::vector<std::string> names;
  for (const int layer : model.order) names.push_back(std::to_string(layer));
  oracles::Naming naming;
  naming.fitting.push_back({kOtherOrder, {}, 1, nsa::join(names)});
  for (std::size_t at = 0; at < model.order.size(); ++at) {
    if (model.order[at] == static_cast<int>(at)) continue;
    Departure departure = step_departure(
        "NUMERIC.FORWARD", "blocks", model.step->rank, model.step->step, "forward", {}, naming);
    departure.site.layers = {model.order[at]};
    parts.front().departures.push_back(std::move(departure));
  }
}

}  // namespace harness::checks
