// A night as it is recorded: every case of the shipped scenarios, with verdicts, values and files of the size that real ones have
// (measured on causality, ddp_onestep, decode and loader: 8 verdicts of 75 letters and 15 values a case, 540 packed bytes of
// digest). Some fail, some are known to fail.
#pragma once

#include <algorithm>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "tests/fakes/manifest.h"
#include "tests/fakes/where.h"
#include "tests/store/store_support.h"

namespace harness::test {

inline constexpr int kCasesOfANight = 327;

inline std::vector<Case> cases_of_a_night() {
  namespace fs = std::filesystem;
  const std::string root = fakes::tree();
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(root + "/scenarios")) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<Case> cases;
  for (const std::string& file : files) {
    for (Case& one : load_cases(file, fakes::scenario_options(root), fakes::manifest())) {
      cases.push_back(std::move(one));
    }
  }
  // As many as there were on the machine where a night was measured, whatever is shipped today.
  const std::size_t shipped = cases.size();
  for (std::size_t i = 0; cases.size() < kCasesOfANight; ++i) {
    Case more = cases[i % shipped];
    more.scenario.seed = static_cast<std::int64_t>(1 + i);
    cases.push_back(std::move(more));
  }
  cases.resize(kCasesOfANight);
  return cases;
}

class NightWriter {
 public:
  // The first so many cases of a night.
  explicit NightWriter(std::size_t cases = kCasesOfANight) : cases_(cases_of_a_night()) {
    cases_.resize(cases);
    for (const Case& one : cases_) json_.push_back(case_to_json(one));
  }

  // One run; `spread` of its cases fail.
  std::int64_t write(Store& store, const std::string& name, std::int64_t started_ms, int failing) {
    RunRecord run = a_run(name);
    run.started_ms = started_ms;
    for (int i = 0; i < 12; ++i) {
      run.provenance.environment.emplace_back("CUDA_VARIABLE_" + std::to_string(i), "/usr/local/x");
    }
    run.id = store.begin_run(run);
    for (std::size_t i = 0; i < cases_.size(); ++i) write_case(store, run, i, failing);
    store.finish_run(run.id, failing > 0 ? 1 : 0, true, started_ms + 3'600'000);
    return run.id;
  }

 private:
  std::string words(std::size_t letters) {
    std::string text;
    while (text.size() < letters) text += "abcdefghijklmnopqrstuvwxyz     "[random_() % 31];
    return text;
  }
  std::string hash() {
    std::string text;
    for (int i = 0; i < 32; ++i) text += "0123456789abcdef"[random_() % 16];
    return text;
  }
  double value() { return std::uniform_real_distribution<>(0.0, 1.0)(random_); }

  Digest digest_for(const Case& one) {
    Digest digest;
    digest.recorded = true;
    digest.device = "cpu";
    digest.backend = "gloo";
    digest.torch_version = "2.11.0";
    digest.parameters = "78307136";
    for (int rank = 0; rank < one.scenario.parallel.ranks; ++rank) {
      digest.arrivals.push_back({rank, one.scenario.training.steps, 195, 195, {}});
      for (const char* phase : {"load", "model", "data", "forward", "backward", "optimizer"}) {
        digest.phases.push_back({rank, phase, static_cast<std::int64_t>(random_() % 100'000)});
      }
      for (const char* file : {"local_gradients", "reduced_gradients", "layer_7", "weights"}) {
        digest.files.push_back({rank,
                                "rank_" + std::to_string(rank) + "/step_1/" + file + ".safetensors",
                                static_cast<std::int64_t>(random_() % 400'000'000),
                                hash()});
      }
    }
    const auto steps = std::min<std::int64_t>(one.scenario.training.steps, 1000);
    for (const char* metric :
         {"loss", "grad_norm", "lr", "step_ms", "rss_peak_bytes", "tensor_peak_bytes"}) {
      for (std::int64_t i = 0; i < steps; ++i) digest.series[metric].push_back(value());
      digest.metrics.emplace_back(metric, digest.series[metric].back());
    }
    std::sort(digest.metrics.begin(), digest.metrics.end());
    return digest;
  }

  Judgement judgement_for(const Case& one, bool fails) {
    Judgement judgement;
    judgement.outcome = fails ? Outcome::fail : Outcome::pass;
    judgement.reason = fails ? words(160) : "12 checks passed";
    const std::size_t values = one.scenario.kind == "attention" ? 5 : 2;
    for (const std::string& check : one.scenario.checks) {
      CheckResult result;
      result.check = check;
      result.verdict = Verdict::pass;
      result.reason = words(80);
      for (std::size_t i = 0; i < values; ++i) {
        result.measured.push_back(
            {"relative_error_of_tensor_" + std::to_string(i), value(), value()});
      }
      judgement.verdicts.push_back(std::move(result));
    }
    if (!fails) return judgement;
    Finding finding;
    finding.code = "GRAD.MISSING";
    finding.site.layers = {3};
    finding.statement = words(200);
    finding.ruled_out = words(200);
    finding.next_action = words(100);
    judgement.verdicts.front().verdict = Verdict::fail;
    judgement.verdicts.front().findings = {finding, finding};
    judgement.findings = {finding, finding};
    return judgement;
  }

  void write_case(Store& store, const RunRecord& run, std::size_t i, int failing) {
    const Case& one = cases_[i];
    CaseRecord record;
    record.run_id = run.id;
    record.position = static_cast<int>(i);
    record.scenario = one.scenario.name;
    record.label = one.label();
    record.case_id = one.id;
    record.case_json = json_[i];
    record.folder = std::to_string(i) + "_" + one.scenario.name;
    const std::int64_t row = store.plan_case(record);
    store.begin_case(row, run.started_ms + static_cast<std::int64_t>(i));
    store.finish_case(row, 12.0 + value(), digest_for(one));
    const bool fails = static_cast<int>(i) < failing;
    store.add_judgement(row, stored(judgement_for(one, fails), run.started_ms + 1));
  }

  std::vector<Case> cases_;
  std::vector<std::string> json_;
  std::mt19937 random_{7};
};

}  // namespace harness::test
