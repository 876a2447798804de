// One block: norms, residual stream and mlp, forward, back, and the gradients of their weights.
#include <algorithm>
#include <cmath>

#include "harness/checks/step/part_judge.h"
#include "oracles/model/mlp_stage.h"
#include "oracles/model/norm_stage.h"
#include "oracles/model/stream_stage.h"
#include "oracles/training/dropout.h"

namespace harness::checks {
namespace {

using oracles::Expected;
using oracles::Matrix;
using oracles::Tensor;

constexpr std::size_t kNamingRows = 32;  // that laws of the mlp are tried on

// Those that are wrong, else the first ones.
std::vector<std::int64_t> naming_rows(std::vector<std::int64_t> wrong, std::int64_t all) {
  for (std::int64_t row = 0; wrong.empty() && row < all; ++row) wrong.push_back(row);
  if (wrong.size() > kNamingRows) wrong.resize(kNamingRows);
  return wrong;
}

Expected exactly(Tensor value) {
  Tensor bound = oracles::zeros(value.shape);
  return {std::move(value), std::move(bound)};
}

// The block that ran after this one, or the head.
const nsa::SafetensorsFile& after(const RecordedModel& model, int layer) {
  const auto next = std::next(std::find(model.order.begin(), model.order.end(), layer));
  return next == model.order.end() ? *model.head : *model.blocks[static_cast<std::size_t>(*next)];
}

class BlockJudge : PartJudge {
 public:
  BlockJudge(const RecordedModel& model, int layer)
      : PartJudge(model, layer),
        at_(static_cast<std::size_t>(layer)),
        block_("blocks." + std::to_string(layer) + "."),
        file_(*model.blocks[at_]),
        attention_(*model.attentions[at_]),
        next_(after(model, layer)) {}

  PartJudgement judge() {
    for (const char* name : {"x", "middle", "normed", "hidden", "mlp"}) {
      if (!is_finite(of(name))) return unjudged();
    }
    if (!is_finite(recorded_matrix(attention_, "y"))) return unjudged();
    judge_forward();
    if (!file_.contains("d.mlp")) {
      verdict_.missing.push_back("the gradients between the stages of block " +
                                 std::to_string(layer_));
      return std::move(verdict_);
    }
    for (const char* name : {"d.x", "d.middle", "d.normed", "d.hidden", "d.activated", "d.mlp"}) {
      if (file_.contains(name) && !is_finite(of(name))) return unjudged();
    }
    if (!is_finite(recorded_matrix(next_, "d.x")) ||
        !is_finite(recorded_matrix(attention_, "dx"))) {
      return unjudged();
    }
    judge_backward();
    judge_weights();
    return std::move(verdict_);
  }

 private:
  PartJudgement unjudged() {
    verdict_.not_finite.push_back("block " + std::to_string(layer_));
    return std::move(verdict_);
  }

  [[nodiscard]] Matrix of(const std::string& name) const { return recorded_matrix(file_, name); }
  [[nodiscard]] Tensor rows(const std::string& name) const { return tensor_of(of(name)); }
  [[nodiscard]] Tensor gain_of(const std::string& norm) const {
    return gain(block_ + norm + ".weight");
  }

  // ---- forward ----------------------------------------------------------------------------------

  void judge_forward() {
    judge_norm("norm1", rows("x"), recorded_matrix(attention_, "x"), "x");
    const Tensor y = tensor_of(recorded_matrix(attention_, "y"));
    judge_drop(0, "attended_dropped", y);
    judge_sum(
        of("middle"), "middle", {rows("x"), added("attended_dropped", y), {}, {}, rounding()});
    if (!is_wrong("residual") || !normed_is_of_right_sum(y)) {
      judge_norm("norm2", rows("middle"), of("normed"), "normed");
    }
    judge_mlp();
    judge_drop(1, "mlp_dropped", rows("mlp"));
    judge_sum(recorded_matrix(next_, "x"),
              "what leaves the block",
              {rows("middle"), added("mlp_dropped", rows("mlp")), {}, {}, rounding()});
  }

  // The sum on record is wrong. Is what norm2 made that of the right one? Then the record, or a copy of the sum, is wrong.
  bool normed_is_of_right_sum(const Tensor& y) {
    const Tensor sum =
        oracles::expected_residual({rows("x"), added("attended_dropped", y), {}, {}, rounding()})
            .value;
    Expected right = oracles::expected_norm(sum, gain_of("norm2"), rounding());
    // The sum is rounded before norm2 reads it: a number of its own, and all of them in the mean of squares.
    for (std::size_t i = 0; i < right.value.data.size(); ++i) {
      right.bound.data[i] += 2 * rounding().stored * std::abs(right.value.data[i]);
    }
    if (!oracles::misfit_of(of("normed").numbers, right).fits()) return false;
    ++verdict_.stages;
    verdict_.departures.back().site.detail["reader"] = "norm2";
    read_another("norm2");
    return true;
  }

  [[nodiscard]] bool drops() const { return model_.dropout > 0; }
  // What a half of the block adds to the stream.
  [[nodiscard]] Tensor added(const std::string& dropped, const Tensor& branch) const {
    return drops() ? rows(dropped) : branch;
  }
  [[nodiscard]] oracles::DropoutInputs drop_inputs(std::int64_t site, const Tensor& branch) const {
    const oracles::BatchPlace batch{model_.step->step, 0, model_.step->rank};
    return {branch, model_.data, {batch, layer_, site}, model_.dropout, rounding()};
  }

  void judge_drop(std::int64_t site, const std::string& name, const Tensor& branch) {
    if (!drops()) return;
    const oracles::DropoutInputs inputs = drop_inputs(site, branch);
    judge_values({Way::forward, "dropout", name}, of(name), oracles::expected_dropout(inputs), [&] {
      return oracles::dropout_laws().name(rows(name), inputs);
    });
  }

  void judge_norm(const std::string& norm, const Tensor& x, const Matrix& found, const char* what) {
    const Expected right = oracles::expected_norm(x, gain_of(norm), rounding());
    judge_values({Way::forward, norm, what}, found, right, [&] {
      const std::string other = norm == "norm1" ? "norm2" : "norm1";
      const oracles::NormInputs inputs{
          x,
          gain_of(norm),
          {{"what enters the block", rows("x")}, {"what enters norm2", rows("middle")}},
          {{other, gain_of(other)}},
          rounding()};
      return oracles::norm_stage_laws().name(tensor_of(found), inputs);
    });
  }

  void judge_sum(const Matrix& found, const char* what, oracles::ResidualInputs inputs) {
    const Expected right = oracles::expected_residual(inputs);
    judge_values({Way::forward, "residual", what}, found, right, [&] {
      inputs.others = {{"the result of norm2", rows("normed")},
                       {"the result of norm1", tensor_of(recorded_matrix(attention_, "x"))},
                       {"what enters the block", rows("x")}};
      return oracles::residual_laws().name(tensor_of(found), inputs);
    });
  }

  void judge_mlp() {
    const auto name = [this](const std::vector<std::int64_t>& wrong) {
      return name_forward(wrong);
    };
    judge_projected({Way::forward, "mlp", "fc1 x"},
                    linear_product(of("normed"), fc(1), of("hidden"), rounding()),
                    name);
    judge_values({Way::forward, "mlp", "silu"},
                 of("activated"),
                 oracles::expected_silu(rows("hidden"), rounding()),
                 [&] { return name_forward({}); });
    judge_projected({Way::forward, "mlp", "fc2 silu"},
                    linear_product(of("activated"), fc(2), of("mlp"), rounding()),
                    name);
  }

  [[nodiscard]] std::string fc_name(int number) const {
    return block_ + "mlp.fc" + std::to_string(number) + ".weight";
  }
  [[nodiscard]] Matrix fc(int number) const { return weight(fc_name(number)); }

  [[nodiscard]] oracles::MlpInputs mlp_inputs(const std::vector<std::int64_t>& some) const {
    oracles::MlpInputs inputs;
    inputs.x = oracles::rows_of(of("normed"), some);
    inputs.weights = {"", fc(1), fc(2)};
    inputs.other_inputs = {{"what enters norm2", oracles::rows_of(of("middle"), some)},
                           {"what enters the block", oracles::rows_of(of("x"), some)}};
    inputs.rounding = rounding();
    inputs.threads = 1;
    return inputs;
  }

  [[nodiscard]] oracles::Naming name_forward(const std::vector<std::int64_t>& wrong) const {
    const auto some = naming_rows(wrong, of("mlp").rows);
    return oracles::mlp_laws().name(oracles::rows_of(of("mlp"), some), mlp_inputs(some));
  }

  // ---- backward ---------------------------------------------------------------------------------

  void judge_backward() {
    const Matrix leaving = recorded_matrix(next_, "d.x");
    if (knows_gradient_of("residual") && !drops()) {
      judge_copy(of("d.mlp"), tensor_of(leaving), "the gradient of the mlp's result");
      judge_copy(recorded_matrix(attention_, "dy"),
                 rows("d.middle"),
                 "the gradient of the attention's result");
    }
    if (drops()) judge_drop_back(tensor_of(leaving));
    if (knows_gradient_of("mlp")) judge_mlp_back();
    judge_junction("norm2", "middle", of("d.normed"), tensor_of(leaving));
    judge_junction("norm1", "x", recorded_matrix(attention_, "dx"), rows("d.middle"));
  }

  void judge_copy(const Matrix& found, const Tensor& wanted, const char* what) {
    judge_values({Way::backward, "residual", what}, found, exactly(wanted), [&] {
      return oracles::residual_laws().name(
          tensor_of(found), {wanted, oracles::zeros(wanted.shape), {}, {}, rounding()});
    });
  }

  void judge_drop_back(const Tensor& leaving) {
    if (!knows_gradient_of("residual") || !knows_gradient_of("dropout")) return;
    judge_copy(of("d.mlp_dropped"), leaving, "the gradient of what the mlp adds");
    judge_copy(
        of("d.attended_dropped"), rows("d.middle"), "the gradient of what the attention adds");
    judge_dropped_gradient(
        1, of("d.mlp"), rows("d.mlp_dropped"), "the gradient of the mlp's result");
    judge_dropped_gradient(0,
                           recorded_matrix(attention_, "dy"),
                           rows("d.attended_dropped"),
                           "the gradient of the attention's result");
  }

  void judge_dropped_gradient(std::int64_t site,
                              const Matrix& found,
                              const Tensor& leaving,
                              const char* what) {
    const oracles::DropoutInputs inputs = drop_inputs(site, leaving);
    judge_values({Way::backward, "dropout", what}, found, oracles::expected_dropout(inputs), [&] {
      return oracles::dropout_laws().name(tensor_of(found), inputs);
    });
  }

  void judge_mlp_back() {
    const auto name = [this](const std::vector<std::int64_t>& wrong) { return name_back(wrong); };
    judge_projected({Way::backward, "mlp", "the gradient of silu's result"},
                    input_gradient_product(of("d.mlp"), fc(2), of("d.activated"), rounding()),
                    name);
    judge_values({Way::backward, "mlp", "the gradient of fc1's result"},
                 of("d.hidden"),
                 oracles::expected_silu_gradient(rows("hidden"), rows("d.activated"), rounding()),
                 [&] { return name_back({}); });
    judge_projected({Way::backward, "mlp", "the gradient of norm2's result"},
                    input_gradient_product(of("d.hidden"), fc(1), of("d.normed"), rounding()),
                    name);
  }

  [[nodiscard]] oracles::Naming name_back(const std::vector<std::int64_t>& wrong) const {
    const auto some = naming_rows(wrong, of("mlp").rows);
    return oracles::mlp_gradient_laws().name(
        oracles::rows_of(of("d.normed"), some),
        {mlp_inputs(some), oracles::rows_of(of("d.mlp"), some)});
  }

  // The gradient of what enters a half of the block: what goes past it, and what its norm adds.
  void judge_junction(const std::string& norm,
                      const std::string& entering,
                      const Matrix& dnormed,
                      const Tensor& past) {
    // A stage whose forward is wrong may have read the stream elsewhere, and then its gradient enters elsewhere.
    bool known = true;
    for (const char* op : {"residual", "dropout", "norm1", "norm2", "mlp"})
      known &= knows_gradient_of(op);
    if (!known) return;
    const Tensor x = rows(entering);
    const Tensor dy = tensor_of(dnormed);
    Expected branch = oracles::expected_norm_gradient(x, gain_of(norm), dy, rounding());
    // The norm's backward has two parts, which may be added to what goes past one after the other.
    for (std::size_t i = 0; i < past.data.size(); ++i) {
      branch.bound.data[i] += 2 * rounding().stored * std::abs(past.data[i]);
    }
    const oracles::ResidualInputs sum{past, branch.value, branch.bound, {}, rounding()};
    const Matrix found = of("d." + entering);
    const Expected right = oracles::expected_residual(sum);
    const std::string what = "the gradient of what enters " + norm;
    // The two are recorded as one number: the law that fits tells which of them is wrong.
    oracles::Naming naming;
    if (!oracles::misfit_of(found.numbers, right).fits()) {
      naming = oracles::residual_laws().name(tensor_of(found), sum);
    }
    const bool of_sum = !naming.fitting.empty();
    judge_values({Way::backward, of_sum ? "residual" : norm, what}, found, right, [&] {
      if (of_sum) return naming;
      Tensor own = tensor_of(found);
      for (std::size_t i = 0; i < own.data.size(); ++i) own.data[i] -= past.data[i];
      return oracles::norm_gradient_laws().name(own, {{x, gain_of(norm), {}, {}, rounding()}, dy});
    });
  }

  // ---- gradients of weights ---------------------------------------------------------------------

  void judge_weights() {
    judge_gain("norm1", of("x"), recorded_matrix(attention_, "dx"));
    judge_gain("norm2", of("middle"), of("d.normed"));
    if (!knows_gradient_of("mlp")) return;
    judge_weight(1, of("d.hidden"), of("normed"));
    judge_weight(2, of("d.mlp"), of("activated"));
  }

  void judge_weight(int number, const Matrix& dy, const Matrix& x) {
    const auto found = gradient_of(fc_name(number));
    if (!found) return;
    judge_projected({Way::backward, "mlp", "dy^T x", fc_name(number)},
                    weight_gradient_product(dy, x, *found, rounding()));
  }

  void judge_gain(const std::string& norm, const Matrix& x, const Matrix& dy) {
    const std::string param = block_ + norm + ".weight";
    if (!knows_gradient_of(norm)) return;
    const auto found = gradient_of(param);
    if (!found) return;
    const Expected right = oracles::expected_gain_gradient(x, gain_of(norm), dy, rounding());
    judge_values({Way::backward, norm, "sum of dy x / rms", param}, *found, right, [&] {
      oracles::GainInputs inputs{x, gain_of(norm), dy, 1, rounding(), 1};
      inputs.batch = batch();
      return oracles::gain_gradient_laws().name(tensor_of(*found), inputs);
    });
  }
  [[nodiscard]] std::int64_t batch() const { return attention_.at("x").shape.front(); }

  std::size_t at_;
  std::string block_;
  const nsa::SafetensorsFile& file_;
  const nsa::SafetensorsFile& attention_;
  const nsa::SafetensorsFile& next_;  // of the next block, or the head: "x" is what leaves this one
};

}  // namespace

PartJudgement judge_block(const RecordedModel& model, int layer) {
  return BlockJudge(model, layer).judge();
}

}  // namespace harness::checks
