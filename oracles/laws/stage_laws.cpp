#include "oracles/laws/stage_laws.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "oracles/laws/families.h"

namespace oracles {

std::span<const StageLaw> stage_laws() {
  static const std::vector<StageLaw> kLaws = joined({projection_laws(),
                                                     rotation_laws(),
                                                     compression_laws(),
                                                     score_laws(),
                                                     choice_laws(),
                                                     attend_laws(),
                                                     gate_laws(),
                                                     mixing_laws(),
                                                     layout_laws()});
  return kLaws;
}

std::vector<const StageLaw*> stage_laws(Stage stage, const Stages& stages) {
  std::vector<const StageLaw*> laws;
  for (const StageLaw& law : stage_laws()) {
    const bool listed = std::find(law.stages.begin(), law.stages.end(), stage) != law.stages.end();
    if (listed && (!law.makes_sense || law.makes_sense(stages, stage))) {
      laws.push_back(&law);
    }
  }
  return laws;
}

Tensor output_under(std::string_view name, Stage stage, const Stages& stages) {
  for (const StageLaw* law : stage_laws(stage, stages)) {
    if (law->law.name == name) {
      return law->output(stages, stage);
    }
  }
  throw std::invalid_argument("no law " + std::string(name) + " for " +
                              std::string(stage_name(stage)) + " of this layer");
}

}  // namespace oracles
