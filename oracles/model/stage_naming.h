// Tables of wrong laws of a stage, and how they are tried. Internal to the oracle's model room.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "oracles/expected.h"

namespace oracles {

// Laws that are tried where no other fits: they say less.
struct LastLaws {
  Law factor;  // the right numbers times one factor
  Law narrow;  // the right numbers with the digits of a narrow type
};

template <typename Inputs>
std::vector<Law> laws_of(const std::vector<WrongLaw<Inputs>>& rules, const LastLaws& last) {
  std::vector<Law> laws = laws_of(rules);
  laws.push_back(last.factor);
  laws.push_back(last.narrow);
  return laws;
}

// Forms are merged, and where no law fits the last ones are tried.
Naming with_last(Naming naming,
                 const std::vector<double>& found,
                 const Expected& right,
                 const LastLaws& last);
template <typename Inputs>
Naming name_by_laws(const std::vector<WrongLaw<Inputs>>& laws,
                    const LastLaws& last,
                    const std::type_identity_t<Inputs>& inputs,
                    const std::vector<double>& found,
                    const Expected& right) {
  return with_last(name_values(laws, inputs, found, right), found, right, last);
}

// The library of wrong laws of a stage with these inputs.
template <typename Inputs>
class StageLibrary {
 public:
  // The right result. Throws std::invalid_argument where shapes do not fit.
  using Right = std::function<Expected(const Inputs&)>;
  StageLibrary(const std::vector<WrongLaw<Inputs>>& rules, const LastLaws& last, Right right)
      : rules_(rules), last_(last), right_(std::move(right)), laws_(laws_of(rules, last)) {}

  [[nodiscard]] std::span<const Law> laws() const { return laws_; }
  // What a law gives. `choice` counts the forms of a law that has several. None where it has no meaning or no such form.
  // Throws std::invalid_argument for an unknown name, as the two last laws are: they change numbers, not the stage.
  [[nodiscard]] std::optional<Expected> under(std::string_view law,
                                              std::size_t choice,
                                              const Inputs& inputs) const {
    return given_by(rules_, law, inputs, choice);
  }
  // Which of them gives what was found.
  [[nodiscard]] Naming name(const Tensor& found, const Inputs& inputs) const {
    return name_by_laws(rules_, last_, inputs, found.data, right_(inputs));
  }

 private:
  std::vector<WrongLaw<Inputs>> rules_;
  LastLaws last_;
  Right right_;
  std::vector<Law> laws_;
};

}  // namespace oracles
