// The gradient that the optimiser gets is the mean of what every micro-batch of every rank gave.
#include <algorithm>
#include <span>
#include <stdexcept>

#include "harness/checks/departed.h"
#include "harness/checks/step/step_stages.h"
#include "oracles/training/accumulate.h"

namespace harness::checks {
namespace {

bool asks_for(const StepRun& run, const char* check) {
  const auto& checks = run.evidence.the_case.scenario.checks;
  return std::find(checks.begin(), checks.end(), check) != checks.end();
}

class StepSums {
 public:
  StepSums(StepJudge& judge, std::int64_t step) : judge_(judge), step_(step) {
    for (const int rank : all_ranks(judge.run.evidence)) {
      files_.push_back(judge.file(rank, step));
      reduced_.push_back(
          open_artefact(judge.run.evidence, {rank, "reduced_gradients", step, rank}, judge.result));
      // What a gradient that nobody sets to zero still holds; without it that law is not tried.
      ResultBuilder not_needed;
      before_.push_back(open_artefact(
          judge.run.evidence, {rank, "reduced_gradients", step - 1, rank}, not_needed));
    }
  }

  [[nodiscard]] bool complete() const {
    return !files_.empty() &&
           std::all_of(files_.begin(), files_.end(), [](const auto* f) { return f != nullptr; }) &&
           std::all_of(
               reduced_.begin(), reduced_.end(), [](const auto& f) { return f.has_value(); });
  }

  std::int64_t judge() {
    for (std::size_t rank = 0; rank < reduced_.size(); ++rank) {
      judge_rank(rank);
      for (const int process : {files_[rank]->rank, kTwin}) judge_local(rank, process);
    }
    return judged_;
  }

 private:
  // [world, accumulate] of one parameter, each times the micro-batches: its own mean. Empty where one is not on record.
  std::vector<oracles::Numbers> parts(const std::string& param) {
    const std::int64_t micros = judge_.run.data.accumulate;
    std::vector<oracles::Numbers> all;
    for (const StepFile* file : files_) {
      for (std::int64_t micro = 0; micro < micros; ++micro) {
        const std::string name = "part." + std::to_string(micro) + "." + param;
        if (!file->has(name)) return {};
        std::vector<double>& own = values_.emplace_back(file->numbers(name).values());
        for (double& value : own) value *= static_cast<double>(micros);
        all.push_back(oracles::Numbers::of(own));
      }
    }
    return all;
  }

  // The rank's gradient before the reduction is the mean of its own parts. What is made of it is judged: this alone is no finding.
  void judge_local(std::size_t place, int process) {
    const int rank = files_[place]->rank;
    ResultBuilder not_needed;
    const auto local =
        open_artefact(judge_.run.evidence, {process, "local_gradients", step_, rank}, not_needed);
    if (!local) return;
    const std::string path =
        path_of(judge_.run.evidence, {process, "local_gradients", step_, rank});
    for (const std::string& param : judge_.run.params) {
      if (!judge_.has_gradient(rank, step_, param) || !local->contains(param)) continue;
      values_.clear();
      const std::vector<oracles::Numbers> all = parts(param);
      const auto micros = static_cast<std::size_t>(judge_.run.data.accumulate);
      if (all.size() < (place + 1) * micros) continue;
      const std::span own(all.data() + place * micros, micros);
      oracles::AccumulateRecord record;
      record.name = param;
      record.accumulate = judge_.run.data.accumulate;
      record.parts = {own.begin(), own.end()};
      record.result = numbers_of(local->at(param));
      record.number = record.result.number();
      if (oracles::judge_accumulated(record).fits()) continue;
      std::vector<std::vector<double>> each;
      for (const oracles::Numbers& part : own) each.push_back(part.values());
      judge_.result.departed(departed_tensor(path, param, mean_of(each)));
    }
  }

  void judge_rank(std::size_t place) {
    const int rank = files_[place]->rank;
    std::vector<oracles::AccumulateRecord> wrong;
    values_.clear();
    values_.reserve(judge_.run.params.size() * files_.size() *
                    static_cast<std::size_t>(judge_.run.data.accumulate));
    for (const std::string& param : judge_.run.params) {
      if (!judge_.has_gradient(rank, step_, param) || !reduced_[place]->contains(param)) continue;
      oracles::AccumulateRecord record;
      record.name = param;
      record.world = judge_.run.data.world;
      record.accumulate = judge_.run.data.accumulate;
      record.parts = parts(param);
      if (record.parts.empty()) continue;
      record.result = numbers_of(reduced_[place]->at(param));
      const auto& before = before_[place];
      if (before && before->contains(param)) record.before = numbers_of(before->at(param));
      record.number = judge_.run.evidence.the_case.scenario.parallel.compress == "bf16"
                          ? oracles::Number::bf16
                          : record.result.number();
      ++judged_;
      if (!oracles::judge_accumulated(record).fits()) wrong.push_back(std::move(record));
    }
    if (wrong.empty()) return;
    Departure departure = step_departure("NUMERIC.GRADIENT", "grad_sync", rank, step_, "backward", {}, {});
    departure.laws = known_laws(oracles::name_accumulated(wrong));
    if (departure.law().starts_with("micro_")) departure.site.op = "accumulate";
    for (const auto& record : wrong) departure.params.push_back(record.name);
    judge_.told.add(std::move(departure));
  }

  StepJudge& judge_;
  std::int64_t step_;
  std::vector<const StepFile*> files_;
  std::vector<std::optional<nsa::SafetensorsFile>> reduced_;
  std::vector<std::optional<nsa::SafetensorsFile>> before_;  // of the step before
  std::vector<std::vector<double>> values_;
  std::int64_t judged_ = 0;
};

}  // namespace

// With one micro-batch a step the mean over ranks is what matches_twin judges, from the same files.
void judge_sums(StepJudge& judge) {
  if (judge.run.data.accumulate == 1) {
    judge.not_judged.emplace_back(asks_for(judge.run, "matches_twin")
                                      ? "the mean over ranks (matches_twin judges it)"
                                      : "the mean over ranks (ask for matches_twin)");
    return;
  }
  std::int64_t judged = 0;
  for (std::int64_t step = 1; step <= judge.run.training.steps; ++step) {
    StepSums sums(judge, step);
    if (!sums.complete()) continue;  // already missing
    try {
      judged += sums.judge();
    } catch (const std::invalid_argument& error) {
      judge.result.missing("the gradients of step " + std::to_string(step) + ": " + error.what());
    }
  }
  if (judged > 0) {
    judge.judged.push_back(std::to_string(judged) + " sums of gradients");
  } else {
    judge.not_judged.emplace_back("the sum over micro-batches (recorded of small models only)");
  }
}

}  // namespace harness::checks
