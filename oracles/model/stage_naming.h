// Tables of wrong laws of a stage, and how they are tried. Internal to the oracle's model room.
#pragma once

#include <cstddef>
#include <functional>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "oracles/expected.h"

namespace oracles {

// A law about a stage with these inputs. Where a law has several forms (which other input, which
// share), each is a choice with a name of its own.
template <typename Inputs>
struct StageRule {
  using Output = std::function<std::optional<Expected>(const Inputs&, std::size_t choice)>;
  // Names of the forms; empty: one form without a name.
  using Choices = std::function<std::vector<std::string>(const Inputs&)>;

  StageRule(const Law& of, Output gives, Choices forms = Choices())
      : law(of), output(std::move(gives)), choices(std::move(forms)) {}

  Law law;
  Output output;
  Choices choices;
};

// Laws that are tried where no other fits: they say less.
struct LastLaws {
  Law factor;  // the right numbers times one factor
  Law narrow;  // the right numbers with the digits of a narrow type
};

template <typename Inputs>
std::vector<Law> laws_of(const std::vector<StageRule<Inputs>>& rules, const LastLaws& last) {
  std::vector<Law> laws = laws_of(rules);
  laws.push_back(last.factor);
  laws.push_back(last.narrow);
  return laws;
}

template <typename Inputs>
std::optional<Expected> output_under(const std::vector<StageRule<Inputs>>& rules,
                                     std::string_view law,
                                     std::size_t choice,
                                     const Inputs& inputs) {
  const StageRule<Inputs>& rule = rule_named(rules, law);
  const std::size_t forms = rule.choices ? rule.choices(inputs).size() : 1;
  return choice < forms ? rule.output(inputs, choice) : std::nullopt;
}

Naming name_with_last(const std::vector<double>& found,
                      const Expected& right,
                      std::span<const Candidate> candidates,
                      const LastLaws& last);

template <typename Inputs>
Naming name_by_rules(const std::vector<StageRule<Inputs>>& rules,
                     const LastLaws& last,
                     const Inputs& inputs,
                     const std::vector<double>& found,
                     const Expected& right) {
  std::vector<Candidate> candidates;
  for (const StageRule<Inputs>& rule : rules) {
    const std::vector<std::string> names =
        rule.choices ? rule.choices(inputs) : std::vector<std::string>{""};
    for (std::size_t choice = 0; choice < names.size(); ++choice) {
      candidates.push_back({rule.law,
                            [&rule, &inputs, choice] { return rule.output(inputs, choice); },
                            names[choice]});
    }
  }
  return name_with_last(found, right, candidates, last);
}

// The library of wrong laws of a stage with these inputs.
template <typename Inputs>
class StageLibrary {
 public:
  // The right result. Throws std::invalid_argument where shapes do not fit.
  using Right = std::function<Expected(const Inputs&)>;
  StageLibrary(const std::vector<StageRule<Inputs>>& rules, const LastLaws& last, Right right)
      : rules_(rules), last_(last), right_(std::move(right)), laws_(laws_of(rules, last)) {}

  [[nodiscard]] std::span<const Law> laws() const { return laws_; }
  // What a law gives. `choice` counts the forms of a law that has several. None where it has no meaning or no such form.
  // Throws std::invalid_argument for an unknown name, as the two last laws are: they change numbers, not the stage.
  [[nodiscard]] std::optional<Expected> under(std::string_view law,
                                              std::size_t choice,
                                              const Inputs& inputs) const {
    return output_under(rules_, law, choice, inputs);
  }
  // Which of them gives what was found.
  [[nodiscard]] Naming name(const Tensor& found, const Inputs& inputs) const {
    return name_by_rules(rules_, last_, inputs, found.data, right_(inputs));
  }

 private:
  std::vector<StageRule<Inputs>> rules_;
  LastLaws last_;
  Right right_;
  std::vector<Law> laws_;
};

template <typename T>
void append(std::vector<T>& to, std::vector<T> from) {
  std::move(from.begin(), from.end(), std::back_inserter(to));
}

}  // namespace oracles
