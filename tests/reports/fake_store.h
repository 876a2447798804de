// A store of plain vectors, for reports: the same rows every time.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/store/store.h"
#include "nsa/base/error.h"

namespace fixtures {

class FakeStore : public harness::Store {
 public:
  std::vector<harness::RunRecord> run_rows;  // oldest first
  std::vector<harness::CaseRecord> case_rows;
  std::map<std::int64_t, harness::Evidence> evidence_of;  // by case row

  std::int64_t begin_run(const harness::RunRecord&) override { return refuse(); }
  std::int64_t plan_case(const harness::CaseRecord&) override { return refuse(); }
  void begin_case(std::int64_t, std::int64_t) override { refuse(); }
  void add_event(std::int64_t, const harness::Event&) override { refuse(); }
  void flush() override { refuse(); }
  void finish_case(std::int64_t, double) override { refuse(); }
  void add_judgement(std::int64_t, const harness::Judgement&, std::int64_t) override { refuse(); }
  void finish_run(std::int64_t, int, bool, std::int64_t) override { refuse(); }

  [[nodiscard]] std::vector<harness::RunRecord> runs(std::int64_t since_ms,
                                                     std::int64_t until_ms) const override {
    std::vector<harness::RunRecord> found;
    for (const auto& run : run_rows) {
      if (run.started_ms >= since_ms && run.started_ms < until_ms) found.push_back(run);
    }
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
  [[nodiscard]] std::optional<harness::CaseRecord> previous(
      const harness::CaseRecord& now, std::int64_t before_run) const override {
    std::optional<harness::CaseRecord> found;
    for (const auto& record : case_rows) {
      const bool same = record.scenario == now.scenario && record.label == now.label;
      if (same && record.run_id < before_run && record.judgement) found = record;
    }
    return found;
  }
  [[nodiscard]] harness::Evidence evidence(const harness::CaseRecord& record,
                                           const harness::RunRecord&) const override {
    const auto at = evidence_of.find(record.id);
    if (at == evidence_of.end()) throw nsa::Error("events.jsonl: no such file");
    return at->second;
  }

 private:
  static std::int64_t refuse() { throw nsa::Error("a report never writes"); }
};

}  // namespace fixtures
