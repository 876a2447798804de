// A store of plain vectors, for reports: the same rows every time.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/store/bisection.h"
#include "harness/store/store.h"
#include "nsa/base/error.h"

namespace fixtures {

class FakeStore : public harness::Store {
 public:
  std::vector<harness::RunRecord> run_rows;  // oldest first
  std::vector<harness::CaseRecord> case_rows;
  std::vector<harness::Acceptance> accepted;

  [[nodiscard]] const std::string& path() const override { return path_; }
  std::int64_t begin_run(const harness::RunRecord&) override { return refuse(); }
  std::int64_t plan_case(const harness::CaseRecord&) override { return refuse(); }
  void begin_case(std::int64_t, std::int64_t) override { refuse(); }
  void finish_case(std::int64_t, double, const harness::Digest&) override { refuse(); }
  void add_judgement(std::int64_t, const harness::StoredJudgement&) override { refuse(); }
  void finish_run(std::int64_t, int, bool, std::int64_t) override { refuse(); }
  std::int64_t add_run(const harness::RunRecord&, std::span<const harness::WholeCase>) override {
    return refuse();
  }
  void mark_pruned(std::int64_t, std::int64_t) override { refuse(); }
  void accept(const harness::Acceptance&) override { refuse(); }

  [[nodiscard]] std::vector<harness::RunRecord> runs(std::int64_t since_ms,
                                                     std::int64_t until_ms) const override {
    std::vector<harness::RunRecord> found;
    for (const auto& run : run_rows) {
      if (run.started_ms >= since_ms && run.started_ms < until_ms) found.push_back(run);
    }
    std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
      return a.started_ms < b.started_ms;
    });
    return found;
  }
  [[nodiscard]] std::optional<harness::RunRecord> last_run() const override {
    return run_rows.empty() ? std::nullopt : std::optional(run_rows.back());
  }
  [[nodiscard]] std::optional<harness::RunRecord> run_named(
      const std::string& name) const override {
    for (const auto& run : run_rows) {
      if (run.name == name) return run;
    }
    return std::nullopt;
  }
  [[nodiscard]] std::vector<harness::CaseRecord> cases(std::int64_t run_id) const override {
    std::vector<harness::CaseRecord> found;
    for (const auto& record : case_rows) {
      if (record.run_id == run_id) found.push_back(record);
    }
    return found;
  }
  [[nodiscard]] std::map<harness::Outcome, int> tally(std::int64_t run_id) const override {
    std::map<harness::Outcome, int> counts;
    for (const auto& record : cases(run_id)) ++counts[harness::outcome_of(record)];
    return counts;
  }
  [[nodiscard]] std::vector<harness::Earlier> history(const harness::CaseRecord& now,
                                                      int) const override {
    return earlier(now, [&](const auto& record) { return record.history_id == now.history_id; });
  }
  [[nodiscard]] std::optional<harness::Earlier> namesake(
      const harness::CaseRecord& now) const override {
    const auto all = earlier(now, [&](const auto& record) { return record.label == now.label; });
    return all.empty() ? std::nullopt : std::optional(all.front());
  }
  [[nodiscard]] std::vector<harness::LaunchTimes> launches(
      const std::string& history_id) const override {
    std::vector<harness::LaunchTimes> found;
    for (const auto& record : case_rows) {
      const std::map<std::string, double> metrics(record.digest.metrics.begin(),
                                                  record.digest.metrics.end());
      if (record.history_id != history_id || !metrics.contains(harness::kControlMs)) continue;
      if (harness::outcome_of(record) != harness::Outcome::pass) continue;
      found.push_back({record.run_id,
                       record.position,
                       metrics.at(harness::kStepMs),
                       metrics.at(harness::kControlMs)});
    }
    return found;
  }
  [[nodiscard]] double seconds_taken(const std::string&) const override { return 0.0; }
  [[nodiscard]] double seconds_taken(const std::string&, const std::string&) const override {
    return 0.0;
  }
  [[nodiscard]] std::vector<harness::Acceptance> acceptances(
      const std::string& history_id) const override {
    std::vector<harness::Acceptance> found = accepted;
    std::erase_if(found, [&](const auto& one) { return one.history_id != history_id; });
    return found;
  }

 private:
  template <typename Same>
  [[nodiscard]] std::vector<harness::Earlier> earlier(const harness::CaseRecord& now,
                                                      const Same& same) const {
    const auto began = [&](std::int64_t run_id) {
      const auto run = std::find_if(
          run_rows.begin(), run_rows.end(), [&](const auto& one) { return one.id == run_id; });
      return std::pair(run == run_rows.end() ? run_id : run->started_ms, run_id);
    };
    std::vector<harness::Earlier> found;
    for (const auto& record : case_rows) {
      if (began(record.run_id) >= began(now.run_id)) continue;
      if (!same(record) || !record.judgement) continue;
      if (!harness::is_decided(record.judgement->outcome)) continue;
      const auto& findings = record.judgement->findings;
      found.insert(found.begin(),
                   {record.run_id,
                    "run" + std::to_string(record.run_id),
                    record.profile,
                    record.judgement->outcome,
                    findings.empty() ? "" : findings.front().code,
                    began(record.run_id).first});
    }
    std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
      return a.started_ms > b.started_ms;
    });
    return found;
  }

  std::string path_ = "runs.db";

  static std::int64_t refuse() { throw nsa::Error("a report never writes"); }
};

}  // namespace fixtures
