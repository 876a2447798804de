#include "reports/sections/configuration_rows.h"

#include <algorithm>
#include <set>

#include "nsa/base/text.h"
#include "reports/markdown.h"

namespace reports {
namespace {

using Parts = std::vector<std::string>;

Parts model_parts(const nsa::ModelConfig& model, const std::string& parameters) {
  Parts parts = {escape(model.name)};
  if (const auto count = nsa::parse_int(parameters))
    parts.push_back(grouped(*count) + " parameters");
  parts.push_back("dim " + std::to_string(model.dim));
  parts.push_back(std::to_string(model.n_layers) + " layers");
  parts.push_back(std::to_string(model.n_heads) + " heads in " + std::to_string(model.n_kv_groups) +
                  " groups");
  parts.push_back("d_k " + std::to_string(model.d_k));
  parts.push_back("d_v " + std::to_string(model.d_v));
  parts.push_back("l " + std::to_string(model.l));
  parts.push_back("d " + std::to_string(model.d));
  parts.push_back("l' " + std::to_string(model.l_sel));
  parts.push_back("n " + std::to_string(model.n_sel));
  parts.push_back("w " + std::to_string(model.w));
  return parts;
}

Parts training_parts(const nsa::TrainingConfig& training) {
  return {counted(training.steps, "step"),
          "batch " + std::to_string(training.batch_size) + " x " +
              std::to_string(training.seq_len) + " tokens a rank",
          nsa::name_of(training.precision),
          std::string("data ") + nsa::name_of(training.data.source)};
}

Parts parallel_parts(const CaseView& one, const nsa::ParallelConfig& parallel) {
  std::string ranks = counted(parallel.ranks, "rank") + " on " + nsa::name_of(parallel.device);
  if (!one.digest().device.empty() && one.digest().device != nsa::name_of(parallel.device))
    ranks += " (" + escape(one.digest().device) + ")";
  return {
      ranks,
      escape(one.digest().backend.empty() ? parallel.effective_backend() : one.digest().backend)};
}

ConfigurationRow route_row(const std::map<std::string, std::string>& route) {
  std::set<std::string> names;
  Parts parts;
  for (const auto& [seam, name] : route) {
    names.insert(name);
    parts.push_back(escape(seam) + " " + escape(name));
  }
  const std::string text =
      names.size() == 1 ? "every seam " + escape(*names.begin()) : nsa::join(parts);
  return {"route asked for", parts, text};
}

Parts fault_parts(const harness::FaultRequest& fault) {
  Parts parts = {escape(fault.name)};
  if (!fault.layers.empty()) parts.push_back("layers " + nsa::ranges_text(fault.layers));
  if (fault.rank) parts.push_back("rank " + std::to_string(*fault.rank));
  if (!fault.form.empty()) parts.push_back("form " + escape(fault.form));
  parts.push_back("from step " + std::to_string(fault.step));
  parts.push_back("strength " + nsa::to_text(fault.strength));
  return parts;
}

std::string observe_text(int level) {
  return std::to_string(level) + (level == harness::kWatchEvents
                                      ? " (events: nothing waits for the device in a step)"
                                      : " (processes only)");
}

Parts life_parts(const harness::LifeConfig& life) {
  Parts parts = {life.save_every > 0 ? "a snapshot every " + counted(life.save_every, "step")
                                     : "no snapshot"};
  if (life.kill_step == 0) return parts;
  parts.push_back("killed in step " + std::to_string(life.kill_step));
  std::string phase = "phase " + escape(life.kill_phase);
  if (life.kill_after_ms > 0) phase += " after " + std::to_string(life.kill_after_ms) + " ms";
  parts.push_back(phase);
  return parts;
}

const ConfigurationRow* row_named(const std::vector<ConfigurationRow>& rows,
                                  const std::string& name) {
  const auto at = std::find_if(
      rows.begin(), rows.end(), [&](const ConfigurationRow& row) { return row.name == name; });
  return at == rows.end() ? nullptr : &*at;
}

ConfigurationRow common_row(const ConfigurationRow& first,
                            const std::vector<std::vector<ConfigurationRow>>& all) {
  Parts kept = first.parts;
  for (const auto& rows : all) {
    const ConfigurationRow* other = row_named(rows, first.name);
    std::erase_if(kept, [&](const std::string& part) {
      return other == nullptr ||
             std::find(other->parts.begin(), other->parts.end(), part) == other->parts.end();
    });
  }
  const bool same = std::all_of(all.begin(), all.end(), [&](const auto& rows) {
    const ConfigurationRow* other = row_named(rows, first.name);
    return other != nullptr && other->text == first.text;
  });
  if (same) return first;
  return {first.name, kept, kept.empty() ? "varies" : nsa::join(kept) + "; the rest varies"};
}

}  // namespace

std::vector<ConfigurationRow> configuration_rows(const CaseView& one) {
  const harness::Scenario& scenario = one.the_case->scenario;
  std::vector<ConfigurationRow> rows;
  const auto add = [&](const char* name, const Parts& parts) {
    rows.push_back({name, parts, nsa::join(parts)});
  };
  if (scenario.is_command()) {  // what it trains is its own
    add("command", {escape(nsa::shell_text(scenario.command.argv))});
    if (!scenario.command.directory.empty())
      add("started in", {escape(scenario.command.directory)});
    const harness::Digest& digest = one.digest();
    if (!digest.device.empty())
      add("rank 0",
          {escape(digest.device), escape(digest.backend), "torch " + escape(digest.torch_version)});
    return rows;
  }
  add("model", model_parts(scenario.model, one.digest().parameters));
  add("training", training_parts(scenario.training));
  add("parallel", parallel_parts(one, scenario.parallel));
  rows.push_back(route_row(scenario.route));
  if (scenario.observe < harness::kWatchValues) add("observe", {observe_text(scenario.observe)});
  if (!scenario.profile.empty()) add("profile", {escape(scenario.profile)});
  add("seed", {std::to_string(scenario.seed)});
  if (scenario.life != harness::LifeConfig{}) add("life", life_parts(scenario.life));
  if (scenario.fault) add("planted fault", fault_parts(*scenario.fault));
  return rows;
}

std::vector<ConfigurationRow> common_rows(const Cases& cases) {
  std::vector<std::vector<ConfigurationRow>> all;
  std::vector<ConfigurationRow> first;  // of each name, the first case's that has it
  for (const CaseView* one : cases) {
    all.push_back(configuration_rows(*one));
    for (const ConfigurationRow& row : all.back()) {
      if (row_named(first, row.name) == nullptr) first.push_back(row);
    }
  }
  std::vector<ConfigurationRow> common;
  common.reserve(first.size());
  for (const ConfigurationRow& row : first) common.push_back(common_row(row, all));
  return common;
}

}  // namespace reports
