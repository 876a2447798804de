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
    for (const oracles::StageRow& row : oracles::kStageTable) {
      const std::string name = name_of(row);
      if (!is_of_choice(row) && record.has(name)) stages_.record(row.stage, record.at(name));
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
