#include "oracles/training/update_laws.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "oracles/training/update_rules.h"

namespace oracles {
namespace {

constexpr std::int64_t kSpread = 4096;  // elements of a parameter that laws are tried on

const std::vector<UpdateRule>& rules() {
  static const std::vector<UpdateRule> kRules =
      joined({gradient_factor_rules(), moment_rules(), step_rules()});
  return kRules;
}

UpdateFacts facts_of(const UpdateRecord& record,
                     const UpdateSettings& settings,
                     const UpdateContext& context) {
  double squares = 0;
  std::vector<double> block(static_cast<std::size_t>(kUpdateBlock));
  for (std::int64_t begin = 0; begin < record.gradient.size(); begin += kUpdateBlock) {
    const std::int64_t count = std::min(kUpdateBlock, record.gradient.size() - begin);
    record.gradient.part(begin, count).copy_to(block.data());
    for (std::int64_t i = 0; i < count; ++i) {
      squares += block[i] * block[i];
    }
  }
  return {record, settings, context, std::sqrt(squares) / context.loss_scale};
}

std::int64_t place_of_largest(const Numbers& numbers) {
  std::int64_t place = 0;
  double largest = -1;
  std::vector<double> block(static_cast<std::size_t>(kUpdateBlock));
  for (std::int64_t begin = 0; begin < numbers.size(); begin += kUpdateBlock) {
    const std::int64_t count = std::min(kUpdateBlock, numbers.size() - begin);
    numbers.part(begin, count).copy_to(block.data());
    for (std::int64_t i = 0; i < count; ++i) {
      if (std::abs(block[static_cast<std::size_t>(i)]) > largest) {
        largest = std::abs(block[static_cast<std::size_t>(i)]);
        place = begin + i;
      }
    }
  }
  return place;
}

// The wrong elements that a judgement lists, and others, spread evenly.
std::vector<std::int64_t> places_of(const UpdateRecord& record, const UpdateJudgement& judgement) {
  const std::int64_t size = record.p_before.size();
  const std::int64_t spread = std::min(kSpread, size);
  std::vector<std::int64_t> places = judgement.wrong;
  for (std::int64_t i = 0; i < spread; ++i) {
    // A law that cuts numbers off differs in the largest ones alone.
    const bool last = i + 1 == spread && spread < size;
    const std::int64_t place = last ? place_of_largest(record.gradient) : i * size / spread;
    if (!std::binary_search(judgement.wrong.begin(), judgement.wrong.end(), place)) {
      places.push_back(place);
    }
  }
  return places;
}

// Some elements of a wrong parameter, by value.
class Sample {
 public:
  Sample(const UpdateRecord& record,
         const UpdateJudgement& judgement,
         const UpdateSettings& settings,
         const UpdateContext& context)
      : facts(facts_of(record, settings, context)) {
    const std::vector<std::int64_t> places = places_of(record, judgement);
    UpdateRecord& own = facts.record;
    for (Numbers* const of : {&own.p_before,
                              &own.m_before,
                              &own.v_before,
                              &own.gradient,
                              &own.p_after,
                              &own.m_after,
                              &own.v_after}) {
      std::vector<double>& some = numbers_.emplace_back();
      for (std::size_t i = 0; i < places.size() && !of->empty(); ++i) {
        some.push_back((*of)[places[i]]);
      }
      *of = Numbers::of(some);
    }
    part.right = updated(own, right_terms(settings));
    const auto wrong = std::max({judgement.p.wrong, judgement.m.wrong, judgement.v.wrong});
    count(static_cast<double>(wrong), static_cast<double>(record.p_before.size()));
  }
  Sample(Sample&&) = default;  // a copy would refer to the other's numbers

  UpdateFacts facts;
  FoundPart part;  // p, m and v after the step

 private:
  // Elements in all, and wrong ones.
  void count(double wrong, double all) {
    const UpdateRecord& own = facts.record;
    std::vector<bool> is_wrong_one;
    for (std::int64_t i = 0; i < own.p_after.size(); ++i) {
      bool any = false;
      for (const Numbers* const of : {&own.p_after, &own.m_after, &own.v_after}) {
        const std::size_t at = part.found.size();
        part.found.push_back(of->empty() ? 0 : (*of)[i]);
        part.stands_for.push_back(of->empty() ? 0 : 1);
        any =
            any || (!of->empty() &&
                    is_wrong(part.found[at], part.right.value.data[at], part.right.bound.data[at]));
      }
      is_wrong_one.push_back(any);
    }
    const auto sampled =
        static_cast<double>(std::count(is_wrong_one.begin(), is_wrong_one.end(), true));
    const double spread = std::min(static_cast<double>(kSpread), all);
    for (std::size_t at = 0; at < part.stands_for.size(); ++at) {
      part.stands_for[at] *= is_wrong_one[at / 3] ? wrong / sampled : all / spread;
    }
  }

  std::vector<std::vector<double>> numbers_;
};

constexpr Number kNarrow[] = {Number::bf16, Number::f16};

// The right numbers with the digits of a narrow type: those of p, or of m and v.
UpdateRule kept_narrow(const Law& law, bool of_p) {
  return {
      law,
      [of_p](const UpdateFacts& f, std::size_t form) {
        const Number number = kNarrow[form];
        Expected e = updated(f.record, right_terms(f.settings));
        const Numbers* const after[] = {&f.record.p_after, &f.record.m_after, &f.record.v_after};
        for (std::size_t i = 0; i < e.value.data.size(); ++i) {
          const Numbers& of = *after[i % 3];
          if (of.empty() || (i % 3 == 0) != of_p) continue;
          const double found = of[static_cast<std::int64_t>(i / 3)];
          if (found != rounded(found, number)) continue;
          e.bound.data[i] += unit_roundoff(number) * std::abs(e.value.data[i]) + spacing(0, number);
        }
        return e;
      },
      [](const UpdateFacts&) {
        std::vector<std::string> names;
        for (const Number number : kNarrow) {
          names.push_back(std::string(number_name(number)) + " digits");
        }
        return names;
      }};
}

}  // namespace

std::span<const Law> update_laws() {
  static const std::vector<Law> kLaws = laws_of(rules());
  return kLaws;
}

std::optional<UpdatePrediction> update_under(std::string_view law,
                                             const UpdateRecord& record,
                                             const UpdateSettings& settings,
                                             const UpdateContext& context) {
  const auto given = given_by(rules(), law, facts_of(record, settings, context));
  if (!given) return std::nullopt;
  UpdatePrediction by;
  for (std::size_t i = 0; i < given->value.data.size(); i += 3) {
    const double* const value = given->value.data.data() + i;
    const double* const bound = given->bound.data.data() + i;
    by.p.push_back(value[0]);
    by.m.push_back(value[1]);
    by.v.push_back(value[2]);
    by.p_bound.push_back(bound[0]);
    by.m_bound.push_back(bound[1]);
    by.v_bound.push_back(bound[2]);
  }
  return by;
}

Naming name_updates(std::span<const UpdateRecord> records,
                    std::span<const UpdateJudgement> judgements,
                    const UpdateSettings& settings,
                    const UpdateContext& context) {
  constexpr Law kOfP{.name = "p_kept_narrow",
                     .about = "p is kept with fewer digits than its type has",
                     .last = true};
  constexpr Law kOfMoments{
      .name = "moments_kept_narrow", .about = "m and v are kept with fewer digits", .last = true};
  static const std::vector<UpdateRule> kAll =
      joined({rules(), {kept_narrow(kOfP, true), kept_narrow(kOfMoments, false)}});
  Misfit right;
  std::vector<Sample> wrong;
  for (std::size_t i = 0; i < records.size(); ++i) {
    for (const Misfit* const misfit : {&judgements[i].m, &judgements[i].v, &judgements[i].p}) {
      right.add(*misfit, right.judged);
    }
    if (!judgements[i].fits()) wrong.emplace_back(records[i], judgements[i], settings, context);
  }
  const auto part = [&](std::size_t i) { return wrong[i].part; };
  // An element is explained by its p, m and v.
  Naming naming = name_parts(kAll,
                             {.count = wrong.size(), .part = part, .together = 3},
                             [&](std::size_t i) -> const UpdateFacts& { return wrong[i].facts; });
  naming.right = right;
  return naming;
}

}  // namespace oracles
