// Two runs of three cases: one passes, one fails with a cascade, one is skipped; the fault of the first is planted.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "harness/diagnose/recorded.h"
#include "harness/judge/find_cause.h"
#include "harness/judge/wording/find_wording.h"
#include "harness/store/bisection.h"
#include "reports/report.h"
#include "tests/reports/fake_store.h"

namespace fixtures {

inline harness::RunRecord sample_run(std::int64_t id,
                                     const std::string& name,
                                     std::int64_t started_ms) {
  harness::RunRecord run;
  run.id = id;
  run.name = name;
  run.folder = "/somewhere/" + name;
  run.started_ms = started_ms;
  run.ended_ms = started_ms + 61'000;
  run.exit_code = 1;
  run.complete = true;
  run.provenance.commit = "0123456789abcdef";
  run.provenance.dirty = true;
  run.provenance.diff_hash = "d1ff";
  run.provenance.source_hash = "5001ce";
  run.provenance.binary_hash = "b1na2y";
  run.provenance.argv = "nsa-harness run scenarios/ddp_onestep.yaml";
  run.provenance.machine = {{"cpu", "Some CPU"},
                            {"gpus", "2"},
                            {"gpu0", "Some Card"},
                            {"gpu1", "Some Card"},
                            {"torch", "2.11.0"}};
  run.provenance.environment = {{"OMP_NUM_THREADS", "1"}};
  return run;
}

inline harness::CheckResult verdict(const std::string& check,
                                    harness::Verdict value,
                                    const std::string& reason) {
  harness::CheckResult result;
  result.check = check;
  result.verdict = value;
  result.reason = reason;
  return result;
}

inline harness::Case sample_case(const std::string& name) {
  harness::Case one;
  harness::Scenario& scenario = one.scenario;
  scenario.name = name;
  scenario.about = "One optimiser step on every rank.";
  scenario.kind = "training";
  scenario.budget_seconds = 120;
  scenario.model = {};
  scenario.model.name = "toy";
  scenario.model.dim = 128;
  scenario.model.n_layers = 4;
  scenario.model.n_heads = 8;
  scenario.model.n_kv_groups = 2;
  scenario.model.d_k = scenario.model.d_v = 16;
  scenario.model.l = 16;
  scenario.model.d = 8;
  scenario.model.l_sel = 32;
  scenario.model.n_sel = 8;
  scenario.model.w = 64;
  scenario.training.seq_len = 512;
  scenario.training.data.text = {"corpus.txt"};
  scenario.route = {{"attend_sel", "reference"}, {"grad_sync", "reference"}};
  scenario.checks = {"gradients_arrived", "close_to_oracle"};
  if (name == "kcmp_detached") {
    scenario.fault = harness::FaultRequest{};
    scenario.fault->name = name;
    scenario.fault->layers = {3};
  }
  one.id = "0011223344556677";
  return one;
}

inline harness::CaseRecord sample_record(std::int64_t id,
                                         std::int64_t run_id,
                                         const std::string& name) {
  harness::CaseRecord record;
  record.id = id;
  record.run_id = run_id;
  record.position = static_cast<int>(id);
  record.scenario = record.label = name;
  record.case_id = "0011223344556677";
  record.history_id = name;
  record.case_json = harness::case_to_json(sample_case(name));
  record.folder = "case_" + std::to_string(id);
  record.seconds = 12.345;
  record.judgements = 1;
  record.digest.metrics = {{"grad_norm", 1.25}, {"loss", 5.545}};
  return record;
}

inline harness::Judgement passed() {
  harness::Judgement judged;
  judged.outcome = harness::Outcome::pass;
  judged.reason = "2 checks passed";
  judged.verdicts = {
      verdict(
          "gradients_arrived", harness::Verdict::pass, "21 of 21 parameters arrived on ranks 0-1"),
      verdict("close_to_oracle", harness::Verdict::pass, "layer 0 is the oracle's")};
  judged.verdicts[1].measured = {{"relative_error_o_sel", 3.2e-7, harness::Real(8.6e-5)},
                                 {"relative_error_y", std::nan(""), harness::Real(1e-4)},
                                 {"rows", 512.0, std::nullopt}};
  return judged;
}

inline harness::Finding found(const std::string& check,
                              const std::string& code,
                              const std::string& variant,
                              const char* site,
                              const nlohmann::json& facts) {
  harness::Finding finding;
  finding.check = check;
  finding.code = code;
  finding.variant = variant;
  finding.site = nlohmann::json::parse(site).get<harness::Site>();
  finding.facts = harness::Facts(facts);
  return harness::worded(finding);
}

// Two causes, one of them with a consequence whose text came from a worker.
inline harness::Judgement failed() {
  harness::Judgement judged;
  judged.outcome = harness::Outcome::fail;
  std::vector<harness::Finding> findings = {
      found("gradients_arrived",
            "GRAD.MISSING",
            "unreachable",
            R"({"layers":[3],"param":"W_K_cmp","ranks":[0,1],"step":1})",
            {{"count", 1}, {"total", 21}, {"params", {"blocks.3.attn.W_K_cmp.weight"}}}),
      found("process_clean",
            "CRASH.EXCEPTION",
            "reducer",
            R"({"ranks":[0,1],"step":1})",
            {{"message",
              "std::runtime_error: <b>`x` | @team *now*</b> http://evil.example\n# heading"}}),
      found("optimizer_sound",
            "SCHEDULE.LR",
            "rate",
            R"({"ranks":[0,1],"step":2,"op":"optimizer","detail":{"found":3e-4,"wanted":1e-4}})",
            {{"wrong_steps", 1}})};
  harness::assign_roles(findings);
  std::sort(findings.begin(), findings.end(), [](const auto& a, const auto& b) {
    return a.number < b.number;
  });
  findings.front().not_judged = {{"close_to_oracle", "the gradients of layer 3 | rank 0", {}}};
  judged.findings = findings;
  judged.verdicts = {
      verdict("gradients_arrived", harness::Verdict::fail, findings.front().statement)};
  judged.verdicts[0].findings = {findings.front()};
  judged.reason = findings.front().code + " @ " + findings.front().site.text() + " — " +
                  findings.front().statement;
  return judged;
}

inline harness::Digest sample_digest() {
  harness::Digest digest;
  digest.recorded = true;
  digest.device = "cpu";
  digest.backend = "gloo";
  digest.torch_version = "2.11.0";
  digest.parameters = "1234567";
  for (int rank = 0; rank < 2; ++rank) {
    digest.arrivals.push_back({rank, 1, 2, 2, {}});
    digest.phases.push_back({rank, "forward", 1200});
    digest.phases.push_back({rank, "backward", 3000});
  }
  digest.series["loss"] = {5.5, 5.0, 4.5, 4.0};
  digest.files = {{0, "rank_0/step_1/local_gradients.safetensors", 313'228'800, "aa11"}};
  digest.metrics = {{"grad_norm", 1.25}, {"loss", 5.545}};
  return digest;
}

inline FakeStore sample_store() {
  FakeStore store;
  store.run_rows = {sample_run(1, "20261120T030000Z-aaaa", 1'795'143'600'000),
                    sample_run(2, "20261121T041900Z-bbbb", 1'795'234'740'000)};
  harness::CaseRecord before = sample_record(1, 1, "ddp_onestep");
  before.judgement = failed();
  harness::CaseRecord gone = sample_record(2, 1, "decode");
  gone.judgement = passed();
  harness::CaseRecord now = sample_record(3, 2, "ddp_onestep");
  now.judgement = passed();
  harness::CaseRecord bad = sample_record(4, 2, "kcmp_detached");
  bad.judgement = failed();
  harness::CaseRecord skipped = sample_record(5, 2, "gpu_only");
  skipped.skip_reason = "requires 2 GPUs, found 0";
  store.case_rows = {before, gone, now, bad, skipped};
  store.case_rows[2].digest = sample_digest();
  return store;
}

// Layers 1 and 3 break together; every trial of the search is a case of one run.
inline FakeStore bisected_store(bool expected) {
  FakeStore store;
  store.run_rows = {sample_run(1, "20261121T041900Z-cccc", 1'795'234'740'000)};
  harness::Case base = sample_case("ddp_checkpoint");
  base.scenario.bisect = {"parallel.checkpoint.layers", {"0", "1", "2", "3"}};
  if (expected) {
    base.scenario.expect = harness::Expectation{harness::Outcome::fail, "GRAD.MISSING", {}};
    base.scenario.expect->site.layers = {1, 3};
  }
  std::vector<harness::BisectTrial> trials;
  while (true) {
    const auto progress = harness::bisect_progress(base.scenario.bisect.candidates, trials);
    if (progress.state != harness::BisectProgress::State::searching) return store;
    const auto has = [&](const char* layer) {
      return std::count(progress.next.begin(), progress.next.end(), layer) == 1;
    };
    const harness::Case trial = harness::trial_of(base, progress.next);
    const auto id = static_cast<std::int64_t>(trials.size() + 1);
    harness::CaseRecord record = sample_record(id, 1, "ddp_checkpoint");
    record.label = trial.label();
    record.case_json = harness::case_to_json(trial);
    record.judgement = has("1") && has("3") ? failed() : passed();
    record.digest.metrics = {
        {"rss_peak_bytes", 2.5e9 - 3e8 * static_cast<double>(progress.next.size())}};
    trials.push_back({progress.next, record.judgement->outcome});
    store.case_rows.push_back(record);
  }
}

// Activation checkpointing is what its failure depends on: the case, and every experiment that a diagnosis asked for.
inline FakeStore diagnosed_store() {
  FakeStore store;
  store.run_rows = {sample_run(1, "20261121T041900Z-dddd", 1'795'234'740'000)};
  store.run_rows.back().provenance.command = {{harness::kDiagnoseOption, ""}};
  harness::Case failing = sample_case("ddp_checkpoint");
  failing.scenario.parallel.checkpoint_layers = {0, 1, 2, 3};
  for (std::optional<harness::Case> next = failing; next;) {
    const auto id = static_cast<std::int64_t>(store.case_rows.size() + 1);
    harness::CaseRecord record = sample_record(id, 1, "ddp_checkpoint");
    record.label = next->label();
    record.case_json = harness::case_to_json(*next);
    const bool fails = !next->scenario.parallel.checkpoint_layers.empty();
    record.judgement = fails ? failed() : passed();
    store.case_rows.push_back(record);
    std::vector<const harness::CaseRecord*> ran;
    for (const harness::CaseRecord& one : store.case_rows) ran.push_back(&one);
    next = harness::diagnosis_of(store.run_rows.back().provenance.command, ran)->next;
  }
  return store;
}

inline reports::ReportRequest request_for(const FakeStore& store,
                                          reports::Format format = reports::Format::engineer) {
  reports::ReportRequest request;
  request.runs = {store.run_rows.back()};
  request.format = format;
  request.check_about = {{"gradients_arrived", "every parameter gets a gradient"}};
  return request;
}

}  // namespace fixtures
