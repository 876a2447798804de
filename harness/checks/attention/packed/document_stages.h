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
      : stages_(record.config, record.weights, record.x, options_of(record, kept)) {
    for (const oracles::Stage stage : oracles::all_stages()) {
      const std::string name(oracles::stage_name(stage));
      const bool is_given = stage == oracles::Stage::blocks || stage == oracles::Stage::p_grp;
      if (!is_given && record.has(name)) stages_.record(stage, record.at(name));
    }
  }
  [[nodiscard]] const oracles::Stages& get() const { return stages_; }

 private:
  static oracles::AttentionOptions options_of(const LayerRecord& record,
                                              const oracles::Kept& kept) {
    oracles::AttentionOptions options;
    options.kept = kept;
    options.replay = usable_blocks(record);
    options.gate_override = record.gate_override;
    return options;
  }

  oracles::Stages stages_;
};

}  // namespace harness::checks
