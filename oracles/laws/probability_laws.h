// Wrong laws of the probabilities of the keys, which the branch outputs and the block scores share.
// Internal to the library.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "oracles/laws/attend_law.h"

namespace oracles {

struct ProbabilityLaw {
  std::string_view name;
  std::string_view about;
  AttendLaw law;
  std::function<bool(const Stages&, Stage)> makes_sense = {};  // empty: for every layer
};

std::vector<ProbabilityLaw> visibility_laws();  // which compressed tokens a query sees
std::vector<ProbabilityLaw> softmax_laws();     // scale, sentinel, mask after the softmax
std::vector<ProbabilityLaw> group_laws();       // whose keys

}  // namespace oracles
