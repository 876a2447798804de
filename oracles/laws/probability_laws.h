// Wrong laws of the probabilities of the keys, which the branch outputs and the block scores share.
// Internal to the library.
#pragma once

#include <string_view>
#include <vector>

#include "oracles/laws/attend_law.h"
#include "oracles/laws/stage_laws.h"

namespace oracles {

// Makes the law of such probabilities; right where the terms say nothing else.
using MakeLaw = StageLaw (*)(std::string_view name,
                             std::string_view about,
                             const AttendTerms& terms);

std::vector<StageLaw> visibility_laws(MakeLaw make);  // which compressed tokens a query sees
std::vector<StageLaw> softmax_laws(MakeLaw make);     // scale, sentinel, mask after the softmax
std::vector<StageLaw> group_laws(MakeLaw make);       // whose keys

}  // namespace oracles
