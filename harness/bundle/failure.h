// What failed, as far as two machines and two sizes of a case can agree about it: the initiating findings, their codes
// and the kind of place they name. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "harness/judge/judge.h"

namespace harness {

struct Cause {
  std::string code;
  Site site;
  std::string statement;  // for people

  bool operator==(const Cause&) const = default;
  [[nodiscard]] std::string title() const;  // "GRAD.MISSING @ layer 3"
};

// Of the initiating findings, the first one told first.
[[nodiscard]] std::vector<Cause> causes_of(const Judgement& judgement);

// The same code, branch, parameter, operation and phase, and whether layers and ranks are named. Which layer, which
// rank, which rows and which step may differ: another size of the same case has others. Of SLOW.HOST the code alone: its
// place is where a rank was when its time was over.
[[nodiscard]] bool is_alike(const Cause& a, const Cause& b);

enum class Replayed { same, another, none };

struct Comparison {
  Replayed result = Replayed::none;
  std::vector<std::string> also;     // causes that were seen and not expected
  std::vector<std::string> missing;  // causes that were expected and not seen
  bool same_place = true;            // the first cause is at the very place that was expected
};

// `same` where the first of `expected` was seen again. REQUIRES: `expected` is not empty.
[[nodiscard]] Comparison compare_causes(const std::vector<Cause>& expected,
                                        const std::vector<Cause>& seen);

// Whether a smaller case failed in the same way and in no other: its first cause and all its codes are those of
// `expected`.
[[nodiscard]] bool fails_alike(const std::vector<Cause>& expected, const std::vector<Cause>& seen);

}  // namespace harness
