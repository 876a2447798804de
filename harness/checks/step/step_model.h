// The model between its attention layers, from what is recorded at their borders: what enters attention l follows from the tokens
// and from what left the attentions before it, so a wrong attention is not told here. Rows do not meet between two attentions:
// any rows will do. The way back likewise, from the gradient of the logits and the gradients at the borders.
// Legend: R rows, E width, L layers.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "harness/checks/departures.h"
#include "harness/checks/step/step_stages.h"
#include "oracles/expected.h"
#include "oracles/model/mlp_stage.h"
#include "oracles/model/norm_stage.h"
#include "oracles/training/dropout.h"

namespace harness::checks {

// What is recorded of a model's step at some rows, as the oracle wants it.
struct ModelRows {
  std::vector<std::int64_t> rows;  // of B*S
  oracles::IntTensor tokens;
  struct Border {
    oracles::Tensor x, y;    // [R,E] what enters an attention, what leaves it
    oracles::Tensor dx, dy;  // the gradients there; empty where they are not on record
  };
  std::vector<Border> layers;
  oracles::Tensor logits;   // [R,V]
  oracles::Tensor dlogits;  // [R,V]
  oracles::Weights small;   // gains
  std::map<std::string, oracles::Matrix> large;
  oracles::Rounding rounding = oracles::Rounding::of(oracles::Number::f32);
  double dropout = 0;        // of what a block adds to the stream
  oracles::DataConfig data;  // with the place: what its masks follow from
  oracles::BatchPlace place;
  using Halves = std::array<oracles::Tensor, 2>;
  std::vector<Halves>
      factors;  // of dropout, [R,E] of both halves of each block; empty: nothing is dropped

  // Draws the factors. REQUIRES: all of the above.
  void draw_factors();
  [[nodiscard]] oracles::DropoutInputs dropping(std::size_t layer,
                                                std::int64_t site,
                                                const oracles::Tensor& branch) const;
  // A branch behind its dropout, or its gradient from the one behind it.
  [[nodiscard]] oracles::Tensor dropped(std::size_t layer,
                                        std::int64_t site,
                                        oracles::Tensor branch) const;
  [[nodiscard]] const oracles::Tensor& gain(const std::string& name) const {
    return small.at(name + ".weight");
  }
  [[nodiscard]] bool is_tied() const { return large.count("lm_head.weight") == 0; }
  [[nodiscard]] const oracles::Matrix& head() const {
    return large.at(is_tied() ? "embed.weight" : "lm_head.weight");
  }
  [[nodiscard]] oracles::MlpWeights mlp(std::size_t layer) const;
};

// The residual stream, computed from recorded borders: entering[l] is what enters block l, middle[l] what enters its norm2.
struct Stream {
  std::vector<oracles::Tensor> entering;  // L + 1
  std::vector<oracles::Tensor> middle;    // L
};

// What is wrong in the forward (operation, layer and laws), or nothing; then the stream is complete.
[[nodiscard]] std::optional<Departure> judge_forward(const ModelRows& model, Stream& stream);
[[nodiscard]] std::optional<Departure> judge_backward(const ModelRows& model,
                                                         const Stream& stream);

// How far a number may be off: 64 sqrt(n) u of the largest one, n the terms of the longest sum. Where results are kept in a
// narrower type than sums are taken in: eight standard deviations of the roundings on the way, of the number and its row's mean
// square.
[[nodiscard]] oracles::Expected within_ceiling(oracles::Tensor value, const ModelRows& model);

}  // namespace harness::checks
