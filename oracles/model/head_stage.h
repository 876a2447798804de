// The head, logits = lm_head norm_f(x), and the loss, judged from recorded rows.
// Legend: R rows, E width, V vocabulary, B sequences, S tokens, N = B (S - 1) positions that predict,
// or those of them that a mask scores.
//
// A logit is off as linear_rows.h says. The loss of a row, log sum exp(z) - z_target, by
//   (sum_roundoff(V) + 6) summed + 4 summed (|largest z| + |z_target| + loss),
// the mean over N rows, in any order, by the mean of that + sum_roundoff(N) summed |loss| + stored|loss|.
// Its gradient (p - [v = target]) / N, p the softmax, by
//   (sum_roundoff(V) + 8 + 2 spread) summed (p + [v = target]) / N + stored|dlogit| + f,
// where spread is the largest distance of two logits of the row: rounding a logit moves exp(z - largest).
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "oracles/expected.h"
#include "oracles/model/norm_stage.h"
#include "oracles/rounding.h"

namespace oracles {

struct HeadInputs {
  Tensor x;                            // [R,E] what norm_f gave
  std::vector<NamedRows> others = {};  // [R,E]: what entered norm_f, the row before, ...
  Matrix head;                         // [V,E]
  Matrix table;                        // [V,E], embed.weight; no numbers where it is not on record
  Rounding rounding = Rounding::of(Number::f32);
  int threads = 0;
};

// [R,V]. Throws std::invalid_argument where shapes do not fit.
Expected expected_logits(const HeadInputs& inputs);

// As StageLibrary (stage_naming.h), for both libraries here.
std::span<const Law> head_laws();
std::optional<Expected> head_under(std::string_view law, std::size_t choice, const HeadInputs& in);
// With "head_bias": the same number is added to a logit in every row.
Naming name_logits(const Tensor& found, const HeadInputs& inputs);

// What a run recorded of its loss: one micro-batch of one rank.
struct LossInputs {
  Matrix logits;     // [B*S,V] all rows
  IntTensor tokens;  // [B,S]
  // Rows of B*S whose gradient is on record too; may be empty.
  std::vector<std::int64_t> rows = {};
  double gradient_scale = 1;  // of the gradient: loss scale, share of the micro-batch
  std::int64_t width = 0;     // E, for logits that are scaled by its root; 0: unknown
  Rounding rounding = Rounding::of(Number::f32);
  // Of each sequence, how many of its first positions are scored; empty: S-1.
  std::vector<std::int64_t> scored = {};
  // Of each sequence, the lengths of its documents, whose last tokens are not scored; empty: it is one.
  std::vector<std::vector<std::int64_t>> documents = {};
};

// The mean loss first, then the gradients of the rows: [1 + R*V]. Throws std::invalid_argument where
// shapes or tokens do not fit.
Expected expected_loss(const LossInputs& inputs);

std::span<const Law> loss_laws();
std::optional<Expected> loss_under(std::string_view law, std::size_t choice, const LossInputs& in);
// found: the loss, then the gradients of the rows [R,V]. A loss alone is one number, which many laws
// could give by chance; rows make the law certain.
Naming name_loss(double loss, const Tensor& dlogits_RV, const LossInputs& inputs);

}  // namespace oracles
