#include "oracles/training/update_laws.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>

#include "oracles/training/update_rules.h"

namespace oracles {
namespace {

constexpr std::int64_t kSpread = 4096;  // elements of a parameter that laws are tried on

const std::vector<UpdateRule>& rules() {
  static const std::vector<UpdateRule> kRules = [] {
    std::vector<UpdateRule> all;
    for (const auto part : {gradient_factor_rules, moment_rules, step_rules}) {
      std::vector<UpdateRule> some = part();
      std::move(some.begin(), some.end(), std::back_inserter(all));
    }
    return all;
  }();
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
  return {settings, context, std::sqrt(squares) / context.loss_scale};
}

std::optional<UpdateTerms> terms_under(const UpdateRule& rule, const UpdateFacts& facts) {
  UpdateTerms terms = right_terms(facts.settings);
  if (!rule.change(facts, terms)) {
    return std::nullopt;
  }
  return terms;
}

// Some elements of a parameter, by value: the wrong ones first.
struct Sample {
  std::vector<double> p, m, v, gradient, p_after, m_after, v_after;
  std::int64_t wrong = 0;
  std::int64_t spread = 0;
  double elements_of_one = 1;  // elements of the parameter for each that is spread

  Sample(const UpdateRecord& record, const std::vector<std::int64_t>& wrong_ones) {
    std::vector<std::int64_t> places = wrong_ones;
    wrong = static_cast<std::int64_t>(places.size());
    spread = std::min(kSpread, record.p_before.size());
    for (std::int64_t i = 0; i < spread; ++i) {
      places.push_back(i * record.p_before.size() / spread);
    }
    // A law that cuts numbers off differs in the largest ones alone.
    if (spread < record.p_before.size()) places.back() = place_of_largest(record.gradient);
    elements_of_one = static_cast<double>(record.p_before.size()) / static_cast<double>(spread);
    gather(record.p_before, places, p);
    gather(record.m_before, places, m);
    gather(record.v_before, places, v);
    gather(record.gradient, places, gradient);
    gather(record.p_after, places, p_after);
    gather(record.m_after, places, m_after);
    gather(record.v_after, places, v_after);
  }

  [[nodiscard]] UpdateRecord record() const {
    const auto view = [](const std::vector<double>& values) { return Numbers::of(values); };
    return {
        "", view(p), view(m), view(v), view(gradient), view(p_after), view(m_after), view(v_after)};
  }

 private:
  static std::int64_t place_of_largest(const Numbers& numbers) {
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

  static void gather(const Numbers& from,
                     const std::vector<std::int64_t>& places,
                     std::vector<double>& to) {
    if (from.empty()) {
      return;
    }
    for (const std::int64_t place : places) {
      to.push_back(from[place]);
    }
  }
};

// Whether element i of the sample is as predicted, in all that is on record.
bool as_predicted(const Sample& sample, const UpdatePrediction& by, std::size_t i) {
  return !is_wrong(sample.p_after[i], by.p[i], by.p_bound[i]) &&
         (sample.m_after.empty() || !is_wrong(sample.m_after[i], by.m[i], by.m_bound[i])) &&
         (sample.v_after.empty() || !is_wrong(sample.v_after[i], by.v[i], by.v_bound[i]));
}

struct WrongParameter {
  UpdateFacts facts;
  Sample sample;
  double wrong = 0;                   // elements in all
  std::vector<bool> right_of_spread;  // which of those that are spread the right law gives
};

WrongParameter wrong_parameter(const UpdateRecord& record,
                               const UpdateJudgement& judgement,
                               const UpdateSettings& settings,
                               const UpdateContext& context) {
  WrongParameter p{facts_of(record, settings, context), {record, judgement.wrong}, 0, {}};
  p.wrong =
      static_cast<double>(std::max({judgement.p.wrong, judgement.m.wrong, judgement.v.wrong}));
  const UpdatePrediction right = predicted_by(p.sample.record(), right_terms(settings));
  for (std::int64_t i = 0; i < p.sample.spread; ++i) {
    p.right_of_spread.push_back(
        as_predicted(p.sample, right, static_cast<std::size_t>(p.sample.wrong + i)));
  }
  return p;
}

// Elements that the law would make wrong and that are right; none where it misses a wrong one.
std::optional<double> contradicted(const UpdateRule& rule, const WrongParameter& p) {
  const std::optional<UpdateTerms> terms = terms_under(rule, p.facts);
  if (!terms) {
    return std::nullopt;
  }
  const UpdatePrediction by = predicted_by(p.sample.record(), *terms);
  for (std::int64_t i = 0; i < p.sample.wrong; ++i) {
    if (!as_predicted(p.sample, by, static_cast<std::size_t>(i))) {
      return std::nullopt;
    }
  }
  double count = 0;
  for (std::int64_t i = 0; i < p.sample.spread; ++i) {
    const bool given = as_predicted(p.sample, by, static_cast<std::size_t>(p.sample.wrong + i));
    if (!given) {
      if (!p.right_of_spread[static_cast<std::size_t>(i)]) {
        return std::nullopt;  // wrong under both
      }
      count += p.sample.elements_of_one;
    }
  }
  return count;
}

std::optional<LawFit> fit(const UpdateRule& rule, const std::vector<WrongParameter>& parameters) {
  LawFit found{rule.law, {}, 1, {}};
  double wrong = 0;
  double right = 0;
  for (const WrongParameter& parameter : parameters) {
    const std::optional<double> here = contradicted(rule, parameter);
    if (!here) {
      return std::nullopt;
    }
    found.misfit.judged += parameter.sample.wrong;
    wrong += parameter.wrong;
    right += *here;
  }
  found.share = wrong / (wrong + right);
  return found;
}

// Every wrong number of these is the right one, rounded to a narrow type.
bool kept_in(Number number, const WrongParameter& p, bool of_p) {
  const UpdatePrediction by = predicted_by(p.sample.record(), right_terms(p.facts.settings));
  const auto kept = [&](const std::vector<double>& found,
                        const std::vector<double>& value,
                        const std::vector<double>& bound) {
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double room =
          bound[i] + unit_roundoff(number) * std::abs(value[i]) + spacing(0, number);
      if (is_wrong(found[i], value[i], bound[i]) &&
          (found[i] != rounded(found[i], number) || is_wrong(found[i], value[i], room))) {
        return false;
      }
    }
    return true;
  };
  const auto right = [&](const std::vector<double>& found,
                         const std::vector<double>& value,
                         const std::vector<double>& bound) {
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (is_wrong(found[i], value[i], bound[i])) {
        return false;
      }
    }
    return true;
  };
  const Sample& s = p.sample;
  return of_p ? kept(s.p_after, by.p, by.p_bound) && right(s.m_after, by.m, by.m_bound) &&
                    right(s.v_after, by.v, by.v_bound)
              : right(s.p_after, by.p, by.p_bound) && kept(s.m_after, by.m, by.m_bound) &&
                    kept(s.v_after, by.v, by.v_bound);
}

void add_kept_narrow(const std::vector<WrongParameter>& wrong, std::vector<LawFit>& fitting) {
  constexpr Law kOfP{"p_kept_narrow", "p is kept with fewer digits than its type has"};
  constexpr Law kOfMoments{"moments_kept_narrow", "m and v are kept with fewer digits"};
  for (const bool of_p : {true, false}) {
    for (const Number number : {Number::bf16, Number::f16}) {
      if (std::all_of(wrong.begin(), wrong.end(), [&](const WrongParameter& p) {
            return kept_in(number, p, of_p);
          })) {
        fitting.push_back(
            {of_p ? kOfP : kOfMoments, {}, 1, std::string(number_name(number)) + " digits"});
      }
    }
  }
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
  const auto terms = terms_under(rule_named(rules(), law), facts_of(record, settings, context));
  return terms ? std::optional(predicted_by(record, *terms)) : std::nullopt;
}

Naming name_updates(std::span<const UpdateRecord> records,
                    std::span<const UpdateJudgement> judgements,
                    const UpdateSettings& settings,
                    const UpdateContext& context) {
  Naming naming;
  std::vector<WrongParameter> wrong;
  for (std::size_t i = 0; i < records.size(); ++i) {
    for (const Misfit* const misfit : {&judgements[i].m, &judgements[i].v, &judgements[i].p}) {
      naming.right.add(*misfit, naming.right.judged);
    }
    if (!judgements[i].fits()) {
      wrong.push_back(wrong_parameter(records[i], judgements[i], settings, context));
    }
  }
  if (wrong.empty()) {
    return naming;
  }
  for (const UpdateRule& rule : rules()) {
    if (auto found = fit(rule, wrong)) {
      naming.fitting.push_back(std::move(*found));
    }
  }
  keep_the_strongest(naming.fitting);
  if (naming.fitting.empty()) {
    add_kept_narrow(wrong, naming.fitting);
  }
  return naming;
}

}  // namespace oracles
