// What is right, number by number, and how far a correct computation may be off; and which of some
// wrong laws gives what was found.
#pragma once

#include <algorithm>
#include <cstdint>
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

// All three throw std::invalid_argument where `found` has another number of elements.
void require_size(std::span<const double> found, const Expected& expected);
Misfit misfit_of(std::span<const double> found, const Expected& expected);
Misfit misfit_of(const Numbers& found, const Expected& expected);

// What a single number should be.
Expected one_number(double value, double bound);

// A known mistake of what Facts tell. There is one such type, and one matcher below, for all numbers of a training; the attention
// has its own (laws/stage_laws.h), whose laws give vectors of heads and rows.
template <typename Facts>
struct WrongLaw {
  // What it gives, in one of its forms (which rank, which share); none where it has no meaning.
  using Gives = std::function<std::optional<Expected>(const Facts&, std::size_t form)>;
  // Their names. None: one form without a name.
  using Forms = std::function<std::vector<std::string>(const Facts&)>;
  // A law that gives one number, which is off by at most facts.bound(number).
  using GivesNumber = std::function<std::optional<double>(const Facts&)>;

  WrongLaw(const Law& of, Gives give, Forms named = Forms())
      : law(of), gives(std::move(give)), forms(std::move(named)) {}
  WrongLaw(const Law& of, GivesNumber give)
      : law(of),
        gives([give = std::move(give)](const Facts& facts, std::size_t) -> std::optional<Expected> {
          const std::optional<double> number = give(facts);
          if (!number) return std::nullopt;
          return one_number(*number, facts.bound(*number));
        }) {}

  Law law;
  Gives gives;
  Forms forms;

  [[nodiscard]] std::vector<std::string> forms_of(const Facts& facts) const {
    return forms ? forms(facts) : std::vector<std::string>{""};
  }
};

// Numbers that were found together, and what is right.
struct FoundPart {
  std::vector<double> found;
  Expected right;
  // How many numbers each is a sample of, 0 where it is not on record; none: each of itself.
  std::vector<double> stands_for = {};
};
// Parts that one law has to explain: parameters, batches, pieces of a large tensor. They are made when they are asked for.
struct FoundParts {
  std::size_t count = 0;
  std::function<FoundPart(std::size_t part)> part;
  // So many numbers in a row belong together: a law that gives a wrong one gives all of them. 0: all of the part do.
  std::size_t together = 1;
  int threads = 1;  // 0: all the hardware has
};

// Elements of a large record, so many that they fit a cache.
template <typename Record>
struct Piece {
  const Record& record;
  std::int64_t begin;
  std::int64_t count;
};
template <typename Record>
void add_pieces(const Record& record, std::int64_t size, std::vector<Piece<Record>>& to) {
  constexpr std::int64_t kMost = 65536;
  for (std::int64_t begin = 0; begin < size; begin += kMost) {
    to.push_back({record, begin, std::min(kMost, size - begin)});
  }
}

// The right law alone. Numbers of another size than the right ones are all wrong. Places run through the parts.
Misfit misfit_of(const FoundParts& parts);

// The matcher, as described in naming.h, for laws of the parts' numbers. The forms are those of the first part. What a law gives
// in another size does not fit.
Naming name_parts(const std::vector<WrongLaw<std::size_t>>& laws, const FoundParts& parts);

// The laws for parts whose facts `facts_of(part)` gives.
template <typename Facts, typename FactsOf>
Naming name_parts(const std::vector<WrongLaw<Facts>>& laws,
                  const FoundParts& parts,
                  FactsOf facts_of) {
  std::vector<WrongLaw<std::size_t>> of_parts;
  for (const WrongLaw<Facts>& law : laws) {
    of_parts.emplace_back(
        law.law,
        [&](std::size_t part, std::size_t form) { return law.gives(facts_of(part), form); },
        [&](std::size_t part) { return law.forms_of(facts_of(part)); });
  }
  return name_parts(of_parts, parts);
}
// Of one part, of the right size (require_size), and of one number.
template <typename Facts>
Naming name_values(const std::vector<WrongLaw<Facts>>& laws,
                   const std::type_identity_t<Facts>& facts,
                   std::span<const double> found,
                   const Expected& right) {
  require_size(found, right);
  const FoundParts one{1, [&](std::size_t) {
                         return FoundPart{{found.begin(), found.end()}, right};
                       }};
  return name_parts(laws, one, [&](std::size_t) -> const Facts& { return facts; });
}
template <typename Facts>
Naming name_number(const std::vector<WrongLaw<Facts>>& laws,
                   const std::type_identity_t<Facts>& facts,
                   double found,
                   double right) {
  return name_values(laws, facts, std::span(&found, 1), one_number(right, facts.bound(right)));
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

// Of a law that gives one number.
template <typename Facts>
std::optional<double> number_given_by(const std::vector<WrongLaw<Facts>>& laws,
                                      std::string_view name,
                                      const std::type_identity_t<Facts>& facts) {
  const std::optional<Expected> given = given_by(laws, name, facts);
  return given ? std::optional(given->value.data.at(0)) : std::nullopt;
}

}  // namespace oracles
