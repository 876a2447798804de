// The rules behind update_laws.h. Internal to the oracle.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "oracles/training/adamw_terms.h"
#include "oracles/training/update_laws.h"

namespace oracles {

// One step of one parameter, and what is right there.
struct UpdateFacts {
  const UpdateSettings& settings;
  const UpdateContext& context;
  double own_norm = 0;  // of this parameter's gradient, unscaled

  [[nodiscard]] double clip() const { return clip_factor(context.norm, context.train.max_norm); }
};

struct UpdateRule {
  Law law;
  // Changes the right terms; false where the law has no meaning.
  std::function<bool(const UpdateFacts& facts, UpdateTerms& terms)> change;
};

std::vector<UpdateRule> gradient_factor_rules();  // scale, clip
std::vector<UpdateRule> moment_rules();           // betas, bias corrections, eps
std::vector<UpdateRule> step_rules();             // decay, learning rate, the step itself

}  // namespace oracles
