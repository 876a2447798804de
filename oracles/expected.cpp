#include "oracles/expected.h"

#include <cmath>
#include <stdexcept>
#include <utility>
#include <vector>

namespace oracles {
namespace {

bool is_given(double found, const Expected& expected, std::size_t i) {
  const double wanted = expected.value.data[i];
  return std::abs(found - wanted) <= expected.bound.data[i] || found == wanted;
}

// An infinite bound, of a division by zero, is kept by every number: it tells nothing of the one that was found.
bool tells(double found, const Expected& expected, std::size_t i) {
  return std::isfinite(expected.bound.data[i]) || found == expected.value.data[i];
}

// None where the candidate misses a number that is wrong.
std::optional<LawFit> fit(std::span<const double> found,
                          const std::vector<bool>& wrong,
                          const Candidate& candidate) {
  const std::optional<Expected> output = candidate.output();
  if (!output || output->value.data.size() != found.size()) {
    return std::nullopt;
  }
  LawFit law{candidate.law, {}, 1, candidate.detail};
  double contradicted = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const bool given = is_given(found[i], *output, i) && (!wrong[i] || tells(found[i], *output, i));
    if (wrong[i] && !given) {
      return std::nullopt;
    }
    law.misfit.judged += wrong[i] ? 1 : 0;
    contradicted += given ? 0 : 1;
  }
  const auto explained = static_cast<double>(law.misfit.judged);
  law.share = explained / (explained + contradicted);
  return law;
}

}  // namespace

Expected rounded_once(Tensor value, double roundoff) {
  Tensor bound = value;
  for (double& number : bound.data) {
    number = roundoff * std::abs(number);
  }
  return {std::move(value), std::move(bound)};
}

Misfit misfit_of(std::span<const double> found, const Expected& expected) {
  if (found.size() != expected.value.data.size()) {
    throw std::invalid_argument("found " + std::to_string(found.size()) + " numbers, wanted " +
                                shape_text(expected.value.shape));
  }
  Misfit misfit;
  for (std::size_t i = 0; i < found.size(); ++i) {
    misfit.add(
        static_cast<std::int64_t>(i), found[i], expected.value.data[i], expected.bound.data[i]);
  }
  return misfit;
}

Misfit misfit_of(const Numbers& found, const Expected& expected) {
  return misfit_of(std::span<const double>(found.values()), expected);
}

Naming name_values(std::span<const double> found,
                   const Expected& right,
                   std::span<const Candidate> candidates) {
  Naming naming{misfit_of(found, right), {}};
  if (naming.right.fits()) {
    return naming;
  }
  std::vector<bool> wrong;
  for (std::size_t i = 0; i < found.size(); ++i) {
    wrong.push_back(!is_given(found[i], right, i));
  }
  for (const Candidate& candidate : candidates) {
    if (auto law = fit(found, wrong, candidate)) {
      naming.fitting.push_back(std::move(*law));
    }
  }
  keep_the_strongest(naming.fitting);
  return naming;
}

}  // namespace oracles
