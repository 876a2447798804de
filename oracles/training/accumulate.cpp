#include "oracles/training/accumulate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "oracles/expected.h"
#include "oracles/parallel.h"

namespace oracles {
namespace {

constexpr std::int64_t kGrain = 65536;

// Stands for NaN, which equals nothing: a sum with a NaN among its parts is NaN in any order.
constexpr double kNotANumber = std::numeric_limits<double>::max();

// A sum of the parts with weights, and of what was there before: every law is one.
struct Weighting {
  std::vector<double> parts;  // [world, accumulate]
  double before = 0;
};

struct Parts {
  std::int64_t world;
  std::int64_t accumulate;
};

struct AccumulateRule {
  Law law;
  // How many micro-batches or ranks the law may be about; 1 where it is about none.
  std::int64_t (*choices)(const Parts& sizes);
  // The weight of a part, as a share of the right one; 0 choices: no meaning.
  double (*weight)(const Parts& sizes, std::int64_t which, std::int64_t rank, std::int64_t micro);
  double before = 0;
  const char* noun = "";
};

using S = const Parts&;

std::int64_t with_micros(S s) {
  return s.accumulate > 1 ? 1 : 0;
}
std::int64_t with_ranks(S s) {
  return s.world > 1 ? 1 : 0;
}
std::int64_t each_micro(S s) {
  return s.accumulate > 1 ? s.accumulate : 0;
}
std::int64_t each_rank(S s) {
  return s.world > 1 ? s.world : 0;
}
double real(std::int64_t count) {
  return static_cast<double>(count);
}

const std::vector<AccumulateRule>& rules() {
  using I = std::int64_t;
  static const std::vector<AccumulateRule> kRules{
      {{"micros_summed", "micro-batches are added up, not averaged"},
       with_micros,
       [](S s, I, I, I) { return real(s.accumulate); }},
      {{"ranks_summed", "ranks are added up, not averaged"},
       with_ranks,
       [](S s, I, I, I) { return real(s.world); }},
      {{"all_summed", "micro-batches and ranks are added up, not averaged"},
       [](S s) { return I{s.world > 1 && s.accumulate > 1}; },
       [](S s, I, I, I) { return real(s.world * s.accumulate); }},
      {{"micros_averaged_twice", "divided by the number of micro-batches once more"},
       with_micros,
       [](S s, I, I, I) { return 1 / real(s.accumulate); }},
      {{"ranks_averaged_twice", "divided by the number of ranks once more"},
       with_ranks,
       [](S s, I, I, I) { return 1 / real(s.world); }},
      {{"micro_alone", "one micro-batch in the place of the mean of all"},
       each_micro,
       [](S s, I which, I, I micro) { return micro == which ? real(s.accumulate) : 0; },
       0,
       "micro-batch"},
      {{"micro_alone_divided", "one micro-batch, divided by their number: the others are lost"},
       each_micro,
       [](S, I which, I, I micro) { return micro == which ? 1.0 : 0.0; },
       0,
       "micro-batch"},
      {{"micro_missing", "one micro-batch is lost, the others are divided by the number of all"},
       [](S s) { return s.accumulate > 2 ? s.accumulate : 0; },
       [](S, I which, I, I micro) { return micro == which ? 0.0 : 1.0; },
       0,
       "micro-batch"},
      {{"micro_twice", "one micro-batch is counted twice"},
       each_micro,
       [](S, I which, I, I micro) { return micro == which ? 2.0 : 1.0; },
       0,
       "micro-batch"},
      {{"rank_alone", "one rank's gradient in the place of the mean of all"},
       each_rank,
       [](S s, I which, I rank, I) { return rank == which ? real(s.world) : 0; },
       0,
       "rank"},
      {{"rank_alone_divided", "one rank's gradient, divided by the number of ranks"},
       each_rank,
       [](S, I which, I rank, I) { return rank == which ? 1.0 : 0.0; },
       0,
       "rank"},
      {{"rank_missing", "one rank is lost, the others are divided by the number of all"},
       [](S s) { return s.world > 2 ? s.world : 0; },
       [](S, I which, I rank, I) { return rank == which ? 0.0 : 1.0; },
       0,
       "rank"},
      {{"rank_twice", "one rank is counted twice"},
       each_rank,
       [](S, I which, I rank, I) { return rank == which ? 2.0 : 1.0; },
       0,
       "rank"},
      {{"micros_halved_in_turn", "a running mean (g + part) / 2: the last counts half"},
       [](S s) { return I{s.accumulate > 2}; },
       [](S s, I, I, I micro) {
         const I halvings = std::min(s.accumulate - micro, s.accumulate - 1);
         return real(s.accumulate) / std::exp2(real(halvings));
       }},
      {{"last_unreduced", "the last micro-batch of a rank is its own, the others are reduced"},
       [](S s) { return s.world > 1 && s.accumulate > 1 ? s.world : 0; },
       [](S s, I which, I rank, I micro) {
         const bool last = micro == s.accumulate - 1;
         return !last ? 1.0 : rank == which ? real(s.world) : 0.0;
       },
       0,
       "rank"},
      {{"previous_added", "what the gradient held before is not set to zero"},
       [](S) { return I{1}; },
       [](S, I, I, I) { return 1.0; },
       1},
      {{"previous_kept", "the gradient is what it held before"},
       [](S) { return I{1}; },
       [](S, I, I, I) { return 0.0; },
       1},
      {{"gradient_zero", "the gradient is 0"},
       [](S) { return I{1}; },
       [](S, I, I, I) { return 0.0; }}};
  return kRules;
}

Weighting weighting_of(const AccumulateRule& rule, const Parts& sizes, std::int64_t which) {
  Weighting w;
  w.before = rule.before;
  for (std::int64_t rank = 0; rank < sizes.world; ++rank) {
    for (std::int64_t micro = 0; micro < sizes.accumulate; ++micro) {
      w.parts.push_back(rule.weight(sizes, which, rank, micro) /
                        real(sizes.world * sizes.accumulate));
    }
  }
  return w;
}

Weighting right_weighting(const Parts& sizes) {
  const auto parts = static_cast<std::size_t>(sizes.world * sizes.accumulate);
  return {std::vector<double>(parts, 1 / static_cast<double>(parts)), 0};
}

void validate(const AccumulateRecord& r) {
  const std::int64_t count = r.result.size();
  const auto require = [&](bool holds, const std::string& what) {
    if (!holds) {
      throw std::invalid_argument(r.name + ": " + what);
    }
  };
  require(r.world >= 1 && r.accumulate >= 1 &&
              static_cast<std::int64_t>(r.parts.size()) == r.world * r.accumulate,
          std::to_string(r.parts.size()) +
              " parts, wanted world * accumulate = " + std::to_string(r.world * r.accumulate));
  for (const Numbers& part : r.parts) {
    require(
        part.size() == count,
        "a part has " + std::to_string(part.size()) + " numbers, wanted " + std::to_string(count));
  }
  require(r.before.empty() || r.before.size() == count,
          "what was there before has " + std::to_string(r.before.size()) + " numbers, wanted " +
              std::to_string(count));
}

// Elements [begin, end) under a weighting, and their bounds.
Expected weighted(const AccumulateRecord& r,
                  const Weighting& w,
                  std::int64_t begin,
                  std::int64_t end) {
  const std::int64_t count = end - begin;
  Expected e{zeros({count}), zeros({count})};
  const auto add = [&](const Numbers& numbers, double weight) {
    if (weight == 0 || numbers.empty()) {
      return;
    }
    const std::vector<double> values = numbers.part(begin, count).values();
    for (std::size_t i = 0; i < values.size(); ++i) {
      e.value.data[i] += weight * values[i];
      e.bound.data[i] += std::abs(weight * values[i]);
    }
  };
  for (std::size_t part = 0; part < r.parts.size(); ++part) {
    add(r.parts[part], w.parts[part]);
  }
  add(r.before, w.before);
  const double terms = static_cast<double>(r.parts.size()) + 3 + w.before;
  const double u = unit_roundoff(r.number) + unit_roundoff(Number::f64);
  // What travels as bfloat16 may be kept in float16, whose smallest numbers are far larger.
  const double least = std::max(smallest_normal(r.number), smallest_normal(r.result.number()));
  for (std::size_t i = 0; i < e.value.data.size(); ++i) {
    double& bound = e.bound.data[i];
    const bool none = std::isnan(e.value.data[i]);
    bound = none ? 0 : terms * u * bound + least;
    if (none) e.value.data[i] = kNotANumber;
  }
  return e;
}

// In the type that it is kept in, or in the one that travels: float16 ends long before bfloat16 does.
bool may_overflow(const AccumulateRecord& r, std::int64_t at) {
  double absolute = 0;
  for (const Numbers& part : r.parts) absolute += std::abs(part[at]);
  return std::isinf(rounded(absolute, r.number)) ||
         std::isinf(rounded(absolute, r.result.number()));
}

// Elements from `begin` on. What overflowed, or is NaN, where that is right is told as what is right.
std::vector<double> found(const AccumulateRecord& r, const Expected& right, std::int64_t begin) {
  const auto count = static_cast<std::int64_t>(right.value.data.size());
  std::vector<double> values = r.result.part(begin, count).values();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double wanted = right.value.data[i];
    if (wanted == kNotANumber) {
      if (std::isnan(values[i])) values[i] = wanted;
      continue;
    }
    const bool overflowed =
        !std::isfinite(values[i]) && may_overflow(r, begin + static_cast<std::int64_t>(i));
    if (overflowed && std::isfinite(wanted)) values[i] = wanted;
  }
  return values;
}

std::vector<Candidate> candidates_of(const AccumulateRecord& r) {
  std::vector<Candidate> candidates;
  const Parts sizes{r.world, r.accumulate};
  for (const AccumulateRule& rule : rules()) {
    const std::int64_t choices = rule.before != 0 && r.before.empty() ? 0 : rule.choices(sizes);
    for (std::int64_t which = 0; which < choices; ++which) {
      candidates.push_back({rule.law,
                            [&r, &rule, sizes, which](std::size_t) {
                              return std::optional(weighted(
                                  r, weighting_of(rule, sizes, which), 0, r.result.size()));
                            },
                            *rule.noun != 0 ? rule.noun + (" " + std::to_string(which)) : ""});
    }
  }
  return candidates;
}

bool same_law(const LawFit& a, const LawFit& b) {
  return a.law.name == b.law.name && a.detail == b.detail;
}

}  // namespace

Misfit judge_accumulated(const AccumulateRecord& r, int threads) {
  validate(r);
  const Weighting right = right_weighting({r.world, r.accumulate});
  const std::int64_t count = r.result.size();
  std::vector<Misfit> pieces(static_cast<std::size_t>((count + kGrain - 1) / kGrain));
  parallel_for(count, kGrain, threads, [&](std::int64_t begin, std::int64_t end) {
    Misfit& misfit = pieces[static_cast<std::size_t>(begin / kGrain)];
    const Expected expected = weighted(r, right, begin, end);
    misfit.add(misfit_of(found(r, expected, begin), expected), begin);
  });
  Misfit all;
  for (const Misfit& piece : pieces) {
    all.add(piece);
  }
  return all;
}

std::span<const Law> accumulate_laws() {
  static const std::vector<Law> kLaws = laws_of(rules());
  return kLaws;
}

std::optional<std::vector<double>> accumulated_under(std::string_view law,
                                                     const AccumulateRecord& record,
                                                     std::int64_t which) {
  validate(record);
  const Parts sizes{record.world, record.accumulate};
  const AccumulateRule& rule = rule_named(rules(), law);
  if (which >= rule.choices(sizes) || (rule.before != 0 && record.before.empty())) {
    return std::nullopt;
  }
  return weighted(record, weighting_of(rule, sizes, which), 0, record.result.size()).value.data;
}

Naming name_accumulated(std::span<const AccumulateRecord> records, int threads) {
  Naming naming;
  bool first = true;
  for (const AccumulateRecord& r : records) {
    const Misfit misfit = judge_accumulated(r, threads);
    naming.right.add(misfit, naming.right.judged);
    if (misfit.fits()) {
      continue;
    }
    const Expected right =
        weighted(r, right_weighting({r.world, r.accumulate}), 0, r.result.size());
    Naming own = name_values(found(r, right, 0), right, candidates_of(r));
    if (first) {
      naming.fitting = std::move(own.fitting);
    } else {
      std::erase_if(naming.fitting, [&](const LawFit& law) {
        return std::none_of(own.fitting.begin(), own.fitting.end(), [&](const LawFit& other) {
          return same_law(law, other);
        });
      });
    }
    first = false;
  }
  merge_forms(naming.fitting);
  return naming;
}

}  // namespace oracles
