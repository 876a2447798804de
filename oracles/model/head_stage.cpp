#include "oracles/model/head_stage.h"

#include <cmath>
#include <string>

#include "oracles/model/linear_rows.h"
#include "oracles/model/stage_naming.h"

namespace oracles {
namespace {

Expected logits_of(const HeadInputs& in, const Tensor& x, const Matrix& weight) {
  return expected_linear({x, {}}, weight, false, in.rounding, in.threads);
}

// cap tanh(z / cap), whose slope is at most 1.
Expected capped(Expected e, double cap, const Rounding& rounding) {
  for (std::size_t i = 0; i < e.value.data.size(); ++i) {
    e.value.data[i] = cap * std::tanh(e.value.data[i] / cap);
    e.bound.data[i] += 4 * rounding.summed * std::abs(e.value.data[i]);
  }
  return e;
}

using Rule = WrongLaw<HeadInputs>;
using In = const HeadInputs&;

Rule scaled(std::string_view name, std::string_view about, double power) {
  return {{name, about}, [power](In in, std::size_t) {
            const double scale = std::pow(static_cast<double>(in.x.shape.at(1)), power);
            Expected e = logits_of(in, in.x, in.head);
            for (std::size_t i = 0; i < e.value.data.size(); ++i) {
              e.value.data[i] *= scale;
              e.bound.data[i] *= scale;
            }
            return e;
          }};
}

constexpr double kCaps[] = {30, 50, 15};

const std::vector<Rule>& head_rules() {
  static const std::vector<Rule> kRules{
      {{"head_tied", "embed.weight in the place of lm_head.weight"},
       [](In in, std::size_t) -> std::optional<Expected> {
         if (in.table.numbers.empty()) {
           return std::nullopt;
         }
         return logits_of(in, in.x, in.table);
       }},
      {{"head_of_other_input", "the logits of another tensor"},
       [](In in, std::size_t choice) { return logits_of(in, in.others[choice].rows, in.head); },
       [](In in) {
         std::vector<std::string> names;
         for (const NamedRows& other : in.others) {
           names.push_back(other.name);
         }
         return names;
       }},
      scaled("head_over_root_width", "divided by sqrt(E)", -0.5),
      scaled("head_times_root_width", "multiplied by sqrt(E)", 0.5),
      {{"head_capped", "c tanh(logit / c)"},
       [](In in, std::size_t choice) {
         return capped(logits_of(in, in.x, in.head), kCaps[choice], in.rounding);
       },
       [](In) {
         return std::vector<std::string>{"c = 30", "c = 50", "c = 15"};
       }},
      {{"head_transposed", "lm_head.weight read as [E,V]"},
       [](In in, std::size_t) -> std::optional<Expected> {
         const Matrix read{in.head.numbers, in.head.columns, in.head.rows};
         return expected_linear({in.x, {}}, read, true, in.rounding, in.threads);
       }},
      {{"head_zero", "zeros"}, [](In in, std::size_t) {
         const Shape shape{in.x.shape.at(0), in.head.rows};
         return Expected{zeros(shape), zeros(shape)};
       }}};
  return kRules;
}

constexpr LastLaws kLast{{"head_factor", "the logits times a factor"},
                         {"head_kept_narrow", "the logits have fewer digits"}};
constexpr Law kBias{
    "head_bias", "a number of its own is added to every logit, in every row", /*fitted=*/true};

// found - right, the same in all rows.
bool is_biased(const std::vector<double>& found, const Expected& right) {
  const std::int64_t rows = right.value.shape[0];
  const std::int64_t width = right.value.shape[1];
  for (std::int64_t i = width; i < rows * width; ++i) {
    const double first = found[i % width] - right.value.data[i % width];
    const double own = found[i] - right.value.data[i];
    // Twice the bounds: the first row's difference is off by its own.
    if (!(std::abs(own - first) <= 2 * (right.bound.data[i] + right.bound.data[i % width]))) {
      return false;
    }
  }
  return rows > 1;
}

}  // namespace

Expected expected_logits(In in) {
  return logits_of(in, in.x, in.head);
}

std::span<const Law> head_laws() {
  static const std::vector<Law> kLaws = [] {
    std::vector<Law> laws = laws_of(head_rules(), kLast);
    laws.push_back(kBias);
    return laws;
  }();
  return kLaws;
}

std::optional<Expected> head_under(std::string_view law, std::size_t choice, In in) {
  return given_by(head_rules(), law, in, choice);
}

Naming name_logits(const Tensor& found, In in) {
  const Expected right = expected_logits(in);
  Naming naming = name_by_laws(head_rules(), kLast, in, found.data, right);
  if (!naming.right.fits() && naming.fitting.empty() && is_biased(found.data, right)) {
    naming.fitting.push_back({kBias, {}, 1, {}});
  }
  return naming;
}

}  // namespace oracles
