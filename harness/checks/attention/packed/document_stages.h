// The oracle at what was recorded of one packed document.
#pragma once

#include <string>

#include "harness/checks/attention/record/layer_record.h"
#include "oracles/attention/stages.h"

namespace harness::checks {

// `kept` makes it the yardstick of a narrow type (error_budget.h).
class DocumentStages {
 public:
  explicit DocumentStages(const LayerRecord& record, const oracles::Kept& kept = {})
      : stages_(record.config, record.weights, record.x, options_in(record, kept)) {
    give_recorded(record, stages_);
  }
  [[nodiscard]] const oracles::Stages& get() const { return stages_; }

 private:
  static oracles::AttentionOptions options_in(const LayerRecord& record,
                                              const oracles::Kept& kept) {
    oracles::AttentionOptions options = options_of(record);
    options.kept = kept;
    return options;
  }

  oracles::Stages stages_;
};

}  // namespace harness::checks
