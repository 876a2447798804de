// Which known mistake reproduces what was recorded. Every library of wrong laws of a training run
// answers in this form: what the right law leaves unexplained, and the wrong laws that leave nothing
// unexplained. A law says what would give these numbers; it knows no fault and no implementation.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace oracles {

struct Law {
  std::string_view name;   // unique among all laws of a training run
  std::string_view about;  // what is done in place of the right thing
  // A number or an order in it is taken from what was recorded: other records would have been met as well, by other numbers.
  bool fitted = false;
  bool last = false;  // it says less than the others: tried where none of those before it fits
};

// Recorded numbers against what a law gives for them.
struct Misfit {
  std::int64_t judged = 0;
  std::int64_t wrong = 0;   // further off than rounding allows; a NaN is
  std::int64_t first = -1;  // place of the first wrong one, -1 where there is none
  double worst = 0;         // largest difference in units of its bound; infinity for a NaN

  [[nodiscard]] bool fits() const { return wrong == 0; }
  // |difference| <= bound, or counted as wrong. A NaN fails.
  void add(std::int64_t place, double found, double wanted, double bound);
  // `other`'s places come after `offset` of them.
  void add(const Misfit& other, std::int64_t offset = 0);
};

struct LawFit {
  Law law;
  // What the law leaves unexplained of the numbers that are wrong under the right law: nothing.
  Misfit misfit;
  // Numbers wrong under the right law among those that would be wrong if the law held everywhere.
  double share = 1;
  // A number that the law was fitted with, in words ("factor 2"); empty where there is none.
  std::string detail;
  double number = 0;  // that number where it is a factor
};

struct Naming {
  Misfit right;
  // Wrong laws that give every number that is wrong under the right law. Empty where nothing is
  // wrong. A law that holds everywhere (share 1) comes before those that hold in part, and where
  // there is one, those that hold in part are left out.
  std::vector<LawFit> fitting;

  // The only law, or none where no law fits or several do.
  [[nodiscard]] const LawFit* alone() const {
    return fitting.size() == 1 ? fitting.data() : nullptr;
  }
  // "betas_swapped: beta1 and beta2 exchanged", "no law alone: a, b", "no known law", or "right".
  [[nodiscard]] std::string text() const;
};

// Of rules, structs with a member `law`: their laws, and the one of that name. Throws std::invalid_argument where there is none.
template <typename Rules>
std::vector<Law> laws_of(const Rules& rules) {
  std::vector<Law> laws;
  for (const auto& rule : rules) laws.push_back(rule.law);
  return laws;
}
template <typename Rules>
const auto& rule_named(const Rules& rules, std::string_view law) {
  for (const auto& rule : rules) {
    if (rule.law.name == law) return rule;
  }
  throw std::invalid_argument("no law of this library is called " + std::string(law));
}

// Several lists of rules as one.
template <typename Rule>
std::vector<Rule> joined(std::initializer_list<std::vector<Rule>> lists) {
  std::vector<Rule> all;
  for (const std::vector<Rule>& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

// Forms of one law (another weight, another share) that fit equally become one fit that names them all:
// the law is known, its detail is not.
void merge_forms(std::vector<LawFit>& fitting);

// The forms of such a fit's detail.
std::vector<std::string> forms_in(std::string_view detail);

// Keeps the laws that hold everywhere where there are such, in the order they were found.
void keep_the_strongest(std::vector<LawFit>& fitting);

}  // namespace oracles
