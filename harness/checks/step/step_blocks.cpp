#include "harness/checks/step/step_blocks.h"

#include <stdexcept>
#include <type_traits>

#include "harness/checks/attention/accuracy/layer_judge.h"
#include "harness/checks/attention/record/judge_recorded.h"
#include "harness/checks/attention/record/sample_rows.h"
#include "harness/checks/largest.h"
#include "harness/checks/step/step_kept.h"
#include "harness/checks/step/step_order.h"
#include "harness/checks/step/step_weights.h"
#include "nsa/base/text.h"
#include "oracles/parallel.h"

namespace harness::checks {
namespace {

constexpr double kToldBounds = 10;  // the size of an error whose probability of a miss is told

class ModelFiles {
 public:
  ModelFiles(StepJudge& judge, const StepFile& file) : judge_(judge), file_(file) {}

  // Nothing where something is not on record; then it is said.
  std::optional<RecordedModel> open() {
    RecordedModel model;
    model.step = &file_;
    model.tied_head = judge_.run.model.tied_head;
    model.dropout = judge_.run.evidence.the_case.scenario.model.dropout;
    model.data = judge_.run.data;
    model.rounding = oracles::Rounding::of(judge_.run.narrow);
    const auto seed = static_cast<std::uint64_t>(judge_.run.evidence.the_case.scenario.seed);
    model.seed = mixed(mixed(seed) + static_cast<std::uint64_t>(file_.step * 4096 + file_.rank));
    if (!weights_.find(judge_, file_)) return std::nullopt;
    if (!find_gradients()) return std::nullopt;
    model.head = file("head_stages", -1);
    if (!model.head) return std::nullopt;
    for (int layer = 0; layer < static_cast<int>(judge_.run.model.n_layers); ++layer) {
      model.blocks.push_back(file("block_stages", layer));
      model.attentions.push_back(file(kLayer, layer));
      model.order.push_back(layer);
      if (!model.blocks.back() || !model.attentions.back()) return std::nullopt;
    }
    const bool own_file = judge_.run.data.accumulate == 1;
    model.weight = [this](const std::string& name) {
      return recorded_matrix(weights_.file(), weights_.name_of(name));
    };
    model.gradient = [this, own_file, &judge = judge_](const std::string& name) {
      const nsa::SafetensorsFile& from = own_file ? *local_ : *part_of(name);
      const std::string recorded = own_file ? name : "g." + name;
      const Gradient* row = judge.ledger.ranks.find({file_.step, file_.rank, name});
      const bool arrived = row != nullptr && !row->hash_before.empty();
      return arrived && from.contains(recorded) ? recorded_matrix(from, recorded)
                                                : oracles::Matrix{};
    };
    return model;
  }

  // The model as it is kept by its owner: gradients of several micro-batches are in its files.
  void kept_at(RecordedModel& model) {
    model_ = &model;
    remember_files(model);
  }

 private:
  std::optional<nsa::SafetensorsFile> file(const std::string& name, int layer) {
    return open_artefact(
        judge_.run.evidence, {file_.rank, name, file_.step, file_.rank, layer}, judge_.result);
  }

  // REQUIRES: the model stays where it is. Where something stands in for what was recorded, its error is given room.
  void remember_files(RecordedModel& model) {
    const auto add = [&](const std::string& name, int layer, const nsa::SafetensorsFile& file) {
      const Evidence& evidence = judge_.run.evidence;
      std::string path = path_of(evidence, {file_.rank, name, file_.step, file_.rank, layer});
      widen(model.rounding, stand_in_error(evidence, path));
      model.files.emplace_back(std::move(path), &file);
    };
    add("optimizer_step", -1, file_.file);
    add("head_stages", -1, *model.head);
    if (local_) add("local_gradients", -1, *local_);
    for (std::size_t layer = 0; layer < model.blocks.size(); ++layer) {
      add("block_stages", static_cast<int>(layer), *model.blocks[layer]);
      add(kLayer, static_cast<int>(layer), *model.attentions[layer]);
    }
  }

  static void widen(oracles::Rounding& rounding, double error) {
    if (error <= 0.0) return;
    rounding = {2 * rounding.stored, 2 * rounding.summed, std::max(rounding.flushed, 2 * error)};
  }

  // A step of one micro-batch has the local gradients in a file of their own.
  bool find_gradients() {
    if (judge_.run.data.accumulate != 1) return true;
    local_ = file("local_gradients", -1);
    return local_.has_value();
  }

  [[nodiscard]] const nsa::SafetensorsFile* part_of(const std::string& param) const {
    const std::string prefix = "blocks.";
    if (param.rfind(prefix, 0) != 0) return &*model_->head;
    return &*model_->blocks[static_cast<std::size_t>(std::stoi(param.substr(prefix.size())))];
  }

  StepJudge& judge_;
  const StepFile& file_;
  StepWeights weights_;
  std::optional<nsa::SafetensorsFile> local_;
  const RecordedModel* model_ = nullptr;
};

// Parts are independent of each other: the head first, then every block.
std::vector<PartJudgement> judged_parts(const RecordedModel& model,
                                        const oracles::IntTensor& tokens) {
  std::vector<PartJudgement> parts(model.blocks.size() + 1);
  oracles::parallel_for(
      static_cast<std::int64_t>(parts.size()), 1, 0, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          parts[static_cast<std::size_t>(i)] =
              i == 0 ? judge_ends(model, tokens) : judge_block(model, static_cast<int>(i - 1));
        }
      });
  return parts;
}

struct Totals {
  std::int64_t stages = 0;
  std::int64_t products = 0;
  double worst = 0;
};

// `layer`: -1 for the ends.
void take(StepJudge& judge, const StepFile& file, int layer, PartJudgement part, Totals& totals) {
  const std::string where =
      " of " + process_name(file.rank) + ", step " + std::to_string(file.step);
  for (Departure& departure : part.departures) judge.told.add(std::move(departure));
  for (Departed& departed : part.departed) judge.result.departed(std::move(departed));
  for (const std::string& lacking : part.missing) judge.result.missing(lacking + where);
  for (const std::string& what : part.not_finite) judge.not_finite(what, file, layer);
  for (const std::string& what : part.not_judged) {
    judge.not_judged.push_back(what + where);
    judge.result.not_judged(what + where,
                            layer < 0 ? site_of_rank(file.rank) : site_of_layer(file.rank, layer));
  }
  totals.stages += part.stages;
  totals.products += part.products;
  raise_to(totals.worst, part.worst);
}

// What a block reads of its attention may depart itself; close_to_oracle looks at one step alone.
void depart_in_attention(StepJudge& judge, const LayerPlace& at) {
  ResultBuilder not_needed;
  const auto hand_over = [&](const auto& record) {
    if constexpr (std::is_same_v<std::decay_t<decltype(record)>, LayerRecord>) {
      const nsa::ModelConfig& model = judge.run.evidence.the_case.scenario.model;
      take_departed(judge_layer(record, model), judge.run.evidence, at, judge.result);
    }
  };
  judge_recorded(judge.run.evidence, at, not_needed, hand_over);
}

void judge_file(StepJudge& judge, const StepFile& file, Totals& totals) {
  const auto tokens = file.tokens(0);
  if (!tokens) return;  // already missing
  ModelFiles files(judge, file);
  std::optional<RecordedModel> model = files.open();
  if (!model) return;
  files.kept_at(*model);
  const auto judged = [&](const RecordedModel& of) { return judged_parts(of, *tokens); };
  std::vector<PartJudgement> parts = judged(*model);
  name_block_order(*model, *tokens, parts, judged);
  name_kept_gradients(judge, *model, parts, judged);
  for (int layer = 0; layer < static_cast<int>(model->blocks.size()); ++layer) {
    if (parts[static_cast<std::size_t>(layer) + 1].departed.empty()) continue;
    depart_in_attention(judge, {file.rank, file.step, layer});
  }
  int layer = -1;
  for (PartJudgement& part : parts) take(judge, file, layer++, std::move(part), totals);
}

}  // namespace

void judge_blocks(StepJudge& judge) {
  Totals totals;
  for (const auto& [key, file] : judge.files) {
    try {
      judge_file(judge, file, totals);
    } catch (const std::invalid_argument& error) {
      judge.result.missing("the model of " + process_name(key.first) + ", step " +
                           std::to_string(key.second) + ": " + error.what());
    }
  }
  if (totals.stages == 0) {
    judge.not_judged.emplace_back("the model between its attention layers (not on record)");
    return;
  }
  judge.result.measured("worst_share_of_bound_between", totals.worst, 1.0);
  judge.judged.push_back(std::to_string(totals.stages) +
                         " stages between the attention layers (forward, back and gradients of "
                         "weights, in all rows; " +
                         std::to_string(totals.products) +
                         " of them by projections, each of which misses an error of " +
                         nsa::to_text(kToldBounds, 2) + " bounds with a probability of " +
                         nsa::to_text(oracles::miss_probability(kToldBounds), 1) + ")");
}

}  // namespace harness::checks
