// What lies before the first block and after the last one: embedding, norm_f and lm_head, forward, back, and the gradients of
// their weights.
#include <algorithm>
#include <numeric>

#include "harness/checks/step/part_judge.h"
#include "oracles/model/head_stage.h"
#include "oracles/model/stream_stage.h"

namespace harness::checks {
namespace {

using oracles::Expected;
using oracles::Matrix;
using oracles::Tensor;

constexpr std::size_t kLogitRows = 64;  // that laws of the head are tried on

class EndsJudge : PartJudge {
 public:
  EndsJudge(const RecordedModel& model, const oracles::IntTensor& tokens)
      : PartJudge(model, -1),
        tokens_(tokens),
        step_(model.step->file),
        head_(*model.head),
        first_(*model.blocks[static_cast<std::size_t>(model.order.front())]) {}

  PartJudgement judge() {
    if (!step_.contains("logits.0")) {
      verdict_.missing.emplace_back("the logits");
      return std::move(verdict_);
    }
    if (!is_finite(logits()) || !is_finite(recorded_matrix(head_, "x"))) return unjudged();
    judge_embedding();
    judge_norm();
    judge_logits();
    if (!step_.contains("dlogits.0") || !head_.contains("d.x")) {
      verdict_.missing.emplace_back("the gradients between the stages of the head");
      return std::move(verdict_);
    }
    for (const Matrix& gradient : {dlogits(),
                                   recorded_matrix(head_, "d.normed"),
                                   recorded_matrix(head_, "d.x"),
                                   recorded_matrix(first_, "d.x")}) {
      if (!is_finite(gradient)) return unjudged();
    }
    judge_backward();
    judge_table();
    return std::move(verdict_);
  }

 private:
  PartJudgement unjudged() {
    verdict_.not_finite.emplace_back("the head");
    return std::move(verdict_);
  }

  [[nodiscard]] Matrix logits() const { return recorded_matrix(step_, "logits.0"); }
  [[nodiscard]] Matrix dlogits() const { return recorded_matrix(step_, "dlogits.0"); }
  [[nodiscard]] Matrix normed() const { return recorded_matrix(head_, "normed"); }
  [[nodiscard]] Tensor entering() const { return tensor_of(recorded_matrix(head_, "x")); }
  [[nodiscard]] Matrix head() const {
    return weight(model_.tied_head ? "embed.weight" : "lm_head.weight");
  }
  [[nodiscard]] Tensor gain_f() const { return gain("norm_f.weight"); }

  // ---- forward ----------------------------------------------------------------------------------

  void judge_embedding() {
    const oracles::EmbeddingInputs inputs = embedding_inputs(model_, tokens_);
    const Matrix found = recorded_matrix(first_, "x");
    judge_values({Way::forward, "embed", "what enters the first block"},
                 found,
                 oracles::expected_embedding(inputs),
                 [&] { return oracles::embedding_laws().name(tensor_of(found), inputs); });
  }

  void judge_norm() {
    const oracles::NormInputs inputs{entering(), gain_f(), {}, {}, rounding()};
    judge_values({Way::forward, "norm_f", "what enters lm_head"},
                 normed(),
                 oracles::expected_norm(inputs.x, inputs.gain, rounding()),
                 [&] { return oracles::norm_stage_laws().name(tensor_of(normed()), inputs); });
  }

  void judge_logits() {
    judge_projected({Way::forward, "lm_head", "logits"},
                    linear_product(normed(), head(), logits(), rounding()),
                    [&](std::vector<std::int64_t> some) {
                      for (std::int64_t row = 0; some.empty() && row < logits().rows; ++row) {
                        some.push_back(row);
                      }
                      if (some.size() > kLogitRows) some.resize(kLogitRows);
                      oracles::HeadInputs inputs;
                      inputs.x = oracles::rows_of(normed(), some);
                      inputs.others = {{"what enters norm_f",
                                        oracles::rows_of(recorded_matrix(head_, "x"), some)}};
                      inputs.head = head();
                      if (!model_.tied_head) inputs.table = weight("embed.weight");
                      inputs.rounding = rounding();
                      inputs.threads = 1;
                      return oracles::name_logits(oracles::rows_of(logits(), some), inputs);
                    });
  }

  // ---- backward ---------------------------------------------------------------------------------

  void judge_backward() {
    const Matrix dnormed = recorded_matrix(head_, "d.normed");
    if (knows_gradient_of("lm_head")) {
      judge_projected({Way::backward, "lm_head", "the gradient of norm_f's result"},
                      input_gradient_product(dlogits(), head(), dnormed, rounding()));
      if (!model_.tied_head) judge_head_weight();
    }
    // Logits that are wrong may have been taken from what enters norm_f, and then their gradient enters there.
    const bool known = knows_gradient_of("norm_f") && knows_gradient_of("lm_head");
    if (!known) return;
    const Tensor dy = tensor_of(dnormed);
    const oracles::NormInputs inputs{entering(), gain_f(), {}, {}, rounding()};
    const Matrix found = recorded_matrix(head_, "d.x");
    judge_values({Way::backward, "norm_f", "the gradient of what enters norm_f"},
                 found,
                 oracles::expected_norm_gradient(inputs.x, inputs.gain, dy, rounding()),
                 [&] {
                   return oracles::norm_gradient_laws().name(tensor_of(found), {inputs, dy});
                 });
    const auto of_gain = gradient_of("norm_f.weight");
    if (!of_gain) return;
    const Matrix x = recorded_matrix(head_, "x");
    judge_values({Way::backward, "norm_f", "sum of dy x / rms", "norm_f.weight"},
                 *of_gain,
                 oracles::expected_gain_gradient(x, inputs.gain, dnormed, rounding()),
                 [&] {
                   const oracles::GainInputs gains{
                       x, inputs.gain, dnormed, tokens_.shape.front(), rounding(), 1};
                   return oracles::gain_gradient_laws().name(tensor_of(*of_gain), gains);
                 });
  }

  void judge_head_weight() {
    const auto found = gradient_of("lm_head.weight");
    if (!found) return;
    judge_projected({Way::backward, "lm_head", "dy^T x", "lm_head.weight"},
                    weight_gradient_product(dlogits(), normed(), *found, rounding()));
  }

  void judge_table() {
    const auto found = gradient_of("embed.weight");
    if (!found || !knows_gradient_of("embed")) return;
    if (model_.tied_head && !knows_gradient_of("lm_head")) return;
    oracles::EmbeddingGradientInputs inputs;
    inputs.tokens = tokens_;
    inputs.dx = recorded_matrix(first_, "d.x");
    inputs.vocab_size = found->rows;
    if (model_.tied_head) {
      inputs.dlogits = dlogits();
      inputs.normed = normed();
    }
    inputs.rounding = rounding();
    judge_values(
        {Way::backward, "embed", "sum of dx by token", "embed.weight"},
        *found,
        oracles::expected_embedding_gradient(inputs),
        [&] { return oracles::embedding_gradient_laws().name(tensor_of(*found), inputs); });
  }

  const oracles::IntTensor& tokens_;
  const nsa::SafetensorsFile& step_;
  const nsa::SafetensorsFile& head_;
  const nsa::SafetensorsFile& first_;
};

}  // namespace

oracles::EmbeddingInputs embedding_inputs(const RecordedModel& model,
                                          const oracles::IntTensor& tokens) {
  oracles::EmbeddingInputs inputs;
  inputs.tokens = tokens;
  inputs.rows.resize(tokens.data.size());
  std::iota(inputs.rows.begin(), inputs.rows.end(), 0);
  inputs.table = model.weight("embed.weight");
  if (!model.tied_head) inputs.head = model.weight("lm_head.weight");
  inputs.rounding = model.rounding;
  return inputs;
}

PartJudgement judge_ends(const RecordedModel& model, const oracles::IntTensor& tokens) {
  return EndsJudge(model, tokens).judge();
}

}  // namespace harness::checks
