#include "harness/golden/golden_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "nsa/base/config_laws.h"
#include "nsa/base/error.h"
#include "nsa/base/strict_json.h"

namespace harness {
namespace {

using Json = nlohmann::json;
using nsa::Error;
using nsa::Location;

constexpr std::array kLevels = {GoldenLevel::attention, GoldenLevel::lm, GoldenLevel::train};
constexpr nsa::JsonLimits kLimits = {64 << 10, 3};  // {"train": {"betas": []}}

// One object of the configuration; remembers which keys it was asked for.
class Reader {
 public:
  Reader(const Json& object, std::string where) : object_(object), where_(std::move(where)) {}

  [[nodiscard]] bool has(const std::string& key) const { return object_.contains(key); }
  // For a key without default, `fallback` is null.
  std::int64_t whole(const std::string& key, const std::int64_t* fallback = nullptr) {
    const Json* value = find(key, fallback != nullptr);
    if (value == nullptr) return *fallback;
    if (!value->is_number_integer() || (value->is_number_unsigned() && is_huge(*value))) {
      refuse(key, *value, "a whole number");
    }
    return value->get<std::int64_t>();
  }
  double real(const std::string& key, const double* fallback = nullptr) {
    const Json* value = find(key, fallback != nullptr);
    return value == nullptr ? *fallback : real_of(key, *value);
  }
  std::array<double, 2> two_reals(const std::string& key) {
    const Json& value = *find(key, false);
    if (!value.is_array() || value.size() != 2) refuse(key, value, "a list of two numbers");
    return {real_of(key, value[0]), real_of(key, value[1])};
  }
  template <typename Enum>
  Enum choice(const std::string& key, Enum fallback, std::initializer_list<Enum> all) {
    const Json* value = find(key, true);
    if (value == nullptr) return fallback;
    std::vector<std::string> names;
    for (const Enum one : all) {
      names.emplace_back(nsa::name_of(one));
      if (value->is_string() && value->get_ref<const std::string&>() == names.back()) return one;
    }
    std::string wanted = names.front();
    for (std::size_t i = 1; i < names.size(); ++i) wanted += " or " + names[i];
    refuse(key, *value, wanted);
  }
  const Json* object(const std::string& key, bool may_be_missing) {
    const Json* value = find(key, may_be_missing);
    if (value != nullptr && !value->is_object()) refuse(key, *value, "an object");
    return value;
  }
  // Every key must have been asked for.
  void finish() const {
    for (const auto& [key, value] : object_.items()) {
      if (std::find(known_.begin(), known_.end(), key) == known_.end()) {
        nsa::throw_unknown_name(Location{where_}, "key", nsa::shortened(key), known_);
      }
    }
  }

 private:
  static bool is_huge(const Json& value) {
    return value.get<std::uint64_t>() >
           static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  }
  const Json* find(const std::string& key, bool may_be_missing) {
    known_.push_back(key);
    const auto found = object_.find(key);
    if (found != object_.end()) return &*found;
    if (!may_be_missing) throw Error(Location{where_}, "found no key '" + key + "'");
    return nullptr;
  }
  double real_of(const std::string& key, const Json& value) const {
    if (!value.is_number() || !std::isfinite(value.get<double>())) refuse(key, value, "a number");
    return value.get<double>();
  }
  [[noreturn]] void refuse(const std::string& key,
                           const Json& value,
                           const std::string& wanted) const {
    throw Error(Location{where_}, key + ": found " + nsa::found_text(value) + ", wanted " + wanted);
  }

  const Json& object_;
  std::string where_;
  std::vector<std::string> known_;
};

void refuse_violation(const std::optional<nsa::Violation>& found,
                      const std::string& where,
                      const std::string& prefix) {
  if (!found) return;
  std::string key = found->key;
  if (key.starts_with("optimizer.")) key = key.substr(std::string("optimizer.").size());
  throw Error(Location{where}, (key.empty() ? "" : prefix + key + ": ") + found->text);
}

nsa::ModelConfig read_model(Reader& reader, GoldenLevel level) {
  nsa::ModelConfig model;
  for (const auto& [key, place] : {std::pair{"dim", &model.dim},
                                   std::pair{"n_heads", &model.n_heads},
                                   std::pair{"n_kv_groups", &model.n_kv_groups},
                                   std::pair{"d_k", &model.d_k},
                                   std::pair{"d_v", &model.d_v},
                                   std::pair{"l", &model.l},
                                   std::pair{"d", &model.d},
                                   std::pair{"l_sel", &model.l_sel},
                                   std::pair{"n_sel", &model.n_sel},
                                   std::pair{"w", &model.w}}) {
    *place = reader.whole(key);
  }
  for (const auto& [key, place] : {std::pair{"init_blocks", &model.init_blocks},
                                   std::pair{"local_blocks", &model.local_blocks},
                                   std::pair{"gate_hidden", &model.gate_hidden},
                                   std::pair{"mlp_ratio", &model.mlp_ratio}}) {
    *place = reader.whole(key, place);
  }
  for (const auto& [key, place] : {std::pair{"rope_base", &model.rope_base},
                                   std::pair{"rope_scale", &model.rope_scale},
                                   std::pair{"gate_temp", &model.gate_temp}}) {
    *place = reader.real(key, place);
  }
  model.gate =
      reader.choice("gate", model.gate, {nsa::Gate::group_softmax, nsa::Gate::head_sigmoid});
  model.phi = reader.choice("phi", model.phi, {nsa::Phi::avg, nsa::Phi::conv, nsa::Phi::mlp});
  model.eq9 = reader.choice("eq9", model.eq9, {nsa::Eq9::fractional, nsa::Eq9::overlap});
  const bool needed = level != GoldenLevel::attention;
  const std::int64_t one = 1;
  const std::int64_t layers = reader.whole("n_layers", needed ? nullptr : &one);
  const std::int64_t vocabulary = reader.whole("vocab_size", needed ? nullptr : &model.vocab_size);
  model.n_layers = needed ? layers : one;
  if (needed) model.vocab_size = vocabulary;
  return model;
}

nsa::OptimizerConfig read_train(const Json& object, const std::string& where) {
  Reader reader(object, where + ": train");
  nsa::OptimizerConfig train;
  train.lr = reader.real("lr");
  const std::array<double, 2> betas = reader.two_reals("betas");
  train.beta1 = betas[0];
  train.beta2 = betas[1];
  train.eps = reader.real("eps");
  train.weight_decay = reader.real("weight_decay");
  train.max_norm = reader.real("max_norm");
  train.warmup = reader.whole("warmup");
  train.total = reader.whole("total");
  reader.finish();
  nsa::TrainingConfig laws;
  laws.seq_len = 2;
  laws.optimizer = train;
  refuse_violation(nsa::violation_of(laws), where, "train.");
  return train;
}

}  // namespace

const char* name_of(GoldenLevel level) {
  switch (level) {
    case GoldenLevel::attention: return "attention";
    case GoldenLevel::lm: return "lm";
    default: return "train";
  }
}

GoldenLevel golden_level_named(const std::string& name, const std::string& where) {
  for (const GoldenLevel level : kLevels) {
    if (name == name_of(level)) return level;
  }
  throw Error(Location{where},
              "level: found \"" + nsa::shortened(name) + "\", wanted attention, lm or train");
}

GoldenConfig parse_golden_config(const std::string& text,
                                 GoldenLevel level,
                                 const std::string& where) {
  const std::string place = where + ": config";
  const Json json = nsa::parse_json_object(text, kLimits, place);
  Reader reader(json, place);
  GoldenConfig config;
  config.model = read_model(reader, level);
  const bool trains = level == GoldenLevel::train;
  const Json* train = reader.object("train", !trains);
  reader.finish();
  nsa::ModelConfig laws = config.model;
  // A scale of 1e30 turns the rotation off, as a shipped file does; scenarios have a lower bound on it.
  if (laws.rope_scale > 1.0) laws.rope_scale = 1.0;
  refuse_violation(nsa::violation_of(laws), place, "");
  if (trains) config.train = read_train(*train, place);
  return config;
}

std::string golden_config_text(const GoldenConfig& config, GoldenLevel level) {
  const nsa::ModelConfig& m = config.model;
  nlohmann::ordered_json json = {
      {"dim", m.dim},
      {"n_heads", m.n_heads},
      {"n_kv_groups", m.n_kv_groups},
      {"d_k", m.d_k},
      {"d_v", m.d_v},
      {"l", m.l},
      {"d", m.d},
      {"l_sel", m.l_sel},
      {"n_sel", m.n_sel},
      {"w", m.w},
      {"init_blocks", m.init_blocks},
      {"local_blocks", m.local_blocks},
      {"rope_base", m.rope_base},
      {"rope_scale", m.rope_scale},
      {"gate", nsa::name_of(m.gate)},
      {"gate_temp", m.gate_temp},
      {"gate_hidden", m.gate_width()},
      {"phi", nsa::name_of(m.phi)},
      {"eq9", nsa::name_of(m.eq9)},
  };
  if (level != GoldenLevel::attention) {
    json["n_layers"] = m.n_layers;
    json["vocab_size"] = m.vocab_size;
    json["mlp_ratio"] = m.mlp_ratio;
  }
  if (config.train) {
    const nsa::OptimizerConfig& t = *config.train;
    json["train"] = {{"lr", t.lr},
                     {"betas", {t.beta1, t.beta2}},
                     {"eps", t.eps},
                     {"weight_decay", t.weight_decay},
                     {"max_norm", t.max_norm},
                     {"warmup", t.warmup},
                     {"total", t.total}};
  }
  return json.dump();
}

}  // namespace harness
