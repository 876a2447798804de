#include "oracles/training/weights_copy.h"

#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "oracles/parallel.h"

namespace oracles {
namespace {

constexpr std::int64_t kGrain = 65536;

struct Place {
  double master_before;
  double master_after;
  double weight_before;
  Number number;
};

// The type's neighbours of a value, towards zero and away from it; the value itself where it is one
// of the type. REQUIRES: finite.
double towards_zero(double value, Number number) {
  const double step = spacing(value, number);
  return std::trunc(value / step) * step;
}
double away_from_zero(double value, Number number) {
  const double low = towards_zero(value, number);
  return low == value ? value : low + std::copysign(spacing(value, number), value);
}

double half_away(double value, Number number) {
  const double low = towards_zero(value, number);
  const double high = away_from_zero(value, number);
  return std::abs(value - low) < std::abs(high - value) ? low : high;
}

struct WeightRule {
  Law law;
  double (*weight)(const Place& p);
};

constexpr std::string_view kRandom = "weight_rounded_at_random";

const std::vector<WeightRule>& rules() {
  static const std::vector<WeightRule> kRules{
      {{"weight_not_renewed", "the weight stays what it was before the step"},
       [](const Place& p) { return p.weight_before; }},
      {{"weight_truncated", "digits are cut off in place of rounded"},
       [](const Place& p) { return towards_zero(p.master_after, p.number); }},
      {{"weight_rounded_away", "rounded away from zero"},
       [](const Place& p) { return away_from_zero(p.master_after, p.number); }},
      {{"weight_half_away", "halves are rounded away from zero, not to even"},
       [](const Place& p) { return half_away(p.master_after, p.number); }},
      {{"weight_moved_by_itself", "the master's move is added to the weight, and that is rounded"},
       [](const Place& p) {
         return rounded(p.weight_before + (p.master_after - p.master_before), p.number);
       }},
      {{"weight_rounded_twice", "rounded to the other narrow type first"},
       [](const Place& p) {
         const Number other = p.number == Number::bf16 ? Number::f16 : Number::bf16;
         return rounded(rounded(p.master_after, other), p.number);
       }},
      // Last: what others give, this one gives too.
      {{kRandom, "one of the two neighbours, not always the nearest"}, [](const Place& p) {
         const double low = towards_zero(p.master_after, p.number);
         return rounded(p.master_after, p.number) == low ? away_from_zero(p.master_after, p.number)
                                                         : low;
       }}};
  return kRules;
}

bool is_random_weight(const Place& p, double weight) {
  return weight == towards_zero(p.master_after, p.number) ||
         weight == away_from_zero(p.master_after, p.number);
}

void validate(const WeightRecord& r) {
  const std::int64_t count = r.master_after.size();
  for (const auto& [name, size] : {std::pair("master_before", r.master_before.size()),
                                   std::pair("weight_before", r.weight_before.size()),
                                   std::pair("weight_after", r.weight_after.size())}) {
    if (size != count) {
      throw std::invalid_argument(std::string(name) + " has " + std::to_string(size) +
                                  " numbers, wanted " + std::to_string(count));
    }
  }
}

Place place_of(const WeightRecord& r, std::int64_t i) {
  return {r.master_before[i], r.master_after[i], r.weight_before[i], r.weight_after.number()};
}

Misfit misfit_of(const WeightRecord& r, int threads) {
  const std::int64_t count = r.master_after.size();
  std::vector<Misfit> pieces(static_cast<std::size_t>((count + kGrain - 1) / kGrain));
  parallel_for(count, kGrain, threads, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> master = r.master_after.part(begin, end - begin).values();
    const std::vector<double> weight = r.weight_after.part(begin, end - begin).values();
    Misfit& misfit = pieces[static_cast<std::size_t>(begin / kGrain)];
    for (std::size_t i = 0; i < master.size(); ++i) {
      const double wanted = rounded(master[i], r.weight_after.number());
      misfit.add(begin + static_cast<std::int64_t>(i), weight[i], wanted, 0);
    }
  });
  Misfit all;
  for (const Misfit& piece : pieces) {
    all.add(piece);
  }
  return all;
}

// How often the law misses where the right one does, and would be wrong where that is right.
struct Count {
  std::int64_t missed = 0;
  std::int64_t contradicted = 0;
};

Count count_of(const WeightRule& rule, std::span<const WeightRecord> records) {
  Count count;
  for (const WeightRecord& r : records) {
    for (std::int64_t i = 0; i < r.master_after.size() && count.missed == 0; ++i) {
      const Place place = place_of(r, i);
      const double found = r.weight_after[i];
      const bool right = found == rounded(place.master_after, place.number);
      const bool given =
          rule.law.name == kRandom ? is_random_weight(place, found) : found == rule.weight(place);
      count.missed += !right && !given ? 1 : 0;
      count.contradicted += right && !given ? 1 : 0;
    }
  }
  return count;
}

}  // namespace

std::span<const Law> weight_laws() {
  static const std::vector<Law> kLaws = laws_of(rules());
  return kLaws;
}

double weight_under(std::string_view law,
                    double master_before,
                    double master_after,
                    double weight_before,
                    Number number) {
  return rule_named(rules(), law).weight({master_before, master_after, weight_before, number});
}

Naming name_weights(std::span<const WeightRecord> records, int threads) {
  Naming naming;
  for (const WeightRecord& record : records) {
    validate(record);
    naming.right.add(misfit_of(record, threads), naming.right.judged);
  }
  if (naming.right.fits()) {
    return naming;
  }
  for (const WeightRule& rule : rules()) {
    const Count count = count_of(rule, records);
    if (count.missed > 0 || (rule.law.name == kRandom && !naming.fitting.empty())) {
      continue;
    }
    const auto wrong = static_cast<double>(naming.right.wrong);
    naming.fitting.push_back({rule.law,
                              {.judged = naming.right.wrong},
                              wrong / (wrong + static_cast<double>(count.contradicted)),
                              {}});
  }
  keep_the_strongest(naming.fitting);
  return naming;
}

}  // namespace oracles
