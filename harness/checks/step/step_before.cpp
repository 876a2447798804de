// What a run begins with: the tokens of every batch, and the parameters' initial values.
#include <algorithm>
#include <map>
#include <span>
#include <stdexcept>
#include <tuple>

#include "harness/checks/drawn_tokens.h"
#include "harness/checks/step/step_stages.h"
#include "nsa/base/hash.h"
#include "oracles/training/data_laws.h"
#include "oracles/training/initial_values.h"

namespace harness::checks {
namespace {

std::vector<oracles::RecordedBatch> recorded_batches(StepJudge& judge) {
  std::vector<oracles::RecordedBatch> batches;
  for (const auto& [key, file] : judge.files) {
    for (std::int64_t micro = 0; micro < judge.run.data.accumulate; ++micro) {
      auto tokens = file.tokens(micro);
      if (tokens) {
        batches.push_back({{key.second, micro, key.first}, std::move(*tokens)});
      } else {
        judge.result.missing("tokens of " + process_name(key.first) + ", step " +
                             std::to_string(key.second) + ", micro-batch " + std::to_string(micro));
      }
    }
  }
  return batches;
}

// Whoever compares batches compares their hashes: those must be of the tokens that entered the model.
void compare_hashes(StepJudge& judge, const std::vector<oracles::RecordedBatch>& batches) {
  std::map<std::tuple<std::int64_t, std::int64_t, int, int>, std::string> told;
  for (const auto& row : judge.run.evidence.batches) {
    const Batch& batch = row.row;
    if (row.process >= 0) told[{batch.step, batch.micro, batch.sequence, row.process}] = batch.hash;
  }
  for (const oracles::RecordedBatch& batch : batches) {
    if (batch.tokens.shape.size() != 2) continue;
    const auto width = static_cast<std::size_t>(batch.tokens.shape[1]);
    const std::span<const std::int64_t> tokens(batch.tokens.data);
    for (int row = 0; row < static_cast<int>(batch.tokens.shape[0]); ++row) {
      const auto rank = static_cast<int>(batch.place.rank);
      const auto at = told.find({batch.place.step, batch.place.micro, row, rank});
      if (at == told.end()) continue;
      const auto own = tokens.subspan(static_cast<std::size_t>(row) * width, width);
      if (at->second == nsa::hash_hex(std::as_bytes(own))) continue;
      judge.result.missing("a hash of sequence " + std::to_string(row) + " of " +
                           process_name(rank) + ", step " + std::to_string(batch.place.step) +
                           ", that is the hash of its tokens");
    }
  }
}

void tell_batches(StepJudge& judge,
                  const oracles::Naming& naming,
                  const std::vector<oracles::RecordedBatch>& batches,
                  oracles::Text text) {
  for (const oracles::RecordedBatch& batch : batches) {
    const oracles::IntTensor wanted = oracles::batch_tokens(judge.run.data, batch.place, text);
    if (wanted.shape == batch.tokens.shape && wanted.data == batch.tokens.data) continue;
    Departure departure = step_departure("DATA.WRONG",
                                         "data",
                                         static_cast<int>(batch.place.rank),
                                         batch.place.step,
                                         "data",
                                         {},
                                         naming);
    departure.site.detail["micro"] = batch.place.micro;
    // Where documents end is drawn for the sequence too.
    if (judge.run.data.documents > 1) departure.site.detail["parts"] = {"tokens", "documents"};
    judge.told.add(std::move(departure));
  }
}

// Parameters of one rank before the first step, where all of them are on record.
std::vector<oracles::InitialRecord> initial_records(const StepRun& run,
                                                    const nsa::SafetensorsFile& file,
                                                    const std::string& prefix) {
  std::vector<oracles::InitialRecord> records;
  for (const std::string& param : run.params) {
    if (!file.contains(prefix + param)) continue;
    const nsa::TensorView& view = file.at(prefix + param);
    records.push_back({param, view.shape, numbers_of(view)});
  }
  return records;
}

void tell_initial(StepJudge& judge, int rank, const std::vector<oracles::InitialWrong>& all) {
  for (const oracles::InitialWrong& wrong : all) {
    oracles::Naming naming;
    naming.fitting.push_back({wrong.law, {}, 1, wrong.detail});
    Departure departure =
        step_departure("INIT.WRONG", "initial_values", rank, 1, "data", {wrong.parameter}, naming);
    departure.by_law = true;
    judge.told.add(std::move(departure));
  }
}

std::vector<oracles::InitialWrong> wrong_initial(StepJudge& judge,
                                                 int rank,
                                                 const nsa::SafetensorsFile& file,
                                                 const std::string& prefix) {
  const auto records = initial_records(judge.run, file, prefix);
  if (records.size() != judge.run.params.size()) {
    judge.result.missing("initial values of " +
                         std::to_string(judge.run.params.size() - records.size()) +
                         " parameters of " + process_name(rank));
  }
  if (records.empty()) return {};
  return oracles::judge_initial_values(judge.run.model, records).wrong;
}

// Of a model of which rows are drawn, rank 0 has all of its values on record.
std::vector<oracles::InitialWrong> wrong_initial(StepJudge& judge, const StepFile& first) {
  if (first.is_whole()) {
    return wrong_initial(judge, first.rank, first.file, judge.run.has_masters ? "w." : "p.");
  }
  const auto file = open_artefact(
      judge.run.evidence, {first.rank, "initial_values", 1, first.rank}, judge.result);
  return file ? wrong_initial(judge, first.rank, *file, "") : std::vector<oracles::InitialWrong>{};
}

// False where they differ.
bool compare_ranks(StepJudge& judge, const StepFile& first, const StepFile& other) {
  std::vector<std::string> differ;
  for (const std::string& param : judge.run.params) {
    const std::string name = "p." + param;
    if (!first.has(name) || !other.has(name)) continue;
    if (!same_bytes(first.file.at(name), other.file.at(name))) differ.push_back(param);
  }
  if (differ.empty()) return true;
  constexpr oracles::Law kOther{"init_other_rank", "the ranks begin with different values"};
  oracles::Naming naming;
  naming.fitting.push_back({kOther, {}, 1, {}});
  Departure departure =
      step_departure("INIT.WRONG", "initial_values", other.rank, 1, "data", differ, naming);
  departure.by_law = true;
  judge.told.add(std::move(departure));
  return false;
}

}  // namespace

void judge_data(StepJudge& judge) {
  const StepRun& run = judge.run;
  std::string text;
  if (run.data.source == oracles::Source::text) {
    auto kept = kept_text(run.evidence);
    if (!kept) {
      judge.result.missing("the text that the case trained on, kept as one file");
      return;
    }
    text = std::move(*kept);
  }
  const auto batches = recorded_batches(judge);
  if (batches.empty()) return;
  compare_hashes(judge, batches);
  try {
    const auto naming = oracles::name_batches(run.data, batches, bytes_of_text(text));
    if (!naming.right.fits()) tell_batches(judge, naming, batches, bytes_of_text(text));
    judge.judged.push_back(std::to_string(batches.size()) + " batches");
  } catch (const std::invalid_argument& error) {
    judge.result.missing(std::string("tokens that the oracle accepts: ") + error.what());
  }
}

void judge_initial(StepJudge& judge) {
  const StepFile* first = nullptr;
  std::vector<oracles::InitialWrong> wrong;
  try {
    for (const int rank : all_ranks(judge.run.evidence)) {
      const StepFile* file = judge.file(rank, 1);
      if (file == nullptr) continue;
      if (first == nullptr) {
        first = file;
        wrong = wrong_initial(judge, *first);
        tell_initial(judge, rank, wrong);
      } else if (compare_ranks(judge, *first, *file)) {
        tell_initial(judge, rank, wrong);
      }
    }
    if (first != nullptr) judge.judged.emplace_back("initial values");
  } catch (const std::invalid_argument& error) {
    judge.result.missing(std::string("initial values that the oracle accepts: ") + error.what());
  }
}

}  // namespace harness::checks
