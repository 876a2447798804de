#include "harness/cli/golden/text.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "harness/cli/output.h"
#include "nsa/base/strict_json.h"
#include "nsa/base/text.h"

namespace harness::cli::golden {
namespace {

constexpr int kDigits = 2;  // of errors and limits
constexpr std::size_t kNumberWidth = 10;

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(text.size() + 1, width), ' ');
  return text;
}

std::string number(double value) {
  return padded(nsa::to_text(value, kDigits), kNumberWidth);
}

const char* outcome(const Report& report) {
  if (!report.judgement.agrees()) return "DIFFERS";
  return report.trouble.empty() ? "AGREES" : "ERROR";
}

std::string title(const Report& report) {
  const Case& c = report.the_case;
  std::string text = std::string(outcome(report)) + "  " + c.path + ": level " + name_of(c.level) +
                     ", results in " + std::string(nsa::dtype_name(c.dtype)) + ", batch " +
                     std::to_string(c.batch) + ", length " + std::to_string(c.length);
  if (c.level == GoldenLevel::train) text += ", " + std::to_string(c.steps) + " steps";
  return text;
}

struct Row {
  std::string name;
  Compared oracle;
  std::optional<Compared> model;
  std::string words;
  bool agrees = true;
};

std::string row_text(const Row& row, std::size_t width) {
  std::string text =
      "  " + padded(row.name, width) + number(row.oracle.error) + number(row.oracle.limit);
  if (row.model) {
    text += number(row.model->error) + number(row.model->limit);
  } else {
    text += padded("-", kNumberWidth) + padded("-", kNumberWidth);
  }
  text += row.agrees ? "agrees" : "DIFFERS";
  return text + (row.words.empty() ? "" : "  " + row.words);
}

bool is_worse(const Compared& a, const Compared& b) {
  return !(a.error * b.limit <= b.error * a.limit);
}

// Of many gradients that agree, the worst stands for all.
void add_folded(const std::string& kind,
                const std::vector<const Stage*>& stages,
                std::vector<Row>& rows) {
  if (stages.empty()) return;
  Row row{
      std::to_string(stages.size()) + " " + kind, stages[0]->oracle, stages[0]->model, "", true};
  const Stage* worst = stages[0];
  for (const Stage* stage : stages) {
    if (is_worse(stage->oracle, row.oracle)) {
      row.oracle = stage->oracle;
      worst = stage;
    }
    if (stage->model && is_worse(*stage->model, *row.model)) row.model = stage->model;
  }
  row.words = "worst " + worst->name;
  rows.push_back(std::move(row));
}

std::vector<Row> rows_of(const Judgement& judgement) {
  std::vector<Row> rows;
  std::vector<const Stage*> gradients;
  std::vector<const Stage*> parameters;
  for (const Stage& stage : judgement.stages) {
    const std::string kind = kind_of(stage.name);
    if (stage.agrees() && kind == "gradients") {
      gradients.push_back(&stage);
    } else if (stage.agrees() && kind == "parameters") {
      parameters.push_back(&stage);
    } else {
      rows.push_back({stage.name, stage.oracle, stage.model, stage.words, stage.agrees()});
    }
  }
  add_folded("gradients", gradients, rows);
  add_folded("parameters", parameters, rows);
  return rows;
}

nlohmann::json real(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nsa::to_text(value));
}

nlohmann::json compared_json(const Compared& compared) {
  return {
      {"error", real(compared.error)}, {"limit", compared.limit}, {"agrees", compared.agrees()}};
}

std::vector<std::string> not_judged(const Case& c) {
  std::vector<std::string> names;
  for (const std::string& name : c.not_judged) {
    names.push_back(without_controls(nsa::shortened(name)));
  }
  return names;
}

}  // namespace

std::string report_text(const Report& report) {
  const std::vector<Row> rows = rows_of(report.judgement);
  std::size_t width = 8;
  for (const Row& row : rows) width = std::max(width, row.name.size() + 1);
  std::string text = without_controls(title(report)) + "\n  " + padded("stage", width) +
                     padded("oracle", kNumberWidth) + padded("limit", kNumberWidth) +
                     padded("model", kNumberWidth) + padded("limit", kNumberWidth) + "\n";
  for (const Row& row : rows) text += row_text(row, width) + "\n";
  const std::vector<std::string> unknown = not_judged(report.the_case);
  if (!unknown.empty()) text += "  not judged: " + nsa::join(unknown) + "\n";
  text += report.judgement.sentence + "\n";
  if (!report.judgement.reason.empty()) text += "likely: " + report.judgement.reason + "\n";
  const std::vector<Stage>& stages = report.judgement.stages;
  const bool asked = std::any_of(
      stages.begin(), stages.end(), [](const Stage& stage) { return stage.model.has_value(); });
  if (!asked && report.trouble.empty()) text += "the model was not asked (--oracle-only)\n";
  if (!report.trouble.empty()) {
    text += "nothing is known of the model: " + without_controls(report.trouble) + "\n";
  }
  return text;
}

nlohmann::json report_json(const Report& report) {
  const Case& c = report.the_case;
  auto stages = nlohmann::json::array();
  for (const Stage& stage : report.judgement.stages) {
    nlohmann::json entry = {
        {"stage", stage.name},
        {"agrees", stage.agrees()},
        {"oracle", compared_json(stage.oracle)},
        {"model", stage.model ? compared_json(*stage.model) : nlohmann::json()}};
    if (!stage.words.empty()) entry["words"] = stage.words;
    stages.push_back(std::move(entry));
  }
  const std::string& first = report.judgement.first;
  return {{"file", c.path},
          {"level", name_of(c.level)},
          {"dtype", nsa::dtype_name(c.dtype)},
          {"agrees", report.judgement.agrees() && report.trouble.empty()},
          {"first", first.empty() ? nlohmann::json() : nlohmann::json(first)},
          {"sentence", report.judgement.sentence},
          {"reason", report.judgement.reason},
          {"trouble", report.trouble},
          {"not_judged", not_judged(c)},
          {"stages", std::move(stages)}};
}

}  // namespace harness::cli::golden
