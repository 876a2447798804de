#include "harness/checks/kernel/kernel_roundings.h"

#include <algorithm>
#include <array>

#include "harness/checks/nearer.h"
#include "oracles/attention/narrow_steps.h"

namespace harness::checks {
namespace {

using oracles::ScoreRounding;
using oracles::Tensor;

struct Rounding {
  const char* law;
  ScoreRounding how;
  const char* about;
};
constexpr std::array kRoundings = {
    Rounding{kScaledQuery,
             ScoreRounding::scaled_query,
             "the queries times the scale are rounded to their type before they meet the keys"},
    Rounding{
        kScaledQuery,
        ScoreRounding::scaled_query_log2,
        "the queries times the scale and log2 e are rounded to their type before they meet the "
        "keys"},
    Rounding{kScores,
             ScoreRounding::scores,
             "the scores are rounded to the type of the queries before they get the scale"},
    Rounding{kScores,
             ScoreRounding::scaled_scores,
             "the scores times the scale are rounded to the type of the queries"},
    Rounding{kScores,
             ScoreRounding::scores_twice,
             "the scores are rounded to the type of the queries before and after they get the "
             "scale"}};

Tensor output_with(const Rounding& rounding, const NarrowOutput& of) {
  return with_score_rounding(of.plain, of.branch, rounding.how, of.factor);
}

}  // namespace

bool is_rounding(const std::string& law) {
  return std::any_of(kRoundings.begin(), kRoundings.end(), [&](const Rounding& rounding) {
    return law == rounding.law;
  });
}

std::optional<NamedRounding> rounding_of(const NarrowOutput& output) {
  const Tensor plain = output.plain.right(output_stage(output.branch));
  std::optional<NamedRounding> best;
  double least = 0.0;
  for (const Rounding& rounding : kRoundings) {
    Tensor other = output_with(rounding, output);
    const Nearer seen = nearer_to(other, output.found, plain);
    if (!seen.is_nearer() || (best && seen.from_other >= least)) continue;
    least = seen.from_other;
    KnownLaw law{rounding.law, rounding.about};
    law.share = 1.0;
    best = NamedRounding{std::move(law), std::move(other)};
  }
  return best;
}

bool refutes_rounding(const std::string& law, const NarrowOutput& output) {
  const Tensor plain = output.plain.right(output_stage(output.branch));
  return std::all_of(kRoundings.begin(), kRoundings.end(), [&](const Rounding& rounding) {
    return law != rounding.law ||
           nearer_to(plain, output.found, output_with(rounding, output)).is_nearer();
  });
}

}  // namespace harness::checks
