#include "oracles/training/scaler.h"

#include <algorithm>
#include <string>

#include "oracles/expected.h"

namespace oracles {
namespace {

// The right numbers; a law changes some.
struct ScaleTerms {
  double start = 0;      // 0: as given
  double backoff = 0.5;  // after a step that overflowed
  double growth = 2;     // after `interval` steps
  std::int64_t interval = 2000;
  double least = 1;
  double most = 0x1p60;
  bool takes_overflowed = false;
  bool skips_next = false;         // the step after an overflow is skipped, not the overflowed one
  bool counts_overflowed = false;  // an overflow does not end a row
  bool keeps_count = false;        // the row is not begun anew after a doubling
};

LossScale after(const ScaleTerms& rule, LossScale s, bool finite) {
  if (!finite) {
    return {std::max(rule.least, s.scale * rule.backoff), rule.counts_overflowed ? s.taken : 0};
  }
  ++s.taken;
  if (s.taken >= rule.interval) {
    s.scale = std::min(rule.most, s.scale * rule.growth);
    s.taken = rule.keeps_count ? s.taken : 0;
  }
  return s;
}

// Where a run begins, and which of its steps have a finite norm.
struct Course {
  const LossScale& first;
  const std::vector<bool>& finite;
};
using Rule = WrongLaw<Course>;

// Two numbers a step: the scale, and 1 where the step is taken.
Expected steps_of(const ScaleTerms& rule, const Course& of) {
  const auto count = static_cast<std::int64_t>(of.finite.size());
  Expected e{zeros({count, 2}), zeros({count, 2})};
  LossScale state = of.first;
  state.scale = rule.start > 0 ? rule.start : state.scale;
  bool before = true;
  for (std::size_t i = 0; i < of.finite.size(); ++i) {
    const bool now = of.finite[i];
    const bool taken = rule.skips_next ? before : now || rule.takes_overflowed;
    e.value.data[2 * i] = state.scale;
    e.value.data[2 * i + 1] = taken ? 1 : 0;
    state = after(rule, state, now);
    before = now;
  }
  return e;
}

std::vector<Rule> make_rules() {
  std::vector<Rule> rules;
  const auto add = [&](std::string_view name, std::string_view about, auto change) {
    rules.push_back({{name, about}, [change](const Course& of, std::size_t) {
                       ScaleTerms terms;
                       change(terms);
                       return steps_of(terms, of);
                     }});
  };
  using R = ScaleTerms&;
  add("scale_not_halved", "an overflow leaves the scale", [](R r) { r.backoff = 1; });
  add("scale_quartered", "an overflow divides the scale by 4", [](R r) { r.backoff = 0.25; });
  add("scale_by_tenth", "an overflow divides the scale by 10", [](R r) { r.backoff = 0.1; });
  add("scale_doubled_by_overflow", "an overflow doubles the scale", [](R r) { r.backoff = 2; });
  add("scale_never_grows", "the scale does not grow", [](R r) { r.growth = 1; });
  add("scale_quadruples", "the scale grows by 4", [](R r) { r.growth = 4; });
  add("scale_grows_each_step", "the scale doubles after every step", [](R r) { r.interval = 1; });
  add("scale_grows_after_1000", "the scale doubles after 1000 steps", [](R r) {
    r.interval = 1000;
  });
  add("scale_grows_a_step_late", "the scale doubles after 2001 steps", [](R r) {
    r.interval = 2001;
  });
  add("scale_grows_a_step_early", "the scale doubles after 1999 steps", [](R r) {
    r.interval = 1999;
  });
  add("scale_row_goes_on", "an overflow does not end the row of steps that were taken", [](R r) {
    r.counts_overflowed = true;
  });
  add("scale_grows_ever_faster", "after the first doubling every step doubles the scale", [](R r) {
    r.keeps_count = true;
  });
  add("scale_below_one", "the scale falls below 1", [](R r) { r.least = 0; });
  add("scale_unlimited", "the scale grows beyond 2^60", [](R r) { r.most = 0x1p1000; });
  add("scale_starts_at_one", "the scale begins at 1", [](R r) { r.start = 1; });
  add("scale_starts_halved", "the scale begins at 2^15", [](R r) { r.start = 32768; });
  add("scale_starts_doubled", "the scale begins at 2^17", [](R r) { r.start = 131072; });
  add("scale_constant", "the scale stays, whatever happens", [](R r) { r.backoff = r.growth = 1; });
  add("scale_step_taken", "a step that overflowed is taken", [](R r) {
    r.takes_overflowed = true;
  });
  add("scale_step_taken_and_kept", "a step that overflowed is taken, and the scale stays", [](R r) {
    r.takes_overflowed = true;
    r.backoff = 1;
  });
  add("scale_skips_next", "the step after an overflow is left out in its place", [](R r) {
    r.skips_next = true;
  });
  return rules;
}

const std::vector<Rule>& rules() {
  static const std::vector<Rule> kRules = make_rules();
  return kRules;
}

}  // namespace

LossScale scale_after(const LossScale& before, bool finite) {
  return after({}, before, finite);
}

std::span<const Law> scale_laws() {
  static const std::vector<Law> kLaws = laws_of(rules());
  return kLaws;
}

std::vector<ScaleStep> scales_under(std::string_view law,
                                    const LossScale& first,
                                    const std::vector<bool>& finite) {
  const Course of{first, finite};
  const std::vector<double> numbers =
      (law == "right" ? steps_of({}, of) : given_by(rules(), law, of).value()).value.data;
  std::vector<ScaleStep> steps;
  for (std::size_t i = 0; i < finite.size(); ++i) {
    steps.push_back({finite[i], numbers[2 * i], numbers[2 * i + 1] == 1});
  }
  return steps;
}

Naming name_scales(const LossScale& first, std::span<const ScaleStep> steps) {
  std::vector<bool> finite;
  std::vector<double> found;
  for (const ScaleStep& step : steps) {
    finite.push_back(step.finite);
    found.insert(found.end(), {step.scale, step.taken ? 1.0 : 0.0});
  }
  const Course of{first, finite};
  const auto part = [&](std::size_t) { return FoundPart{found, steps_of({}, of)}; };
  // The course of a law has no parts: one that gives the wrong steps alone is another law.
  return name_parts(
      rules(), {.count = 1, .part = part, .together = 0}, [&](std::size_t) { return of; });
}

}  // namespace oracles
