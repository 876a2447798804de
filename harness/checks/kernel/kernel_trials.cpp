#include "harness/checks/kernel/kernel_trials.h"

#include <algorithm>

#include "harness/checks/kernel/kernel_call.h"
#include "harness/foreign/trials.h"
#include "nsa/base/text.h"

namespace harness::checks {

std::optional<std::int64_t> TrialOnRecord::number_said(const std::string& key) const {
  const auto at = inputs.metadata().find(key);
  return at == inputs.metadata().end() ? std::nullopt : nsa::parse_int(at->second);
}

std::int64_t axis_of(const nsa::SafetensorsFile& file, const char* tensor, std::size_t axis) {
  if (!file.contains(tensor) || file.at(tensor).shape.size() <= axis) return 0;
  return file.at(tensor).shape[axis];
}

std::int64_t TrialOnRecord::batch() const {
  return axis_of(inputs, inputs.contains("q") ? "q" : "scores", 0);
}

std::int64_t TrialOnRecord::length() const {
  return axis_of(inputs, inputs.contains("q") ? "q" : "scores", 2);
}

std::string TrialOnRecord::said(const std::string& key) const {
  const auto at = inputs.metadata().find(key);
  return at == inputs.metadata().end() ? "" : at->second;
}

std::vector<TrialOnRecord> trials_on_record(const Evidence& evidence, ResultBuilder& result) {
  std::vector<TrialOnRecord> trials;
  for (const auto& row : evidence.artefacts) {
    if (row.process != kController || row.row.name != kTrialInputs) continue;
    const int number = row.row.layer;
    auto file = open_artefact(evidence, {kController, kTrialInputs, 1, 0, number}, result);
    if (!file) continue;
    const auto name = file->metadata().find("trial");
    trials.push_back({number,
                      name == file->metadata().end() ? std::to_string(number) : name->second,
                      std::move(*file)});
  }
  std::sort(trials.begin(), trials.end(), [](const TrialOnRecord& a, const TrialOnRecord& b) {
    return a.number < b.number;
  });
  if (trials.empty()) result.missing("a trial of the kernel");
  return trials;
}

std::optional<nsa::SafetensorsFile> open_outputs(const Evidence& evidence,
                                                 const TrialOnRecord& trial,
                                                 int call,
                                                 ResultBuilder& result) {
  return open_artefact(evidence, {0, kKernelOutputs, call, 0, trial.number}, result);
}

std::optional<nsa::SafetensorsFile> open_fresh_outputs(const Evidence& evidence,
                                                       const TrialOnRecord& trial,
                                                       ResultBuilder& result) {
  const ArtefactKey key{kTwin, kKernelOutputs, 1, 0, trial.number};
  if (find_artefact(evidence, key) == nullptr) return std::nullopt;
  return open_artefact(evidence, key, result);
}

void put_trials(const std::vector<std::string>& names, Finding& finding) {
  finding.site.layers.clear();
  finding.site.ranks.clear();
  finding.site.step.reset();
  finding.site.detail["trials"] = names;
  finding.facts.put_some("trial", names);
}

}  // namespace harness::checks
