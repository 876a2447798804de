#include "oracles/model/stage_naming.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace oracles {
namespace {

std::string text_of(double value) {
  char text[32];
  const auto done = std::to_chars(text, text + sizeof(text), value, std::chars_format::general, 6);
  return {text, done.ptr};
}

// found = factor * right, the factor taken where the right number is largest. A factor is told apart
// from rounding, and from a mistake of few numbers, by being the same everywhere.
std::optional<LawFit> fitted_factor(const std::vector<double>& found,
                                    const Expected& right,
                                    const Law& law) {
  std::size_t largest = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (std::abs(right.value.data[i]) > std::abs(right.value.data[largest])) {
      largest = i;
    }
  }
  if (found.size() < 4 || !(std::abs(right.value.data[largest]) > 0)) {
    return std::nullopt;
  }
  if (std::abs(found[largest] - right.value.data[largest]) <= right.bound.data[largest]) {
    return std::nullopt;  // the factor is 1: it explains nothing
  }
  const double factor = found[largest] / right.value.data[largest];
  const double own = right.bound.data[largest] / std::abs(right.value.data[largest]);
  Misfit misfit;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double bound = std::abs(factor) * right.bound.data[i] + right.bound.data[i] +
                         own * std::abs(factor * right.value.data[i]);
    misfit.add(static_cast<std::int64_t>(i), found[i], factor * right.value.data[i], bound);
  }
  if (!misfit.fits() || !std::isfinite(factor)) {
    return std::nullopt;
  }
  return LawFit{{law.name, law.about, /*fitted=*/true}, misfit, 1, "factor " + text_of(factor)};
}

std::optional<LawFit> kept_narrow(const std::vector<double>& found,
                                  const Expected& right,
                                  const Law& law) {
  for (const Number number : {Number::f16, Number::bf16}) {
    Misfit misfit;
    bool kept = true;
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double wanted = right.value.data[i];
      const double bound =
          right.bound.data[i] + unit_roundoff(number) * std::abs(wanted) + spacing(0, number);
      kept = kept && found[i] == rounded(found[i], number);
      misfit.add(static_cast<std::int64_t>(i), found[i], wanted, bound);
    }
    if (kept && misfit.fits()) {
      return LawFit{law, misfit, 1, std::string(number_name(number)) + " digits"};
    }
  }
  return std::nullopt;
}

}  // namespace

Naming with_last(Naming naming,
                 const std::vector<double>& found,
                 const Expected& right,
                 const LastLaws& last) {
  merge_forms(naming.fitting);
  if (naming.right.fits() || !naming.fitting.empty()) {
    return naming;
  }
  for (auto&& law :
       {kept_narrow(found, right, last.narrow), fitted_factor(found, right, last.factor)}) {
    if (law) {
      naming.fitting.push_back(*law);
      break;
    }
  }
  return naming;
}

}  // namespace oracles
