// Case <-> canonical JSON: {"data": absolute paths, "id", "path", "point", "profile", "scenario": the document
// of a scenario file with every default filled in, "text"}.
#include "harness/scenario/case_json.h"

#include "harness/scenario/scenario_read.h"
#include "nsa/base/hash.h"

namespace harness {
namespace {

using nlohmann::json;
using nsa::YamlMap;
using nsa::YamlNode;

constexpr std::size_t kIdDigits = 16;

json model_json(const nsa::ModelConfig& model) {
  return {{"name", model.name},
          {"dim", model.dim},
          {"n_layers", model.n_layers},
          {"n_heads", model.n_heads},
          {"n_kv_groups", model.n_kv_groups},
          {"d_k", model.d_k},
          {"d_v", model.d_v},
          {"l", model.l},
          {"d", model.d},
          {"l_sel", model.l_sel},
          {"n_sel", model.n_sel},
          {"w", model.w},
          {"init_blocks", model.init_blocks},
          {"local_blocks", model.local_blocks},
          {"vocab_size", model.vocab_size},
          {"mlp_ratio", model.mlp_ratio},
          {"rope_base", model.rope_base},
          {"rope_scale", model.rope_scale},
          {"gate", nsa::name_of(model.gate)},
          {"gate_temp", model.gate_temp},
          {"gate_hidden", model.gate_hidden},
          {"phi", nsa::name_of(model.phi)},
          {"eq9", nsa::name_of(model.eq9)}};
}

json training_json(const nsa::TrainingConfig& training) {
  const nsa::OptimizerConfig& optimizer = training.optimizer;
  return {{"steps", training.steps},
          {"batch_size", training.batch_size},
          {"seq_len", training.seq_len},
          {"accumulate", training.accumulate},
          {"precision", nsa::name_of(training.precision)},
          {"reaches_floor", training.reaches_floor},
          {"data",
           {{"source", nsa::name_of(training.data.source)},
            {"text", training.data.as_written},
            {"distance", training.data.distance},
            {"sharpness", training.data.sharpness}}},
          {"optimizer",
           {{"lr", optimizer.lr},
            {"beta1", optimizer.beta1},
            {"beta2", optimizer.beta2},
            {"eps", optimizer.eps},
            {"weight_decay", optimizer.weight_decay},
            {"max_norm", optimizer.max_norm},
            {"warmup", optimizer.warmup},
            {"total", optimizer.total}}}};
}

json parallel_json(const nsa::ParallelConfig& parallel) {
  json layers = parallel.checkpoint_layers;
  if (parallel.checkpoint_layers.empty()) layers = "none";
  return {{"ranks", parallel.ranks},
          {"device", nsa::name_of(parallel.device)},
          {"backend", parallel.backend},
          {"ddp",
           {{"static_graph", parallel.static_graph},
            {"find_unused", parallel.find_unused},
            {"gradient_as_bucket_view", parallel.gradient_as_bucket_view},
            {"bucket_mb", parallel.bucket_mb},
            {"compress", parallel.compress}}},
          {"checkpoint",
           {{"layers", layers},
            {"mode", parallel.checkpoint_mode},
            {"keep_blocks", parallel.checkpoint_keep_blocks}}}};
}

json fault_json(const FaultRequest& fault) {
  json out = {{"name", fault.name},
              {"step", fault.step},
              {"strength", fault.strength},
              {"seed", fault.seed}};
  if (!fault.layers.empty()) out["layers"] = fault.layers;
  if (fault.rank) out["rank"] = *fault.rank;
  if (fault.all_ranks) out["rank"] = "all";
  if (!fault.form.empty()) out["form"] = fault.form;
  return out;
}

json expectation_json(const Expectation& expectation) {
  json out = {{"site", expectation.site}};
  if (expectation.outcome) out["outcome"] = name_of(*expectation.outcome);
  if (!expectation.code.empty()) out["code"] = expectation.code;
  return out;
}

json life_json(const LifeConfig& life) {
  return {{"save_every", life.save_every},
          {"kill_step", life.kill_step},
          {"kill_phase", life.kill_phase},
          {"kill_after_ms", life.kill_after_ms}};
}

json known_json(const KnownFailure& known) {
  json when = json::object();
  for (const auto& [path, value] : known.when) when[path] = value;
  json out = {{"when", when},
              {"outcome", name_of(known.outcome)},
              {"because", known.because},
              {"until", known.until}};
  if (!known.code.empty()) out["code"] = known.code;
  return out;
}

json requirements_json(const Scenario& scenario) {
  json out = {{"gpus", scenario.requires_gpus}, {"memory_gib", scenario.requires_memory_gib}};
  if (scenario.requires_gpu_memory_gib > 0.0) {
    out["gpu_memory_gib"] = scenario.requires_gpu_memory_gib;
  }
  return out;
}

json budget_json(const Scenario& scenario) {
  json out = {{"seconds", scenario.budget_seconds}};
  if (scenario.budget_cores > 0) out["cores"] = scenario.budget_cores;
  return out;
}

std::string dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::vector<std::pair<std::string, std::string>> read_point(const YamlNode& node) {
  std::vector<std::pair<std::string, std::string>> point;
  if (node.kind != YamlNode::Kind::sequence) throw nsa::Error(node.where, "point: wanted a list");
  for (const YamlNode& item : node.items) {
    const std::vector<std::string> pair = nsa::read_texts(item, "point");
    if (pair.size() != 2) throw nsa::Error(item.where, "point: wanted pairs [axis, value]");
    point.emplace_back(pair[0], pair[1]);
  }
  return point;
}

}  // namespace

json scenario_json(const Scenario& scenario) {
  json out = {{"version", 1},
              {"scenario", scenario.name},
              {"about", scenario.about},
              {"kind", scenario.kind},
              {"seed", scenario.seed},
              {"model", model_json(scenario.model)},
              {"training", training_json(scenario.training)},
              {"parallel", parallel_json(scenario.parallel)},
              {"attention",
               {{"inputs", scenario.attention.inputs},
                {"gate", scenario.attention.gate},
                {"poison", scenario.attention.poison},
                {"trace_kernels", scenario.attention.trace_kernels},
                {"prefix", scenario.attention.prefix}}},
              {"sweep",
               {{"seq_len", scenario.sweep.seq_len},
                {"batch_size", scenario.sweep.batch_size},
                {"n_layers", scenario.sweep.n_layers}}},
              {"route", scenario.route},
              {"requires", requirements_json(scenario)},
              {"budget", budget_json(scenario)},
              {"checks", scenario.checks}};
  if (scenario.fault) out["fault"] = fault_json(*scenario.fault);
  if (scenario.expect) out["expect"] = expectation_json(*scenario.expect);
  if (scenario.life != LifeConfig{}) out["life"] = life_json(scenario.life);
  if (!scenario.bisect.over.empty()) {
    out["bisect"] = {{"over", scenario.bisect.over}, {"candidates", scenario.bisect.candidates}};
  }
  if (scenario.known) out["known"] = known_json(*scenario.known);
  return out;
}

std::string case_id(const Case& the_case) {
  json content = scenario_json(the_case.scenario);
  content.erase("about");
  content["profile"] = the_case.scenario.profile;
  return nsa::hash_hex(dump(content)).substr(0, kIdDigits);
}

std::string case_to_json(const Case& the_case) {
  const Scenario& scenario = the_case.scenario;
  json point = json::array();
  for (const auto& [axis, value] : the_case.point) point.push_back({axis, value});
  return dump({{"id", the_case.id},
               {"point", point},
               {"path", scenario.path},
               {"profile", scenario.profile},
               {"data", scenario.training.data.text},
               {"text", scenario.text},
               {"scenario", scenario_json(scenario)}});
}

Case case_from_json(const std::string& text, const std::string& file) {
  const YamlNode root = nsa::parse_yaml(text, file);
  YamlMap map(root, "");
  ReadContext context;
  Case the_case;
  map.read("id", the_case.id);
  if (const YamlNode* point = map.get("point")) the_case.point = read_point(*point);
  map.read("path", context.path);
  const YamlNode* document = map.get("scenario");
  if (document == nullptr) throw nsa::Error(root.where, "found no scenario, wanted a case");
  the_case.scenario = read_scenario(*document, context);
  map.read("profile", the_case.scenario.profile);
  map.read("data", the_case.scenario.training.data.text);
  map.read("text", the_case.scenario.text);
  map.finish();
  return the_case;
}

}  // namespace harness
