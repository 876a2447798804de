// What is right, number by number, and how far a correct computation may be off; and which of some
// wrong laws gives what was found.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "oracles/naming.h"
#include "oracles/numbers.h"
#include "oracles/tensor.h"

namespace oracles {

struct Expected {
  Tensor value;
  Tensor bound;  // as value; not negative
};

// Numbers that are right but for being rounded once by at most `roundoff`, relatively.
Expected rounded_once(Tensor value, double roundoff);

// Throws std::invalid_argument where `found` has another number of elements.
Misfit misfit_of(std::span<const double> found, const Expected& expected);
Misfit misfit_of(const Numbers& found, const Expected& expected);

// A known mistake of what Facts tell. There is one such type, and one matcher below, for all numbers of a training; the attention
// has its own (laws/stage_laws.h), whose laws give vectors of heads and rows.
template <typename Facts>
struct WrongLaw {
  // What it gives, in one of its forms (which rank, which share); none where it has no meaning.
  using Gives = std::function<std::optional<Expected>(const Facts&, std::size_t form)>;
  // Their names. None: one form without a name.
  using Forms = std::function<std::vector<std::string>(const Facts&)>;

  WrongLaw(const Law& of, Gives give, Forms named = Forms())
      : law(of), gives(std::move(give)), forms(std::move(named)) {}

  Law law;
  Gives gives;
  Forms forms;

  [[nodiscard]] std::vector<std::string> forms_of(const Facts& facts) const {
    return forms ? forms(facts) : std::vector<std::string>{""};
  }
};

// One of them, or a form of one, for the numbers of some parts.
struct Candidate {
  Law law;
  std::function<std::optional<Expected>(std::size_t part)> output;
  std::string detail = {};
};

// Numbers that were found together, and what is right.
struct FoundPart {
  std::vector<double> found;
  Expected right;
  std::vector<double> stands_for =
      {};  // how many numbers each is a sample of; none: each of itself
};
// Parts that one law has to explain: parameters, batches, pieces of a large tensor. They are made when they are asked for.
struct FoundParts {
  std::size_t count = 0;
  std::function<FoundPart(std::size_t part)> part;
  bool whole = false;  // a law that gives a wrong part gives all of its numbers
  int threads = 1;     // 0: all the hardware has
};

// The matcher, as described in naming.h. A candidate whose output has another size does not fit; numbers of another size than the
// right ones are all wrong. Places run through the parts.
Naming name_parts(const FoundParts& parts, std::span<const Candidate> candidates);
// Of one part.
Naming name_values(std::span<const double> found,
                   const Expected& right,
                   std::span<const Candidate> candidates);

// The laws for parts whose facts `facts_of(part)` gives; the forms are those of the first part.
template <typename Facts, typename FactsOf>
Naming name_parts(std::span<const WrongLaw<Facts>> laws,
                  const FoundParts& parts,
                  FactsOf facts_of) {
  std::vector<Candidate> candidates;
  for (const WrongLaw<Facts>& law : laws) {
    const std::vector<std::string> forms =
        parts.count == 0 ? std::vector<std::string>() : law.forms_of(facts_of(0));
    for (std::size_t form = 0; form < forms.size(); ++form) {
      candidates.push_back(
          {law.law,
           [&law, &facts_of, form](std::size_t part) { return law.gives(facts_of(part), form); },
           forms[form]});
    }
  }
  return name_parts(parts, candidates);
}
template <typename Facts>
Naming name_values(std::span<const WrongLaw<Facts>> laws,
                   const std::type_identity_t<Facts>& facts,
                   std::span<const double> found,
                   const Expected& right) {
  const FoundParts one{1, [&](std::size_t) {
                         return FoundPart{{found.begin(), found.end()}, right};
                       }};
  return name_parts(laws, one, [&](std::size_t) -> const Facts& { return facts; });
}

// What a law gives, in one of its forms; none where there is no such form. Throws std::invalid_argument for an unknown name.
template <typename Facts>
std::optional<Expected> given_by(const std::vector<WrongLaw<Facts>>& laws,
                                 std::string_view name,
                                 const std::type_identity_t<Facts>& facts,
                                 std::size_t form = 0) {
  const WrongLaw<Facts>& law = rule_named(laws, name);
  return form < law.forms_of(facts).size() ? law.gives(facts, form) : std::nullopt;
}

}  // namespace oracles
