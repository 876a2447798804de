#include "harness/checks/attention/accuracy/layer_judge.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "harness/checks/attention/accuracy/gradient_judge.h"
#include "harness/checks/attention/accuracy/law_codes.h"
#include "harness/checks/attention/record/layer_survey.h"
#include "harness/checks/ceilings.h"
#include "harness/checks/error_budget.h"
#include "harness/checks/largest.h"
#include "harness/checks/nearer.h"
#include "harness/checks/result.h"
#include "oracles/attention/narrow_steps.h"
#include "oracles/laws/match.h"

namespace harness::checks {
namespace {

using oracles::RowsOf;
using oracles::Stage;
using oracles::StageRow;
using oracles::Tensor;
using Result = oracles::AttentionResult;

// The parameter that a finding names: of a stage that is one weight times the layer's input.
std::string param_of(const StageRow& row) {
  return oracles::is_projected(row) ? std::string(row.weights) : "";
}

// The largest difference of two numbers. A wanted number that is not finite was made of an input
// that is not, and says nothing.
double largest_difference(const Tensor& found, const Tensor& wanted) {
  if (found.data.size() != wanted.data.size()) return std::nan("");
  double most = 0.0;
  for (std::size_t i = 0; i < wanted.data.size(); ++i) {
    if (std::isfinite(wanted.data[i])) raise_to(most, std::abs(found.data[i] - wanted.data[i]));
  }
  return most;
}

class LayerJudge {
 public:
  LayerJudge(const LayerRecord& record, const nsa::ModelConfig& model)
      : record_(record),
        stages_(record.config, record.weights, record.x, options_of(record)),
        sums_(model, record.batch, record.length) {
    give_recorded(record, stages_);
    if (!record.kept) return;
    plain_.emplace(record.config, record.weights, record.x, plain_options());
    give_recorded(record, *plain_);
  }

  LayerJudgement judge() {
    verdict_.rows = record_.row_count();
    verdict_.rows_in_all = record_.length;
    verdict_.positions = record_.rows;
    const UnusableRows unusable = unusable_rows(record_);
    unusable_.insert(unusable.out_of_range.begin(), unusable.out_of_range.end());
    unusable_.insert(unusable.malformed.begin(), unusable.malformed.end());
    verdict_.rows_without_list = static_cast<std::int64_t>(unusable_.size());
    judge_stages();
    // Nothing that follows from a wrong stage says anything of its own.
    const bool right = verdict_.departures.empty() && unusable_.empty();
    if (right && record_.from_input) judge_whole();
    judge_backward();
    return std::move(verdict_);
  }

 private:
  [[nodiscard]] double limit_of(const StageRow& stage) const {
    return ceiling(sums_.of(stage.stage), record_.unit_roundoff, record_.arithmetic.summed);
  }

  // Whether the choice is right is for another check to say (selection/choice_judge.h).
  [[nodiscard]] bool is_judged_here(const StageRow& row) const {
    return !oracles::is_of_choice(row) && record_.has(name_of(row));
  }

  [[nodiscard]] oracles::AttentionOptions plain_options(int draw = 0) const {
    oracles::AttentionOptions options = options_of(record_);
    options.kept = *record_.kept;
    options.kept.draw = static_cast<std::uint64_t>(draw);
    return options;
  }

  // The yardstick with drawn roundings: made when it is asked for.
  const oracles::Stages& drawn(int draw) {
    std::unique_ptr<oracles::Stages>& stages = drawn_[draw];
    if (stages == nullptr) {
      stages = std::make_unique<oracles::Stages>(
          record_.config, record_.weights, record_.x, plain_options(draw));
      give_recorded(record_, *stages);
    }
    return *stages;
  }

  // What a tensor in a narrow type may be off by. Query heads alone have vectors of their own.
  [[nodiscard]] Spent spent_of(const StageRow& row,
                               const Tensor& wanted,
                               const Tensor& plain,
                               double scale,
                               const Drawn& drawn) const {
    Measured measured{record_.at(name_of(row)), wanted, plain, record_.kept->results};
    measured.summed = ceiling(sums_.of(row.stage), record_.arithmetic.summed) * scale;
    tell_heads_apart(measured);
    return spent(measured, drawn);
  }

  // ---- forward, stage by stage ------------------------------------------------------------------

  void judge_stages() {
    std::map<Stage, Tensor> wanted;
    double outputs = 0.0;
    for (const StageRow& row : oracles::kStageTable) {
      if (!is_judged_here(row) || record_.given.count(name_of(row)) > 0) continue;
      const auto at = wanted.emplace(row.stage, stages_.right(row.stage)).first;
      if (oracles::is_output(row)) outputs = std::max(outputs, oracles::finite_scale(at->second));
    }
    for (const StageRow& row : oracles::kStageTable) {
      const auto at = wanted.find(row.stage);
      if (at == wanted.end()) continue;
      const double scale = std::max(oracles::finite_scale(at->second),
                                    oracles::is_output(row) ? kSmallestScaleShare * outputs : 0.0);
      judge_stage(row, at->second, {limit_of(row), scale, record_.arithmetic.stored});
    }
  }

  void judge_stage(const StageRow& row, const Tensor& wanted, oracles::Allowed allowed) {
    const std::string name = name_of(row);
    const Tensor& found = record_.at(name);
    std::vector<std::size_t> wrong;
    Spent budget;
    if (!wanted.data.empty() && plain_) {
      std::deque<Tensor> drawn_stages;
      budget = spent_of(
          row, wanted, plain_->right(row.stage), allowed.scale, [&](int draw) -> const Tensor& {
            return drawn_stages.emplace_back(drawn(draw).right(row.stage));
          });
      wrong = budget.wrong;
      allowed.relative = allowed.scale > 0.0 ? budget.whole / allowed.scale : 0.0;
    } else if (!wanted.data.empty()) {
      wrong = oracles::wrong_vectors(found, wanted, allowed.relative * allowed.scale);
    }
    if (wrong.empty() && plain_) wrong = computed_too_narrow(row, found, budget);
    if (wrong.empty() && !plain_) wrong = turned_by_float_angles(row, found, wanted, budget);
    if (row.stage == Stage::o_sel) drop_unusable(wrong);
    if (wrong.empty() && !unusable_.empty()) return;
    note(name, largest_difference(found, wanted), allowed.scale, allowed.relative);
    if (!budget.where.empty() || plain_) verdict_.errors[name] = {budget.error, budget.limit};
    verdict_.compared[name] = compared(found, wanted, allowed, wrong);
    if (wrong.empty()) return;
    Departure seen;
    seen.code = "NUMERIC.FORWARD";
    seen.site.branch = row.branch;
    seen.site.op = row.op;
    seen.site.param = param_of(row);
    seen.tensors = {name};
    seen.error = verdict_.errors.at(name).value;
    seen.limit = verdict_.errors.at(name).limit;
    seen.where = budget.where;
    put_place(row, wanted, wrong, seen);
    // A law is told by numbers that are further off than any right one may be.
    const auto far = oracles::wrong_vectors(found, wanted, allowed.relative * allowed.scale);
    std::vector<std::size_t> told;
    std::set_intersection(
        wrong.begin(), wrong.end(), far.begin(), far.end(), std::back_inserter(told));
    explain(oracles::name_stage(stages_, row.stage, found, wanted, told, allowed), row.stage, seen);
    verdict_.departures.push_back(std::move(seen));
    wrong_.insert(row.stage);
    Tensor right = plain_ ? plain_->right(row.stage) : wanted;
    verdict_.departed.push_back(
        {name, Right{std::move(right.data), allowed.relative * allowed.scale}});
  }

  // A softmax or a rotation in the narrow type costs hardly more than the rounding of its result. But it costs the same in
  // every computation: what it makes is met number by number by the oracle that does the same.
  std::vector<std::size_t> computed_too_narrow(const StageRow& row,
                                               const Tensor& found,
                                               Spent& budget) const {
    const bool rotates = std::string_view(row.op) == "rope";
    const oracles::Branch branch = oracles::branch_of(row.stage);
    const bool attends = row.stage == oracles::output_stage(branch);
    if (!rotates && (!attends || record_.kept->narrow(branch))) return {};
    if (attends) {
      return met_by(oracles::with_narrow_softmax(*plain_, branch), "softmax", row, found, budget);
    }
    for (const auto how : {oracles::NarrowRotation::products, oracles::NarrowRotation::table}) {
      auto wrong = met_by(oracles::with_narrow_rotation(*plain_, row.stage, how),
                          "cosines and sines",
                          row,
                          found,
                          budget);
      if (!wrong.empty()) return wrong;
    }
    return {};
  }

  // The vectors that another oracle in the type makes as they were recorded; none where the plain one is as near.
  std::vector<std::size_t> met_by(const Tensor& other,
                                  const char* what,
                                  const StageRow& row,
                                  const Tensor& found,
                                  Spent& budget) const {
    const Nearer seen = nearer_to(other, found, plain_->right(row.stage));
    if (!seen.is_nearer()) return {};
    budget.error = seen.from_plain;
    budget.limit = kNearer * seen.from_other;
    budget.where =
        std::string("from the oracle in its type, which is further away than the one whose ") +
        what + " are in that type too";
    return seen.vectors;
  }

  // Angles in float32 are off by the position times 6e-8, which the ceiling allows up to ten thousands of positions.
  std::vector<std::size_t> turned_by_float_angles(const StageRow& row,
                                                  const Tensor& found,
                                                  const Tensor& wanted,
                                                  Spent& budget) const {
    if (std::string_view(row.op) != "rope" || found.data.size() != wanted.data.size()) return {};
    for (const auto how : {oracles::FloatAngles::frequencies, oracles::FloatAngles::products}) {
      const Nearer seen =
          nearer_to(oracles::with_float_angles(stages_, row.stage, how, wanted), found, wanted);
      if (!seen.is_nearer()) continue;
      budget.error = seen.from_plain;
      budget.limit = kNearer * seen.from_other;
      budget.where =
          "from the oracle, which is further away than the one whose angles are in float32";
      return seen.vectors;
    }
    return {};
  }

  void note(const std::string& name, double difference, double scale, double limit) {
    verdict_.errors[name] = {difference == 0.0 ? 0.0 : difference / scale, limit};
  }

  // A query that has no list of blocks has no defined output in the selected branch: those rows are
  // not judged.
  void drop_unusable(std::vector<std::size_t>& wrong) const {
    if (unusable_.empty()) return;
    std::erase_if(wrong, [&](std::size_t vector) { return unusable_.count(query_of(vector)) > 0; });
  }

  // The query that a vector of a [B,G,h,R,.] tensor belongs to.
  [[nodiscard]] BadRow query_of(std::size_t vector) const {
    const auto r = static_cast<std::size_t>(record_.row_count());
    const auto h = static_cast<std::size_t>(record_.config.heads_per_group());
    const auto g = static_cast<std::size_t>(record_.config.n_kv_groups);
    const std::size_t list = vector / r / h;
    return {static_cast<std::int64_t>(list / g),
            static_cast<std::int64_t>(list % g),
            record_.rows[vector % r]};
  }

  // Puts into the departure which rows, heads and groups are wrong.
  void put_place(const StageRow& stage,
                 const Tensor& wanted,
                 const std::vector<std::size_t>& wrong,
                 Departure& seen) const {
    const std::size_t vectors = wanted.data.size() / static_cast<std::size_t>(wanted.shape.back());
    const auto count = static_cast<std::size_t>(wanted.shape[wanted.shape.size() - 2]);
    const auto lanes = static_cast<std::int64_t>(vectors / count) / record_.batch;  // of a sequence
    const std::int64_t heads = record_.config.n_heads;
    const bool by_head = lanes == heads && stage.rows == RowsOf::queries;
    const bool by_group = !by_head && lanes == record_.config.n_kv_groups && lanes > 1;
    const std::int64_t heads_of_lane = by_head ? record_.config.heads_per_group() : 1;
    std::set<std::pair<std::int64_t, std::size_t>> rows;
    std::set<int> positions;
    std::set<int> wrong_heads;
    std::set<int> groups;
    for (const std::size_t vector : wrong) {
      const auto lane = static_cast<std::int64_t>(vector / count);
      rows.insert({lane / heads_of_lane, vector % count});
      const auto row = vector % count;
      positions.insert(static_cast<int>(
          stage.rows == RowsOf::queries ? record_.rows[row] : static_cast<std::int64_t>(row)));
      if (by_head) wrong_heads.insert(static_cast<int>(lane % heads));
      if (by_head || by_group) groups.insert(static_cast<int>(lane % lanes / heads_of_lane));
    }
    std::vector<int> sorted = to_ints(positions);
    if (sorted.size() > kMostRows) sorted.resize(kMostRows);
    if (stage.rows == RowsOf::compressed) {
      seen.site.detail["compressed_tokens"] = sorted;
    } else {
      seen.site.rows = sorted;
    }
    if (static_cast<std::int64_t>(wrong_heads.size()) < heads)
      seen.site.heads = to_ints(wrong_heads);
    seen.site.detail["groups"] = to_ints(groups);
    seen.site.detail["row_count"] = static_cast<std::int64_t>(rows.size());
    seen.facts["rows_in_all"] = static_cast<std::int64_t>(vectors) / heads_of_lane;
  }

  // ---- the whole layer from its input -----------------------------------------------------------

  // Stages that are right one by one may still drift apart.
  void judge_whole() {
    const Result wanted =
        oracles::attention(record_.config, record_.weights, record_.x, options_of(record_));
    std::map<int, Result> plain;  // by draw
    const auto plain_of = [&](int draw) -> const Result& {
      auto at = plain.find(draw);
      if (at == plain.end()) {
        at = plain
                 .emplace(draw,
                          oracles::attention(
                              record_.config, record_.weights, record_.x, plain_options(draw)))
                 .first;
      }
      return at->second;
    };
    double outputs = 0.0;
    for (const StageRow& row : oracles::kStageTable) {
      if (oracles::is_output(row)) raise_to(outputs, largest(stage_in(wanted, row.stage)->data));
    }
    Departure seen;
    for (const StageRow& row : oracles::kStageTable) {
      const std::string name = name_of(row);
      const Tensor* const whole = stage_in(wanted, row.stage);
      if (whole == nullptr || !is_judged_here(row)) continue;
      const Tensor& right = *whole;
      const double scale = std::max(largest(right.data),
                                    oracles::is_output(row) ? kSmallestScaleShare * outputs : 0.0);
      const double difference = largest_difference(record_.at(name), right);
      double relative = difference == 0.0 ? 0.0 : difference / scale;
      double limit = limit_of(row);
      std::string where;
      if (plain_ && !right.data.empty()) {
        const Spent budget = spent_of(
            row, right, *stage_in(plain_of(0), row.stage), scale, [&](int draw) -> const Tensor& {
              return *stage_in(plain_of(draw), row.stage);
            });
        relative = budget.error;
        limit = budget.limit;
        where = budget.where;
      }
      if (row.stage == Stage::y) verdict_.errors["y_from_x"] = {relative, limit};
      if (relative <= limit) continue;
      if (seen.tensors.empty()) {
        seen.code = "NUMERIC.FORWARD";
        seen.site.branch = row.branch;
        seen.site.op = row.op;
        seen.error = relative;
        seen.limit = limit;
        seen.where = where;
      }
      seen.tensors.push_back(name);
    }
    if (!seen.tensors.empty()) verdict_.departures.push_back(std::move(seen));
  }

  // ---- backward ---------------------------------------------------------------------------------

  void judge_backward() {
    if (record_.forward_only) return;
    if (!record_.dy) {
      verdict_.missing.emplace_back("the gradient of the layer's output");
    } else if (record_.dy_elsewhere) {
      verdict_.missing.emplace_back(
          "gradients: the output's is not zero in the rows that were not judged");
    } else if (!std::isfinite(largest(record_.dy->data))) {
      verdict_.missing.emplace_back("gradients: the output's is not finite");
    } else {
      // A query without a list of blocks has no defined output, and no defined gradient.
      if (!unusable_.empty()) wrong_.insert(Stage::o_sel);
      const double limit =
          ceiling(sums_.gradient, record_.unit_roundoff, record_.arithmetic.summed);
      const double summed = ceiling(sums_.gradient, record_.arithmetic.summed);
      const Forwards forwards{
          stages_, plain_ ? &*plain_ : nullptr, summed, [this](int draw) -> const oracles::Stages& {
            return drawn(draw);
          }};
      judge_gradients(record_, forwards, wrong_, limit, verdict_);
    }
  }

  const LayerRecord& record_;
  oracles::Stages stages_;
  std::optional<oracles::Stages> plain_;  // in the type on record, where that is narrow
  std::map<int, std::unique_ptr<oracles::Stages>> drawn_;
  LongestSums sums_;
  std::set<BadRow> unusable_;
  std::set<Stage> wrong_;  // whose forward is not the oracle's
  LayerJudgement verdict_;
};

}  // namespace

ComparedTensor compared(const Tensor& found,
                        const Tensor& wanted,
                        const oracles::Allowed& allowed,
                        std::vector<std::size_t> wrong) {
  ComparedTensor tensor{allowed, std::move(wrong), wanted.shape};
  if (tensor.wrong.empty()) return tensor;
  const auto width = static_cast<std::size_t>(wanted.shape.back());
  const auto rows = static_cast<std::size_t>(wanted.shape[wanted.shape.size() - 2]);
  const std::size_t first = *std::min_element(
      tensor.wrong.begin(), tensor.wrong.end(), [&](std::size_t a, std::size_t b) {
        return a % rows < b % rows || (a % rows == b % rows && a < b);
      });
  double most = -1.0;
  for (std::size_t i = first * width; i < (first + 1) * width; ++i) {
    const double off = std::abs(found.data[i] - wanted.data[i]);
    if (off <= most || std::isnan(most)) continue;
    most = off;  // a NaN stays
    tensor.at = i;
  }
  tensor.found = found.data[tensor.at];
  tensor.wanted = wanted.data[tensor.at];
  return tensor;
}

LayerJudgement judge_layer(const LayerRecord& record, const nsa::ModelConfig& model) {
  return LayerJudge(record, model).judge();
}

void take_departed(const LayerJudgement& judged,
                   const Evidence& evidence,
                   const LayerPlace& at,
                   ResultBuilder& result) {
  const std::string path = path_of(evidence, {at.rank, kLayer, at.step, at.rank, at.layer});
  for (const DepartedTensor& departed : judged.departed) {
    result.departed(departed_tensor(path, departed.tensor, departed.right));
  }
}

}  // namespace harness::checks
