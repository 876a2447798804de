// Everything of a model outside its attention, stage by stage, from what is recorded between the stages: forward, gradients and
// the gradients of all weights. A stage that keeps rows apart is judged in all rows, number by number; a linear map and the
// gradient of its weight by random projections of the recorded matrices (oracles/products.h). Every stage is judged from its
// own recorded inputs, so that a wrong stage makes no other one wrong.
// Legend: R = B*S rows, E width, F hidden width, V vocabulary.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/checks/departed.h"
#include "harness/checks/step/step_stages.h"
#include "oracles/model/stream_stage.h"
#include "oracles/products.h"

namespace harness::checks {

// The recorded files of one step of one rank, and what its model computed with.
struct RecordedModel {
  const StepFile* step = nullptr;
  std::optional<nsa::SafetensorsFile> head;  // after the last block
  std::vector<std::optional<nsa::SafetensorsFile>> blocks;
  std::vector<std::optional<nsa::SafetensorsFile>> attentions;
  bool tied_head = false;
  double dropout = 0;
  oracles::DataConfig data;
  // What is open, by the path of its artefact: where a recorded matrix lies.
  std::vector<std::pair<std::string, const nsa::SafetensorsFile*>> files;
  std::vector<int> order;  // of the blocks, in which the stream went through them
  std::function<oracles::Matrix(const std::string&)> weight;
  // None where there is none on record.
  std::function<oracles::Matrix(const std::string&)> gradient;
  oracles::Rounding rounding = oracles::Rounding::of(oracles::Number::f32);
  std::uint64_t seed = 0;  // of the projections

  // The fact that `found` does not follow from the others. Nothing where it lies in none of the files.
  [[nodiscard]] std::optional<Departed> departed(const oracles::Matrix& found,
                                                 std::optional<Right> right) const;
};

// [.., width] as rows. Throws std::invalid_argument where it is not on record.
[[nodiscard]] oracles::Matrix recorded_matrix(const nsa::SafetensorsFile& file,
                                              const std::string& name);

// What is judged of one part: a block, or the head with the embedding.
struct PartJudgement {
  std::vector<Departure> departures;
  std::vector<Departed> departed;
  std::vector<std::string> missing;
  std::vector<std::string> not_finite;
  std::vector<std::string> not_judged;
  std::int64_t stages = 0;
  std::int64_t products = 0;
  double worst = 0;  // error in units of its bound
};

using JudgeParts = std::function<std::vector<PartJudgement>(const RecordedModel&)>;

// What the embedding is judged from, in all rows.
[[nodiscard]] oracles::EmbeddingInputs embedding_inputs(const RecordedModel& model,
                                                        const oracles::IntTensor& tokens);

[[nodiscard]] PartJudgement judge_block(const RecordedModel& model, int layer);
[[nodiscard]] PartJudgement judge_ends(const RecordedModel& model,
                                       const oracles::IntTensor& tokens);

// Opens the files of all steps and has them judged.
void judge_blocks(StepJudge& judge);

}  // namespace harness::checks
