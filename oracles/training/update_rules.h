// The rules behind update_laws.h. Internal to the oracle.
#pragma once

#include <vector>

#include "oracles/expected.h"
#include "oracles/training/adamw_terms.h"
#include "oracles/training/update_laws.h"

namespace oracles {

// One step of one parameter, and what is right there.
struct UpdateFacts {
  UpdateRecord record;
  const UpdateSettings& settings;
  const UpdateContext& context;
  double own_norm = 0;  // of this parameter's gradient, unscaled

  [[nodiscard]] double clip() const { return clip_factor(context.norm, context.train.max_norm); }
};

// What a step with these terms gives: p, m and v of every element, [N,3].
Expected updated(const UpdateRecord& record, const UpdateTerms& terms);

using UpdateRule = WrongLaw<UpdateFacts>;

std::vector<UpdateRule> gradient_factor_rules();  // scale, clip
std::vector<UpdateRule> moment_rules();           // betas, bias corrections, eps
std::vector<UpdateRule> step_rules();             // decay, learning rate, the step itself

}  // namespace oracles
