// The diagnoses of stored runs, computed anew from the rows of their cases.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "harness/diagnose/diagnosis.h"
#include "harness/store/store.h"

namespace harness {

// Among what a run was asked for: its failing cases are diagnosed. The value is "", or what the failure of one of them
// was in an earlier run: asked_text().
inline constexpr const char* kDiagnoseOption = "diagnose";

struct AskedDiagnosis {
  std::string run;  // in which it failed
  std::string label;
  std::vector<Cause> causes;
};
[[nodiscard]] std::string asked_text(const AskedDiagnosis& asked);

struct RecordedDiagnosis {
  std::string label;      // of the case that failed
  std::string failed_in;  // the earlier run, "" for its own
  Diagnosis diagnosis;
  double seconds = 0.0;  // of all that was run for it
};

// Of every case of `run` that failed and was to be diagnosed, in their order. `records`: all of the run's.
[[nodiscard]] std::vector<RecordedDiagnosis> diagnoses_of(const RunRecord& run,
                                                          std::span<const CaseRecord> records);

// The same while the run goes on: of the case `ran.front()` and its experiments so far. Nothing where it is none to
// diagnose: it did not fail, or is the trial of a search.
[[nodiscard]] std::optional<Diagnosis> diagnosis_of(const Pairs& command,
                                                    std::span<const CaseRecord* const> ran);

[[nodiscard]] nlohmann::json to_object(const RecordedDiagnosis& recorded);
// What a person reads first: the status, what is established and how, what was ruled out. Ends with a newline.
[[nodiscard]] std::string to_lines(const RecordedDiagnosis& recorded);

}  // namespace harness
