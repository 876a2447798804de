#include "harness/checks/data_of.h"

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

}  // namespace harness::checks
