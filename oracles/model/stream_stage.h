// The residual stream and the embedding, judged from recorded rows: x = embed[token]; x = x + branch.
// A sum is rounded once, |dx| <= stored|x| + f; a row of the table is copied.
// Legend: R rows, E width, V vocabulary.
#pragma once

#include <vector>

#include "oracles/expected.h"
#include "oracles/model/norm_stage.h"
#include "oracles/model/stage_naming.h"
#include "oracles/rounding.h"

namespace oracles {

// Forward: stream is what enters a half of a block, branch what its attention or mlp gave. Backward
// the same law holds: the gradient that enters is the one that leaves (stream) plus the one that the
// norm's backward gave (branch).
struct ResidualInputs {
  Tensor stream;  // [R,E]
  Tensor branch;  // [R,E]
  // [R,E]: how far the branch may be off where it is not on record but computed (the gradient that a
  // norm's backward adds to what goes past it is rarely on record); empty: it is exact.
  Tensor branch_bound = {};
  std::vector<NamedRows> others = {};  // [R,E]: the norm's result, what entered another block, ...
  Rounding rounding = Rounding::of(Number::f32);
};

Expected expected_residual(const ResidualInputs& inputs);

const StageLibrary<ResidualInputs>& residual_laws();

struct EmbeddingInputs {
  IntTensor tokens;                // [B,S]
  std::vector<std::int64_t> rows;  // of B*S, that were found
  Matrix table;                    // [V,E]
  Matrix head;                     // [V,E], lm_head.weight; no numbers where it is not on record
  Rounding rounding = Rounding::of(Number::f32);
};

// [R,E]. Throws std::invalid_argument where a token is none of the table's, or shapes do not fit.
Expected expected_embedding(const EmbeddingInputs& inputs);

const StageLibrary<EmbeddingInputs>& embedding_laws();

// The table's gradient [V,E]: the rows of dx, each added to its token's row. A row that c tokens add
// to, in any order, is off by at most (c + 1) summed sum|dx| + stored|g| + f. Where the head is tied,
// dlogits^T normed is added: off by at most (4 sqrt(R) + 2) summed sum|dlogits normed| + 2 stored|it| + f,
// with what is lost of terms too small for the sum, and the sum of both, which is rounded once more, by stored|g|.
struct EmbeddingGradientInputs {
  IntTensor tokens;  // [B,S]
  Matrix dx;         // [B*S,E]
  std::int64_t vocab_size = 0;
  Rounding rounding = Rounding::of(Number::f32);
  double scale = 1;     // of the sum
  Matrix dlogits = {};  // [B*S,V] of a tied head, with
  Matrix normed = {};   // [B*S,E] what entered it; no numbers where the head is not tied
};
Expected expected_embedding_gradient(const EmbeddingGradientInputs& inputs);

const StageLibrary<EmbeddingGradientInputs>& embedding_gradient_laws();

}  // namespace oracles
