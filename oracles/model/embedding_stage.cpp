// The embedding of stream_stage.h, forward and backward.
#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "oracles/model/stream_stage.h"

namespace oracles {
namespace {

void require_tokens(const IntTensor& tokens, std::int64_t vocabulary) {
  require_shape(tokens, {tokens.shape.at(0), tokens.shape.at(1)}, "tokens");
  for (const std::int64_t token : tokens.data) {
    if (token < 0 || token >= vocabulary) {
      throw std::invalid_argument("token " + std::to_string(token) + ", wanted 0 to " +
                                  std::to_string(vocabulary - 1));
    }
  }
}

// Row i of the result is `scale` times row index(i) of a table; none below 0.
template <typename Index>
Expected gathered(const EmbeddingInputs& in, const Matrix& table, double scale, Index index) {
  Tensor rows = zeros({static_cast<std::int64_t>(in.rows.size()), table.columns});
  for (std::size_t i = 0; i < in.rows.size(); ++i) {
    const std::int64_t from = index(in.rows[i]);
    if (from < 0) {
      continue;
    }
    double* const to = rows.data.data() + static_cast<std::int64_t>(i) * table.columns;
    table.row(from).copy_to(to);
    for (std::int64_t c = 0; c < table.columns; ++c) {
      to[c] *= scale;
    }
  }
  return rounded_once(std::move(rows), in.rounding.stored);
}

// The token `shift` positions on in the same sequence; that at the border beyond it.
std::int64_t token_at(const EmbeddingInputs& in, std::int64_t row, std::int64_t shift) {
  const std::int64_t length = in.tokens.shape[1];
  const std::int64_t s = row % length + shift;
  return s < 0 || s >= length ? -1 : in.tokens.data[row - row % length + s];
}

using Rule = WrongLaw<EmbeddingInputs>;
using In = const EmbeddingInputs&;

// Rows of the table at an index that depends on the place.
template <typename Index>
Rule at_index(std::string_view name, std::string_view about, Index index) {
  return {{name, about}, [index](In in, std::size_t) {
            return gathered(in, in.table, 1, [&](std::int64_t row) { return index(in, row); });
          }};
}

Rule scaled(std::string_view name, std::string_view about, double power) {
  return {{name, about}, [power](In in, std::size_t) {
            const double scale = std::pow(static_cast<double>(in.table.columns), power);
            return gathered(
                in, in.table, scale, [&](std::int64_t row) { return in.tokens.data[row]; });
          }};
}

const std::vector<Rule>& forward_rules() {
  static const std::vector<Rule> kRules{
      at_index("embed_next_row",
               "the row of token + 1",
               [](In in, std::int64_t row) { return (in.tokens.data[row] + 1) % in.table.rows; }),
      at_index("embed_row_before",
               "the row of token - 1",
               [](In in, std::int64_t row) {
                 return (in.tokens.data[row] + in.table.rows - 1) % in.table.rows;
               }),
      at_index("embed_one_late",
               "the token one position before, and zeros at the first",
               [](In in, std::int64_t row) { return token_at(in, row, -1); }),
      at_index("embed_one_early",
               "the token one position further, and zeros at the last",
               [](In in, std::int64_t row) { return token_at(in, row, 1); }),
      at_index("embed_of_position",
               "the position in the place of the token",
               [](In in, std::int64_t row) { return row % in.tokens.shape[1] % in.table.rows; }),
      at_index("embed_of_first_sequence",
               "every sequence gets the tokens of the first",
               [](In in, std::int64_t row) { return in.tokens.data[row % in.tokens.shape[1]]; }),
      at_index("embed_padding",
               "token 0 gets zeros",
               [](In in, std::int64_t row) {
                 return in.tokens.data[row] == 0 ? -1 : in.tokens.data[row];
               }),
      scaled("embed_times_root_width", "multiplied by sqrt(E)", 0.5),
      scaled("embed_over_root_width", "divided by sqrt(E)", -0.5),
      {{"embed_of_head", "rows of lm_head in the place of embed"},
       [](In in, std::size_t) -> std::optional<Expected> {
         if (in.head.numbers.empty()) {
           return std::nullopt;
         }
         return gathered(in, in.head, 1, [&](std::int64_t row) { return in.tokens.data[row]; });
       }},
      at_index("embed_zero", "zeros", [](In, std::int64_t) { return std::int64_t{-1}; })};
  return kRules;
}

constexpr LastLaws kLast{{"embed_factor", "the embedding times a factor"},
                         {"embed_kept_narrow", "the embedding has fewer digits"}};

using Back = const EmbeddingGradientInputs&;
using BackRule = WrongLaw<EmbeddingGradientInputs>;

// add(i, term) for every term of dlogits^T normed, i the number's place.
template <typename Add>
void each_head_term(Back in, Add add) {
  const std::int64_t width = in.normed.columns;
  std::vector<double> x(static_cast<std::size_t>(width));
  std::vector<double> d(static_cast<std::size_t>(in.vocab_size));
  for (std::int64_t r = 0; r < in.normed.rows; ++r) {
    in.normed.row(r).copy_to(x.data());
    in.dlogits.row(r).copy_to(d.data());
    for (std::int64_t v = 0; v < in.vocab_size; ++v) {
      if (d[static_cast<std::size_t>(v)] == 0) continue;
      for (std::int64_t c = 0; c < width; ++c) {
        add(static_cast<std::size_t>(v * width + c),
            d[static_cast<std::size_t>(v)] * x[static_cast<std::size_t>(c)]);
      }
    }
  }
}

// Where the softmax is peaked, one or two terms carry the sum. Then every later addition rounds at the whole sum, which is all
// that sum_roundoff allows for: 4.6 standard deviations of such roundings, and a table has thousands of these sums. 4 sqrt(n) are
// 7.
double peaked_roundoff(std::int64_t terms) {
  const auto n = static_cast<double>(terms);
  return std::min(n, 4 * std::sqrt(n)) + 2;
}

// Of a tied head: dlogits^T normed.
void add_head(Back in, Expected& e) {
  require_matrix(in.dlogits, in.normed.rows, in.vocab_size, "dlogits");
  Tensor value = zeros(e.value.shape);
  Tensor sizes = zeros(e.value.shape);
  each_head_term(in, [&](std::size_t i, double term) {
    value.data[i] += term;
    sizes.data[i] += std::abs(term);
  });
  // Terms of no more than some last digits of the sum: they are lost as a whole, and no other rounding makes up for it.
  Tensor lost = zeros(e.value.shape);
  each_head_term(in, [&](std::size_t i, double term) {
    if (std::abs(term) < 4 * in.rounding.summed * sizes.data[i]) lost.data[i] += std::abs(term);
  });
  for (std::size_t i = 0; i < e.value.data.size(); ++i) {
    e.bound.data[i] += peaked_roundoff(in.normed.rows) * in.rounding.summed * sizes.data[i] +
                       lost.data[i] + 2 * in.rounding.stored * std::abs(value.data[i]) +
                       in.rounding.flushed;
    e.value.data[i] += value.data[i];
    e.bound.data[i] += in.rounding.stored * std::abs(e.value.data[i]);
  }
}

// Rows of dx are added to the row that `index` gives, as far as `counts` says; a tied head's part besides.
template <typename Index, typename Counts>
Expected scattered(Back in, Index index, Counts counts) {
  const std::int64_t width = in.dx.columns;
  require_tokens(in.tokens, in.vocab_size);
  require_matrix(in.dx, static_cast<std::int64_t>(in.tokens.data.size()), width, "dx");
  Expected e{zeros({in.vocab_size, width}), zeros({in.vocab_size, width})};
  std::vector<double> terms(static_cast<std::size_t>(in.vocab_size));
  std::vector<double> row(static_cast<std::size_t>(width));
  for (std::int64_t r = 0; r < in.dx.rows; ++r) {
    const std::int64_t to = index(r);
    if (to < 0 || !counts(r, to)) {
      continue;
    }
    terms[static_cast<std::size_t>(to)] += 1;
    in.dx.row(r).copy_to(row.data());
    for (std::int64_t c = 0; c < width; ++c) {
      e.value.data[to * width + c] += in.scale * row[c];
      e.bound.data[to * width + c] += std::abs(in.scale * row[c]);
    }
  }
  for (std::int64_t i = 0; i < in.vocab_size * width; ++i) {
    const double roundings = terms[static_cast<std::size_t>(i / width)] + 1;
    e.bound.data[i] = roundings * in.rounding.summed * e.bound.data[i] +
                      in.rounding.stored * std::abs(e.value.data[i]) + in.rounding.flushed;
  }
  if (!in.normed.numbers.empty()) {
    add_head(in, e);
  }
  return e;
}

constexpr auto kAlways = [](std::int64_t, std::int64_t) { return true; };

// The first or the last row of each token.
std::vector<std::int64_t> chosen_rows(Back in, bool last) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(in.vocab_size), -1);
  for (std::int64_t r = 0; r < in.dx.rows; ++r) {
    std::int64_t& row = rows[static_cast<std::size_t>(in.tokens.data[r])];
    row = row < 0 || last ? r : row;
  }
  return rows;
}

Expected of_chosen(Back in, bool last) {
  const std::vector<std::int64_t> rows = chosen_rows(in, last);
  return scattered(
      in,
      [&](std::int64_t r) { return in.tokens.data[r]; },
      [&](std::int64_t r, std::int64_t token) {
        return rows[static_cast<std::size_t>(token)] == r;
      });
}

Expected mean_of_tokens(Back in) {
  Expected e = scattered(
      in, [&](std::int64_t r) { return in.tokens.data[r]; }, kAlways);
  std::vector<double> counts(static_cast<std::size_t>(in.vocab_size), 0.0);
  for (const std::int64_t token : in.tokens.data) {
    counts[static_cast<std::size_t>(token)] += 1;
  }
  for (std::size_t i = 0; i < e.value.data.size(); ++i) {
    const double count = std::max(1.0, counts[i / static_cast<std::size_t>(in.dx.columns)]);
    e.value.data[i] /= count;
    e.bound.data[i] /= count;
  }
  return e;
}

const std::vector<BackRule>& back_rules() {
  static const std::vector<BackRule> kRules{
      {{"embed_gradient_last_alone", "a token's last row in the place of the sum of all"},
       [](Back in, std::size_t) { return of_chosen(in, true); }},
      {{"embed_gradient_first_alone", "a token's first row in the place of the sum of all"},
       [](Back in, std::size_t) { return of_chosen(in, false); }},
      {{"embed_gradient_mean", "the mean of a token's rows in the place of their sum"},
       [](Back in, std::size_t) { return mean_of_tokens(in); }},
      {{"embed_gradient_next_row", "added to the row of token + 1"},
       [](Back in, std::size_t) {
         return scattered(
             in, [&](std::int64_t r) { return (in.tokens.data[r] + 1) % in.vocab_size; }, kAlways);
       }},
      {{"embed_gradient_of_targets", "added to the row of the next token of the text"},
       [](Back in, std::size_t) {
         const std::int64_t length = in.tokens.shape[1];
         return scattered(
             in,
             [&](std::int64_t r) {
               return r % length + 1 == length ? std::int64_t{-1} : in.tokens.data[r + 1];
             },
             kAlways);
       }},
      {{"embed_gradient_padding", "token 0 gets no gradient"},
       [](Back in, std::size_t) {
         return scattered(
             in,
             [&](std::int64_t r) {
               return in.tokens.data[r] == 0 ? std::int64_t{-1} : in.tokens.data[r];
             },
             kAlways);
       }},
      {{"embed_gradient_without_head", "a tied head's part is missing"},
       [](Back in, std::size_t) -> std::optional<Expected> {
         if (in.normed.numbers.empty()) {
           return std::nullopt;
         }
         EmbeddingGradientInputs alone = in;
         alone.normed = alone.dlogits = {};
         return expected_embedding_gradient(alone);
       }},
      {{"embed_gradient_of_head_alone", "of a tied head the head's part alone"},
       [](Back in, std::size_t) -> std::optional<Expected> {
         if (in.normed.numbers.empty()) {
           return std::nullopt;
         }
         return scattered(
             in, [](std::int64_t) { return std::int64_t{-1}; }, kAlways);
       }},
      {{"embed_gradient_zero", "zeros"}, [](Back in, std::size_t) {
         const Shape shape{in.vocab_size, in.dx.columns};
         return Expected{zeros(shape), zeros(shape)};
       }}};
  return kRules;
}

constexpr LastLaws kLastBack{
    {"embed_gradient_factor", "the embedding's gradient times a factor"},
    {"embed_gradient_kept_narrow", "the embedding's gradient has fewer digits"}};

}  // namespace

Expected expected_embedding(In in) {
  require_tokens(in.tokens, in.table.rows);
  return gathered(in, in.table, 1, [&](std::int64_t row) { return in.tokens.data.at(row); });
}

Expected expected_embedding_gradient(Back in) {
  return scattered(
      in, [&](std::int64_t r) { return in.tokens.data[r]; }, kAlways);
}

const StageLibrary<EmbeddingInputs>& embedding_laws() {
  static const StageLibrary<EmbeddingInputs> kLibrary(forward_rules(), kLast, &expected_embedding);
  return kLibrary;
}
const StageLibrary<EmbeddingGradientInputs>& embedding_gradient_laws() {
  static const StageLibrary<EmbeddingGradientInputs> kLibrary(
      back_rules(), kLastBack, &expected_embedding_gradient);
  return kLibrary;
}

}  // namespace oracles
