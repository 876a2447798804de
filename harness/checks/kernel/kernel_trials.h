// The trials of a foreign kernel that are on record, in their order.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/checks/artefacts.h"
#include "harness/judge/finding.h"

namespace harness::checks {

struct TrialOnRecord {
  int number = 0;
  std::string name;
  nsa::SafetensorsFile inputs;

  // Of the file's metadata; nothing, or "", where it does not say it.
  [[nodiscard]] std::optional<std::int64_t> number_said(const std::string& key) const;
  [[nodiscard]] std::string said(const std::string& key) const;
  // Its sequences and their positions; 0 where its inputs do not say it.
  [[nodiscard]] std::int64_t batch() const;
  [[nodiscard]] std::int64_t length() const;
};

// What cannot be opened is missing in `result`.
[[nodiscard]] std::vector<TrialOnRecord> trials_on_record(const Evidence& evidence,
                                                          ResultBuilder& result);

// The length of an axis; 0 where the file has no such tensor or axis.
[[nodiscard]] std::int64_t axis_of(const nsa::SafetensorsFile& file,
                                   const char* tensor,
                                   std::size_t axis);

// What came back from the trial as the first call of a fresh process; none where that was not tried.
[[nodiscard]] std::optional<nsa::SafetensorsFile> open_fresh_outputs(const Evidence& evidence,
                                                                     const TrialOnRecord& trial,
                                                                     ResultBuilder& result);

// What came back from call 1 or 2 of a trial.
[[nodiscard]] std::optional<nsa::SafetensorsFile> open_outputs(const Evidence& evidence,
                                                               const TrialOnRecord& trial,
                                                               int call,
                                                               ResultBuilder& result);

// Says of a finding in which trials it was seen; it is of no layer, rank or step.
void put_trials(const std::vector<std::string>& names, Finding& finding);

}  // namespace harness::checks
