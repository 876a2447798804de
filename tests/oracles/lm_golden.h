// Golden files of the lm and train levels as the oracle's inputs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "oracles/model/lm.h"
#include "oracles/training/optimizer.h"
#include "tests/oracles/golden.h"

namespace oracles::testing {

inline LmConfig lm_config_of(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text);
  LmConfig c;
  c.attention = config_of(text);
  json.at("n_layers").get_to(c.n_layers);
  json.at("vocab_size").get_to(c.vocab_size);
  json.at("mlp_ratio").get_to(c.mlp_ratio);
  return c;
}

inline TrainConfig train_config_of(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text).at("train");
  TrainConfig c;
  json.at("lr").get_to(c.lr);
  json.at("betas").at(0).get_to(c.beta1);
  json.at("betas").at(1).get_to(c.beta2);
  json.at("eps").get_to(c.eps);
  json.at("weight_decay").get_to(c.weight_decay);
  json.at("max_norm").get_to(c.max_norm);
  json.at("warmup").get_to(c.warmup);
  json.at("total").get_to(c.total);
  return c;
}

}  // namespace oracles::testing
