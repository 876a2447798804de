// Every law of a stage, with what rounding adds: it must be named by its own name alone.
#pragma once

#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "oracles/model/stage_naming.h"
#include "oracles/rounding.h"
#include "tests/oracles/random_layer.h"

namespace oracles::testing {

// The numbers as a computation keeps them: off by up to 80 % of the bound's part for sums, then
// rounded to the type.
inline Tensor kept(const Expected& e, Number number, std::uint64_t seed) {
  Random random(seed);
  Tensor found = e.value;
  const double stored = Rounding::of(number).stored;
  for (std::size_t i = 0; i < found.data.size(); ++i) {
    const double room = std::max(0.0, e.bound.data[i] - stored * std::abs(e.value.data[i]));
    const double share = static_cast<double>(random.from(-400, 400)) / 500;
    found.data[i] = rounded(e.value.data[i] + share * room, number);
  }
  return found;
}

struct LawTrial {
  std::span<const Law> laws;
  std::function<std::optional<Expected>(std::string_view law, std::size_t choice)> under;
  std::function<Naming(const Tensor& found)> naming;
  Number number = Number::f32;
  // Laws that give the same numbers here, by the text that says so.
  std::map<std::string, std::string> twins = {};
  // Laws that are within rounding here.
  std::set<std::string> vanishing = {};
};

// Returns how many were named. In narrow types a law may be within rounding: then nothing is wrong.
inline int try_every_law(const LawTrial& trial) {
  int named = 0;
  for (const Law& law : trial.laws) {
    const std::string name(law.name);
    if (name.ends_with("_factor") || name.ends_with("_kept_narrow")) {
      continue;
    }
    for (std::size_t choice = 0; choice < 12; ++choice) {
      const std::optional<Expected> output = trial.under(law.name, choice);
      if (!output) {
        break;
      }
      const Naming naming = trial.naming(kept(*output, trial.number, choice + 1));
      if (naming.right.fits()) {
        EXPECT_TRUE(trial.number != Number::f32 || trial.vanishing.count(name) > 0)
            << name << " is within rounding";
        continue;
      }
      ++named;
      if (const auto twins = trial.twins.find(name); twins != trial.twins.end()) {
        EXPECT_EQ(naming.text(), twins->second) << name;
        continue;
      }
      EXPECT_NE(naming.alone(), nullptr) << name << " was told as " << naming.text();
      if (naming.alone() != nullptr) {
        EXPECT_EQ(naming.alone()->law.name, law.name);
        EXPECT_EQ(naming.alone()->share, 1) << name;
      }
    }
  }
  return named;
}

// The two laws that every stage has: a factor, and fewer digits.
inline void try_last_laws(const Expected& right,
                          const std::function<Naming(const Tensor& found)>& naming,
                          Number number) {
  Tensor scaled = kept(right, number, 1);
  for (double& value : scaled.data) {
    value = rounded(value * 1.37, number);
  }
  EXPECT_NE(naming(scaled).text().find("_factor: "), std::string::npos) << naming(scaled).text();
  EXPECT_NE(naming(scaled).text().find("(factor 1.3"), std::string::npos) << naming(scaled).text();
  if (number == Number::f32) {
    Tensor narrow = kept(right, number, 2);
    for (double& value : narrow.data) {
      value = rounded(value, Number::bf16);
    }
    EXPECT_NE(naming(narrow).text().find("(bfloat16 digits)"), std::string::npos)
        << naming(narrow).text();
  }
}

// All laws of a library. Returns how many were named by try_every_law().
template <typename Inputs>
int try_library(const StageLibrary<Inputs>& library,
                const std::type_identity_t<Inputs>& in,
                const Expected& right,
                Number number) {
  const auto naming = [&](const Tensor& found) { return library.name(found, in); };
  EXPECT_EQ(naming(kept(right, number, 1)).text(), "right");
  try_last_laws(right, naming, number);
  const auto under = [&](std::string_view law, std::size_t choice) {
    return library.under(law, choice, in);
  };
  return try_every_law({library.laws(), under, naming, number});
}

}  // namespace oracles::testing
