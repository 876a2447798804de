#include "harness/checks/data_of.h"

#include <algorithm>

#include "oracles/attention/documents.h"
#include "oracles/training/document_lengths.h"

namespace harness::checks {
namespace {

oracles::Source source_of(nsa::DataConfig::Source source) {
  switch (source) {
    case nsa::DataConfig::Source::text: return oracles::Source::text;
    case nsa::DataConfig::Source::long_range: return oracles::Source::long_range;
    default: return oracles::Source::uniform;
  }
}

}  // namespace

oracles::DataConfig data_of(const Scenario& scenario) {
  const nsa::TrainingConfig& training = scenario.training;
  oracles::DataConfig config;
  config.source = source_of(training.data.source);
  config.seed = static_cast<std::uint64_t>(scenario.seed);
  config.accumulate = training.accumulate;
  config.world = scenario.parallel.ranks;
  config.batch_size = training.batch_size;
  config.seq_len = training.seq_len;
  config.vocab_size = scenario.model.vocab_size;
  config.distance = training.data.distance;
  config.sharpness = training.data.sharpness;
  config.documents = training.data.packed;
  config.replicated = training.data.replicated;
  config.ragged = training.data.loss_mask == nsa::DataConfig::LossMask::ragged;
  return config;
}

std::vector<ScoredPiece> scored_pieces(const oracles::DataConfig& data,
                                       const oracles::BatchPlace& place) {
  std::vector<ScoredPiece> pieces;
  if (data.documents > 1) {
    for (const oracles::DocumentPlace& at :
         oracles::document_places(oracles::document_lengths(data, place))) {
      pieces.push_back({at.row, at.begin, at.length - 1});
    }
    return pieces;
  }
  for (const std::int64_t scored : oracles::scored_positions(data, place)) {
    pieces.push_back({static_cast<std::int64_t>(pieces.size()), 0, scored});
  }
  return pieces;
}

std::int64_t longest_scored(const oracles::DataConfig& data, int rank, std::int64_t step) {
  std::int64_t longest = 0;
  for (std::int64_t micro = 0; micro < data.accumulate; ++micro) {
    for (const ScoredPiece& piece : scored_pieces(data, {step, micro, rank})) {
      longest = std::max(longest, piece.length);
    }
  }
  return longest;
}

}  // namespace harness::checks
