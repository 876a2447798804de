// What was run: model, training and parallel configuration of each case, its route, and what was planted.
#include <set>

#include "nsa/base/text.h"
#include "reports/markdown.h"
#include "reports/sections/list.h"
#include "reports/sections/wording.h"

namespace reports::section {
namespace {

std::string model_text(const nsa::ModelConfig& model, const std::string& parameters) {
  std::string text = escape(model.name);
  if (const auto count = nsa::parse_int(parameters)) text += ", " + grouped(*count) + " parameters";
  return text + ", dim " + std::to_string(model.dim) + ", " + std::to_string(model.n_layers) +
         " layers, " + std::to_string(model.n_heads) + " heads in " +
         std::to_string(model.n_kv_groups) + " groups, d_k " + std::to_string(model.d_k) +
         ", d_v " + std::to_string(model.d_v) + ", l " + std::to_string(model.l) + ", d " +
         std::to_string(model.d) + ", l' " + std::to_string(model.l_sel) + ", n " +
         std::to_string(model.n_sel) + ", w " + std::to_string(model.w);
}

std::string training_text(const nsa::TrainingConfig& training) {
  return counted(training.steps, "step") + ", batch " + std::to_string(training.batch_size) +
         " x " + std::to_string(training.seq_len) + " tokens a rank, " +
         nsa::name_of(training.precision) + ", data " + nsa::name_of(training.data.source);
}

std::string parallel_text(const CaseView& one, const nsa::ParallelConfig& parallel) {
  std::string text = counted(parallel.ranks, "rank") + " on " + nsa::name_of(parallel.device);
  if (!one.device.empty() && one.device != nsa::name_of(parallel.device))
    text += " (" + escape(one.device) + ")";
  return text + ", " + escape(one.backend.empty() ? parallel.effective_backend() : one.backend);
}

std::string route_text(const std::map<std::string, std::string>& route) {
  std::set<std::string> names;
  for (const auto& [seam, name] : route) names.insert(name);
  if (names.size() == 1) return "every seam " + escape(*names.begin());
  std::vector<std::string> parts;
  for (const auto& [seam, name] : route) parts.push_back(escape(seam) + " " + escape(name));
  return nsa::join(parts);
}

std::string fault_text(const harness::FaultRequest& fault) {
  std::string text = escape(fault.name);
  if (!fault.layers.empty()) text += ", layers " + nsa::ranges_text(fault.layers);
  if (fault.rank) text += ", rank " + std::to_string(*fault.rank);
  if (!fault.form.empty()) text += ", form " + escape(fault.form);
  return text + ", from step " + std::to_string(fault.step) + ", strength " +
         nsa::to_text(fault.strength);
}

std::string life_text(const harness::LifeConfig& life) {
  std::string text =
      life.save_every > 0 ? "a snapshot every " + counted(life.save_every, "step") : "no snapshot";
  if (life.kill_step == 0) return text;
  text +=
      ", killed in step " + std::to_string(life.kill_step) + ", phase " + escape(life.kill_phase);
  return life.kill_after_ms > 0 ? text + " after " + std::to_string(life.kill_after_ms) + " ms"
                                : text;
}

std::string known_text(const harness::KnownFailure& known) {
  std::vector<std::string> point;
  for (const auto& [path, value] : known.when) point.push_back(escape(path + "=" + value));
  return std::string(harness::name_of(known.outcome)) +
         (known.code.empty() ? "" : " " + escape(known.code)) + " where " + nsa::join(point) +
         ", until " + escape(known.until) + ": " + escape(known.because);
}

std::string of_case(const ReportView& view, const CaseView& one) {
  std::string text = "### " + case_name(view, one) + "\n\n";
  if (!one.the_case) return text + "The case's description cannot be read.\n\n";
  const harness::Scenario& scenario = one.the_case->scenario;
  if (!scenario.about.empty()) text += escape(scenario.about) + "\n\n";
  Table table({"", ""});
  table.row({"model", model_text(scenario.model, one.parameters)});
  table.row({"training", training_text(scenario.training)});
  table.row({"parallel", parallel_text(one, scenario.parallel)});
  table.row({"route asked for", route_text(scenario.route)});
  if (!scenario.profile.empty()) table.row({"profile", escape(scenario.profile)});
  table.row({"seed", std::to_string(scenario.seed)});
  if (scenario.life != harness::LifeConfig{}) table.row({"life", life_text(scenario.life)});
  if (scenario.fault) table.row({"planted fault", fault_text(*scenario.fault)});
  if (scenario.known) table.row({"known failure", known_text(*scenario.known)});
  table.row({"case", escape(one.record.case_id)});
  return text + table.text();
}

std::string body(const ReportView& view) {
  std::string text;
  for (const CaseView& one : view.cases) text += of_case(view, one);
  return text;
}

}  // namespace

Section configuration() {
  return {"Configuration", &body, false};
}

}  // namespace reports::section
