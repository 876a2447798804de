#include "harness/store/bisection.h"

#include <algorithm>
#include <set>
#include <utility>

#include "harness/judge/expectation.h"
#include "harness/store/experiments.h"
#include "nsa/base/error.h"
#include "nsa/base/text.h"

namespace harness {
namespace {

using State = BisectProgress::State;

// Reading a case costs a millisecond, and a run may have thousands: only those that can be trials are read. Quotes inside a
// text of the case are escaped, so that no text looks like the key.
std::optional<Case> read_trial(const CaseRecord& record) {
  if (record.case_json.find("\"bisect\":{") == std::string::npos) return std::nullopt;
  try {
    Case the_case = case_from_json(record.case_json, "case " + record.label);
    return is_trial(the_case) ? std::optional(std::move(the_case)) : std::nullopt;
  } catch (const nsa::Error&) {
    return std::nullopt;  // it counts as the case it is
  }
}

std::string label_of_base(Case trial) {
  trial.point.pop_back();
  return trial.label();
}

const CaseRecord* record_of(const Bisection& bisection, const std::vector<std::string>& subset) {
  for (std::size_t i = 0; i < bisection.trials.size(); ++i) {
    if (bisection.trials[i].subset == subset) return bisection.records[i];
  }
  return nullptr;
}

// The trial that shows the answer, with the minimal set in place of the layers that its finding names.
Judgement shown(const Bisection& bisection) {
  Judgement judgement;
  judgement.reason = bisection.progress.conclusion;
  if (bisection.progress.state != State::minimal) {
    if (bisection.progress.state == State::nothing_breaks) judgement.outcome = Outcome::pass;
    return judgement;
  }
  const CaseRecord* record = record_of(bisection, bisection.progress.minimal);
  if (record != nullptr && record->judgement) judgement = *record->judgement;
  std::vector<int> layers;
  for (const std::string& value : bisection.progress.minimal) {
    if (const auto layer = nsa::parse_int(value)) layers.push_back(static_cast<int>(*layer));
  }
  const bool all_numbers = layers.size() == bisection.progress.minimal.size();
  if (judgement.findings.empty()) judgement.findings.emplace_back().role = Role::initiating;
  if (all_numbers) judgement.findings.front().site.layers = layers;
  return judgement;
}

void conclude(Bisection& bisection) {
  bisection.progress = bisect_progress(bisection.candidates, bisection.trials);
  if (bisection.expect) {
    bisection.missed = expectation_missed(*bisection.expect, shown(bisection));
  }
}

}  // namespace

std::optional<Outcome> Bisection::outcome() const {
  if (!expect) return std::nullopt;
  const bool answered = progress.state != State::searching && progress.state != State::inconclusive;
  if (answered) return missed.empty() ? Outcome::pass : Outcome::fail;
  const bool error = std::any_of(trials.begin(), trials.end(), [](const BisectTrial& trial) {
    return trial.outcome == Outcome::error;
  });
  const bool skipped = !trials.empty() && trials.front().outcome == Outcome::skip;
  if (error) return Outcome::error;
  return skipped ? Outcome::skip : Outcome::inconclusive;
}

Outcome outcome_of(const CaseRecord& record) {
  if (!record.skip_reason.empty()) return Outcome::skip;
  return record.judgement ? record.judgement->outcome : Outcome::inconclusive;
}

std::vector<Bisection> bisections_of(std::span<const CaseRecord> records) {
  std::vector<Bisection> all;
  std::vector<std::pair<std::int64_t, std::string>> keys;  // run and base case of each
  for (const CaseRecord& record : records) {
    const auto trial = read_trial(record);
    if (!trial) continue;
    const auto key = std::pair(record.run_id, label_of_base(*trial));
    const auto at = std::find(keys.begin(), keys.end(), key);
    const auto index = static_cast<std::size_t>(at - keys.begin());
    if (at == keys.end()) {
      const Scenario& scenario = trial->scenario;
      keys.push_back(key);
      all.emplace_back();
      all.back().label = key.second;
      all.back().over = scenario.bisect.over;
      all.back().candidates = scenario.bisect.candidates;
      all.back().expect = scenario.expect;
    }
    // One that was planned and never judged tells nothing: it is still to be done.
    if (record.skip_reason.empty() && !record.judgement) continue;
    all[index].records.push_back(&record);
    all[index].trials.push_back({subset_of(*trial), outcome_of(record)});
  }
  for (Bisection& bisection : all) conclude(bisection);
  return all;
}

std::vector<Outcome> outcomes_that_count(std::span<const CaseRecord> records) {
  std::vector<Outcome> outcomes;
  std::set<const CaseRecord*> folded;
  for (const Bisection& bisection : bisections_of(records)) {
    const auto outcome = bisection.outcome();
    if (!outcome) continue;
    outcomes.push_back(*outcome);
    folded.insert(bisection.records.begin(), bisection.records.end());
  }
  for (const CaseRecord& record : records) {
    if (folded.contains(&record) || is_experiment(record)) continue;
    outcomes.push_back(outcome_of(record));
  }
  return outcomes;
}

}  // namespace harness
