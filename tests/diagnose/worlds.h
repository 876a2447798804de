// Systems with a hidden cause, which answer experiments as a machine would: for tests of the diagnosis.
#pragma once

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "harness/diagnose/diagnosis.h"
#include "harness/scenario/case_json.h"

namespace fixtures {

using harness::Case;
using harness::Cause;
using harness::Diagnosis;
using harness::Outcome;
using harness::Ran;
using harness::Scenario;

// A case with every option on that the table knows and a CPU has.
inline Case rich_case() {
  Case one;
  Scenario& scenario = one.scenario;
  scenario.name = "rich";
  scenario.kind = "training";
  scenario.seed = 7;
  scenario.budget_seconds = 60;
  nsa::ModelConfig& model = scenario.model;
  model.name = "toy";
  model.dim = 32;
  model.n_layers = 4;
  model.n_heads = 4;
  model.n_kv_groups = 2;
  model.d_k = model.d_v = 8;
  model.l = 16;
  model.d = 8;
  model.l_sel = 32;
  model.n_sel = 4;
  model.w = 32;
  model.rope_scale = 4;
  model.phi = nsa::Phi::conv;
  scenario.training.steps = 3;
  scenario.training.seq_len = 64;
  scenario.training.accumulate = 2;
  scenario.training.precision = nsa::Precision::bf16;
  scenario.training.data.source = nsa::DataConfig::Source::uniform;
  scenario.training.data.text = {"corpus.txt"};
  scenario.parallel.ranks = 3;
  scenario.parallel.static_graph = true;
  scenario.parallel.find_unused = true;
  scenario.parallel.gradient_as_bucket_view = true;
  scenario.parallel.bucket_mb = 0.5;
  scenario.parallel.compress = "bf16";
  scenario.parallel.checkpoint_layers = {0, 1, 2, 3};
  scenario.route = {{"attend_sel", "packed"}, {"attend_win", "sdpa"}, {"grad_sync", "bf16"}};
  scenario.checks = {"gradients_arrived"};
  scenario.fault = harness::FaultRequest{};
  scenario.fault->name = "f";
  scenario.fault->layers = {2};
  scenario.fault->rank = 2;
  scenario.fault->step = 2;
  one.id = harness::case_id(one);
  return one;
}

inline Cause cause_at(const std::string& code, std::vector<int> layers = {}) {
  Cause cause;
  cause.code = code;
  cause.site.layers = std::move(layers);
  cause.statement = "something is wrong";
  return cause;
}

inline Ran failed(const Cause& cause) {
  return {"", Outcome::fail, {cause}, cause.code, 1.0};
}

inline Ran passed() {
  return {"", Outcome::pass, {}, "1 check passed", 1.0};
}

using World = std::function<Ran(const Scenario&)>;

// Asks until nothing is left to ask.
inline Diagnosis diagnosed(const Case& failing, const Cause& symptom, const World& world) {
  constexpr int kMostRuns = 200;
  std::vector<Ran> ran = {world(failing.scenario)};
  for (int i = 0; i < kMostRuns; ++i) {
    Diagnosis diagnosis = harness::diagnose(failing, {symptom}, ran);
    if (!diagnosis.next) return diagnosis;
    Ran next = world(diagnosis.next->scenario);
    next.name = diagnosis.next->point.back().second;
    ran.push_back(std::move(next));
  }
  throw std::runtime_error("the diagnosis does not end");
}

inline std::vector<std::string> established(const Diagnosis& diagnosis) {
  std::vector<std::string> all;
  for (const harness::Question& question : diagnosis.questions) {
    if (question.state == harness::Question::State::established) all.push_back(question.what);
  }
  return all;
}

}  // namespace fixtures
