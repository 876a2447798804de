// Runs of many cases, for reports that tell them by scenario.
#pragma once

#include <string>
#include <vector>

#include "tests/reports/sample.h"

namespace fixtures {

// A run to which cases are added one by one.
class LongRun {
 public:
  FakeStore store;

  explicit LongRun(std::int64_t run = 1) : run_(run) {
    store.run_rows = {sample_run(run, "20261121T041900Z-dddd", 1'795'234'740'000)};
  }

  // A case of `scenario` at this point of its axes; nothing is judged yet.
  harness::CaseRecord& add(const std::string& scenario,
                           const std::vector<std::pair<std::string, std::string>>& point = {}) {
    harness::Case one = sample_case(scenario);
    one.point = point;
    const auto id = static_cast<std::int64_t>(store.case_rows.size() + 1);
    harness::CaseRecord record = sample_record(id, run_, scenario);
    record.label = one.label();
    record.history_id = record.label;
    record.case_json = harness::case_to_json(one);
    record.seconds = 2.0;
    store.case_rows.push_back(record);
    return store.case_rows.back();
  }

  harness::CaseRecord& add(const std::string& scenario,
                           const std::vector<std::pair<std::string, std::string>>& point,
                           const harness::Judgement& judgement) {
    harness::CaseRecord& record = add(scenario, point);
    record.judgement = judgement;
    record.digest = sample_digest();
    return record;
  }

  // Changes the description of the case that was added last.
  template <typename Change>
  void describe(const Change& change) {
    harness::CaseRecord& record = store.case_rows.back();
    harness::Case one = harness::case_from_json(record.case_json, "case");
    change(one.scenario);
    record.case_json = harness::case_to_json(one);
  }

  void refuse(const std::string& scenario, const std::string& reason) {
    harness::Judgement judged;
    judged.outcome = harness::Outcome::error;
    judged.reason = reason;
    add(scenario).judgement = judged;
  }

  void skip(const std::string& scenario, const std::string& reason) {
    add(scenario).skip_reason = reason;
  }

 private:
  std::int64_t run_;
};

inline std::pair<std::string, std::string> at(const std::string& axis, std::int64_t value) {
  return {axis, std::to_string(value)};
}

inline harness::Judgement judged_as(harness::Outcome outcome, const std::string& reason) {
  harness::Judgement judged = outcome == harness::Outcome::pass ? passed() : failed();
  judged.outcome = outcome;
  judged.reason = reason;
  return judged;
}

// `count` cases of one scenario that passed, at lengths 16, 32, ...; each has the values that passed() measures.
inline void add_passing(LongRun& run, const std::string& scenario, int count) {
  for (int i = 0; i < count; ++i) {
    const int length = 16 * (i + 1);
    run.add(scenario, {at("training.seq_len", length)}, passed());
    run.describe([&](harness::Scenario& one) { one.training.seq_len = length; });
  }
}

// One of everything: cases that pass, a failure, known ones, planted faults that are found, refused and skipped ones.
inline FakeStore long_store() {
  LongRun run;
  run.refuse("needs_cards_a", "needs 2 GPUs, this machine has 1");
  add_passing(run, "lengths", 3);
  run.store.case_rows.back().judgement->verdicts[0].reason = "another reason";
  run.store.case_rows.back().digest.metrics[1].second = 7.5;
  run.add("lengths", {at("training.seq_len", 2048)}, failed());
  run.describe([](harness::Scenario& one) { one.training.seq_len = 2048; });
  run.store.case_rows.back().digest.series.clear();
  for (int i = 0; i < 2; ++i) {
    const std::string why = "nobody mended it (known until 2027-01-31; GRAD.MISSING)";
    harness::CaseRecord& record =
        run.add("known", {at("model.w", 64 + i)}, judged_as(harness::Outcome::xfail, why));
    record.digest.metrics.clear();
    record.digest.phases.clear();
    record.digest.arrivals.clear();
    run.describe([&](harness::Scenario& one) {
      one.known = harness::KnownFailure{
          {{"model.w", "64"}}, harness::Outcome::fail, "GRAD.MISSING", "nobody", "2027-01-31"};
    });
  }
  for (const char* name : {"kcmp_detached", "first_key", "third", "fourth"}) {
    run.add(name, {}, judged_as(harness::Outcome::pass, "as expected: FAIL, GRAD.MISSING"));
    run.describe([&](harness::Scenario& one) {
      one.expect = harness::Expectation{harness::Outcome::fail, "GRAD.MISSING", {}};
      one.fault = harness::FaultRequest{};
      one.fault->name = name;
    });
    run.store.case_rows.back().judgement->findings = failed().findings;
  }
  for (const char* name : {"needs_cards_b", "needs_cards_c", "needs_cards_d"}) {
    run.refuse(name, "needs 2 GPUs, this machine has 1");
  }
  run.add("interrupted");
  for (int i = 0; i < 4; ++i) run.skip("planted_" + std::to_string(i), "it has no profile gpu");
  return run.store;
}

}  // namespace fixtures
