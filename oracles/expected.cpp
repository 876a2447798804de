#include "oracles/expected.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>
#include <vector>

#include "oracles/parallel.h"

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

// How the numbers of one part are counted.
struct Fit {
  std::int64_t judged = 0;  // wrong ones
  double explained = 0;
  double contradicted = 0;
};

// Adds one part; false where the law misses a number that is wrong.
bool add_part(const FoundPart& part, const std::optional<Expected>& output, bool whole, Fit& fit) {
  const bool comparable = part.right.value.data.size() == part.found.size();
  const bool fits = output && output->value.data.size() == part.found.size();
  bool any_wrong = !comparable;
  bool any_missed = !fits;
  double contradicted = 0;
  for (std::size_t i = 0; i < part.found.size(); ++i) {
    const double found = part.found[i];
    const bool wrong = !comparable || !is_given(found, part.right, i);
    const bool given = fits && is_given(found, *output, i) && (!wrong || tells(found, *output, i));
    if (wrong && !given) return false;
    const double times = part.stands_for.empty() ? 1 : part.stands_for[i];
    any_wrong = any_wrong || wrong;
    any_missed = any_missed || !given;
    fit.judged += wrong ? 1 : 0;
    fit.explained += wrong ? times : 0;
    contradicted += given ? 0 : times;
  }
  if (any_wrong && any_missed && whole) return false;
  fit.contradicted += fits ? contradicted : 0;  // a law without a meaning here says nothing of it
  return true;
}

Misfit misfit_of_part(const FoundPart& part) {
  if (part.right.value.data.size() == part.found.size()) {
    return misfit_of(part.found, part.right);
  }
  const auto count = static_cast<std::int64_t>(part.found.size());
  return {count, std::max<std::int64_t>(count, 1), 0, 0};
}

std::optional<LawFit> fit(const FoundParts& parts,
                          const std::vector<Misfit>& right,
                          const Candidate& candidate) {
  Fit sums;
  for (const bool wrong_ones : {true, false}) {  // the others cost as much, and rule out nothing
    for (std::size_t part = 0; part < parts.count; ++part) {
      if (right[part].fits() == wrong_ones) continue;
      if (!add_part(parts.part(part), candidate.output(part), parts.whole, sums)) {
        return std::nullopt;
      }
    }
  }
  LawFit law{candidate.law, {}, 1, candidate.detail};
  law.misfit.judged = sums.judged;
  law.share = sums.explained / (sums.explained + sums.contradicted);
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

Naming name_parts(const FoundParts& parts, std::span<const Candidate> candidates) {
  std::vector<Misfit> right(parts.count);
  parallel_for(static_cast<std::int64_t>(parts.count),
               1,
               parts.threads,
               [&](std::int64_t begin, std::int64_t end) {
                 for (auto part = static_cast<std::size_t>(begin);
                      part < static_cast<std::size_t>(end);
                      ++part) {
                   right[part] = misfit_of_part(parts.part(part));
                 }
               });
  Naming naming;
  for (const Misfit& part : right) {
    naming.right.add(part, naming.right.judged);
  }
  if (naming.right.fits()) {
    return naming;
  }
  for (const Candidate& candidate : candidates) {
    if (auto law = fit(parts, right, candidate)) {
      naming.fitting.push_back(std::move(*law));
    }
  }
  keep_the_strongest(naming.fitting);
  return naming;
}

Naming name_values(std::span<const double> found,
                   const Expected& right,
                   std::span<const Candidate> candidates) {
  return name_parts({1,
                     [&](std::size_t) {
                       return FoundPart{{found.begin(), found.end()}, right};
                     }},
                    candidates);
}

}  // namespace oracles
