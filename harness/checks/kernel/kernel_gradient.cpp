#include "harness/checks/kernel/kernel_gradient.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "harness/checks/ceilings.h"
#include "harness/checks/kernel/kernel_not_finite.h"
#include "oracles/laws/match.h"

namespace harness::checks {
namespace {

// A factor that is one moves every rounding along: before it and after it are the same.
bool has_root_of_two(std::int64_t d_k) {
  const auto width = static_cast<std::uint64_t>(d_k);
  return std::has_single_bit(width) && std::countr_zero(width) % 2 == 0;
}

// One way to compute a branch's backward in a narrow type.
struct RightBackward {
  bool narrow_products;
  oracles::Backward::Mean mean;
};

// The places where a backward in a narrow type is rounded are the kernel's choice, and what is lost at one of them says nothing of
// another: the rows of dq are differences. All of these are right: products of narrow numbers with the mean from the stored output;
// products of wide ones; what automatic differentiation makes of rounded probabilities, or of rounded numerators of the softmax
// beside a sum that is not rounded; and, where 1/sqrt(d_k) is no power of two, the first with that factor after the rounding.
std::vector<RightBackward> right_backwards(std::int64_t d_k) {
  using Mean = oracles::Backward::Mean;
  std::vector<RightBackward> ways{{true, Mean::of_output},
                                  {false, Mean::of_output},
                                  {true, Mean::of_rounded},
                                  {true, Mean::of_output_beside_rounded}};
  if (!has_root_of_two(d_k)) ways.push_back({true, Mean::of_output_scaled_last});
  return ways;
}

// `worst` becomes `plain` where that is further from what is right.
void keep_further(const oracles::Tensor& plain,
                  const oracles::Tensor& right,
                  oracles::Tensor& worst) {
  for (std::size_t i = 0; i < right.data.size(); ++i) {
    const double most = std::abs(worst.data[i] - right.data[i]);
    if (std::abs(plain.data[i] - right.data[i]) > most) worst.data[i] = plain.data[i];
  }
}

// Number by number off by as much as the worst of the right ways. With draw 0 they round to the nearest number, else as
// oracles::Kept::draw says.
Gradients worst_in_type(const LayerRecord& record, const GradientsOfCall& call, int draw) {
  Gradients worst = call.right;
  for (const auto& [narrow, mean] : right_backwards(record.config.d_k)) {
    oracles::Kept kept = *record.kept;
    kept.draw = static_cast<std::uint64_t>(draw);
    kept.narrow_products.fill(narrow);
    for (const Gradients& way : call.in_type(kept, mean)) {
      for (const auto& [name, tensor] : way) {
        keep_further(tensor, call.right.at(name), worst.at(name));
      }
    }
  }
  return worst;
}

}  // namespace

std::optional<Departure> judge_gradients_of_call(const LayerRecord& record,
                                                 const GradientsOfCall& call,
                                                 LayerJudgement& verdict,
                                                 std::vector<oracles::RecordedGradient>& judged) {
  double all = 0.0;
  for (const auto& [name, right] : call.right) all = std::max(all, oracles::finite_scale(right));
  std::map<int, Gradients> worst;  // by draw
  const auto yardstick = [&](int draw) -> const Gradients& {
    const auto at = worst.find(draw);
    return at != worst.end() ? at->second
                             : worst.emplace(draw, worst_in_type(record, call, draw)).first->second;
  };
  Departure seen;
  bool only_not_finite =
      true;  // of what is wrong, some numbers are not finite, and all others are right
  for (const auto& [name, right] : call.right) {
    const bool values = name.front() == 'v' || name == "gates";
    const double share = values ? kSmallestScaleShare : kSmallestCancellingShare;
    const double summed = record.arithmetic.summed;
    GradientLimits limits{right,
                          std::max(oracles::finite_scale(right), share * all),
                          ceiling(call.terms, record.unit_roundoff, summed)};
    limits.summed = ceiling(call.terms, summed) * limits.scale +
                    (name == "gates" ? call.rounding_of_gates : 0.0);
    limits.tell_heads_apart = [](Measured& measured) { tell_heads_apart(measured); };
    if (record.kept) {
      limits.yardstick = [&yardstick, of = name](int draw) -> const oracles::Tensor& {
        return yardstick(draw).at(of);
      };
    }
    const oracles::Tensor& found = call.found.at(name);
    const JudgedGradient one = judge_gradient(record, found, limits);
    judged.push_back({name, found, right, one.allowed});
    verdict.errors["d" + name] = one.error;
    verdict.compared["d" + name] = compared(
        found, right, one.allowed, oracles::wrong_vectors(found, right, one.allowed.of(right)));
    if (!one.wrong) continue;
    seen.tensors.push_back("d" + name);
    oracles::Tensor mended = found;
    only_not_finite = only_not_finite && mend_not_finite(right, mended) &&
                      !judge_gradient(record, mended, limits).wrong;
    keep_worst(one.error.value, one.error.limit, one.where, seen);
  }
  if (seen.tensors.empty()) return std::nullopt;
  seen.code = only_not_finite ? kNotFinite : "NUMERIC.GRADIENT";
  seen.site.phase = "backward";
  return seen;
}

}  // namespace harness::checks
