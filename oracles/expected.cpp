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
bool add_part(const FoundPart& part,
              const std::optional<Expected>& output,
              std::size_t together,
              Fit& fit) {
  const std::size_t count = part.found.size();
  const bool comparable = part.right.value.data.size() == count;
  const bool fits = output && output->value.data.size() == count;
  if (!comparable && !fits) return false;
  const std::size_t step = together > 0 ? together : count;
  double contradicted = 0;
  for (std::size_t begin = 0; begin < count; begin += step) {
    bool any_wrong = false;
    bool all_given = true;
    for (std::size_t i = begin; i < std::min(begin + step, count); ++i) {
      const double times = part.stands_for.empty() ? 1 : part.stands_for[i];
      if (times == 0) continue;
      const double found = part.found[i];
      const bool wrong = !comparable || !is_given(found, part.right, i);
      const bool given =
          fits && is_given(found, *output, i) && (!wrong || tells(found, *output, i));
      any_wrong = any_wrong || wrong;
      all_given = all_given && given;
      fit.judged += wrong ? 1 : 0;
      fit.explained += wrong ? times : 0;
      contradicted += given ? 0 : times;
    }
    if (any_wrong && !all_given) return false;
  }
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

std::vector<Misfit> misfits_of(const FoundParts& parts) {
  std::vector<Misfit> misfits(parts.count);
  const auto count = static_cast<std::int64_t>(parts.count);
  parallel_for(count, 1, parts.threads, [&](std::int64_t begin, std::int64_t end) {
    for (auto part = static_cast<std::size_t>(begin); part < static_cast<std::size_t>(end);
         ++part) {
      misfits[part] = misfit_of_part(parts.part(part));
    }
  });
  return misfits;
}

Misfit sum_of(const std::vector<Misfit>& misfits) {
  Misfit sum;
  for (const Misfit& part : misfits) {
    sum.add(part, sum.judged);
  }
  return sum;
}

std::optional<LawFit> fit(const FoundParts& parts,
                          const std::vector<Misfit>& right,
                          const WrongLaw<std::size_t>& law,
                          std::size_t form) {
  Fit sums;
  for (const bool wrong_ones : {true, false}) {  // the others cost as much, and rule out nothing
    for (std::size_t part = 0; part < parts.count; ++part) {
      if (right[part].fits() == wrong_ones) continue;
      if (!add_part(parts.part(part), law.gives(part, form), parts.together, sums)) {
        return std::nullopt;
      }
    }
  }
  return LawFit{
      law.law, {.judged = sums.judged}, sums.explained / (sums.explained + sums.contradicted), {}};
}

}  // namespace

Expected rounded_once(Tensor value, double roundoff) {
  Tensor bound = value;
  for (double& number : bound.data) {
    number = roundoff * std::abs(number);
  }
  return {std::move(value), std::move(bound)};
}

Expected one_number(double value, double bound) {
  return {{{1}, {value}}, {{1}, {bound}}};
}

void require_size(std::span<const double> found, const Expected& expected) {
  if (found.size() != expected.value.data.size()) {
    throw std::invalid_argument("found " + std::to_string(found.size()) + " numbers, wanted " +
                                shape_text(expected.value.shape));
  }
}

Misfit misfit_of(std::span<const double> found, const Expected& expected) {
  require_size(found, expected);
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

Misfit misfit_of(const FoundParts& parts) {
  return sum_of(misfits_of(parts));
}

Naming name_parts(const std::vector<WrongLaw<std::size_t>>& laws, const FoundParts& parts) {
  const std::vector<Misfit> right = misfits_of(parts);
  Naming naming{sum_of(right), {}};
  if (naming.right.fits()) {
    return naming;
  }
  for (const WrongLaw<std::size_t>& law : laws) {
    if (law.law.last && !naming.fitting.empty()) continue;
    const std::vector<std::string> forms = law.forms_of(0);
    for (std::size_t form = 0; form < forms.size(); ++form) {
      if (auto found = fit(parts, right, law, form)) {
        naming.fitting.push_back(std::move(*found));
        naming.fitting.back().detail = forms[form];
      }
    }
  }
  keep_the_strongest(naming.fitting);
  return naming;
}

}  // namespace oracles
