// Wrong laws of single stages of a layer that are known to happen: everything before the stage is
// right, the stage itself follows the law. Legend as in attention.h; hq = g*h + i counts all heads.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "oracles/attention/stages.h"
#include "oracles/naming.h"

namespace oracles {

struct StageLaw {
  Law law;
  std::vector<Stage> stages;  // that it makes sense for
  // What the law gives, from the inputs of the stage.
  std::function<Tensor(const Stages&, Stage)> output;
  // Empty: it has a meaning for every layer. No other group's keys where there is one group, no
  // weights of another shape, no ignored rope_scale where it is 1.
  std::function<bool(const Stages&, Stage)> makes_sense;
};

// All of them, in a fixed order. A name may be listed several times, for other stages each time,
// where the same mistake looks different there.
std::span<const StageLaw> stage_laws();

// Those of a stage that have a meaning for this layer, in the order above.
std::vector<const StageLaw*> stage_laws(Stage stage, const Stages& stages);

// What the law gives. Throws std::invalid_argument where stage_laws(stage, stages) does not list
// it.
Tensor output_under(std::string_view law, Stage stage, const Stages& stages);

}  // namespace oracles
