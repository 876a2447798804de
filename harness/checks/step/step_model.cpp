// Reads what is recorded of the model between its attention layers, and has it judged: stage by stage (step_blocks.h); under
// autocast, where each stage has a type of its own, at some rows from the borders of the attention layers.
#include "harness/checks/step/step_model.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "harness/checks/attention/record/layer_survey.h"
#include "harness/checks/ceilings.h"
#include "harness/checks/step/step_blocks.h"
#include "harness/checks/step/step_weights.h"

namespace harness::checks {
namespace {

// Of a model of which only rows of the parameters are on record, and of a small one.
constexpr std::int64_t kFewRows = 48;
constexpr std::int64_t kManyRows = 256;

std::vector<std::int64_t> some_rows(std::int64_t all, std::int64_t most) {
  std::vector<std::int64_t> rows;
  const std::int64_t count = std::min(all, most);
  for (std::int64_t i = 0; i < count; ++i) rows.push_back(i * all / count);
  return rows;
}

oracles::Tensor rows_of_view(const nsa::TensorView& view, const std::vector<std::int64_t>& rows) {
  const oracles::Numbers numbers = numbers_of(view);
  const std::int64_t width = view.shape.empty() ? 1 : view.shape.back();
  return oracles::rows_of({numbers, width == 0 ? 0 : numbers.size() / width, width}, rows);
}

bool all_finite(const oracles::Tensor& tensor) {
  return std::all_of(
      tensor.data.begin(), tensor.data.end(), [](double x) { return std::isfinite(x); });
}

bool is_autocast(const StepRun& run) {
  return run.training.precision == nsa::Precision::bf16_autocast;
}

class ModelReader {
 public:
  ModelReader(StepJudge& judge, const StepFile& file) : judge_(judge), file_(file) {}

  // Nothing where something is not on record; then it is said.
  std::optional<ModelRows> read() {
    auto tokens = file_.tokens(0);
    if (!tokens || !file_.has("logits.0") || !weights_.find(judge_, file_)) return std::nullopt;
    ModelRows model;
    const auto all = static_cast<std::int64_t>(tokens->data.size());
    model.rows = some_rows(all, file_.is_whole() ? kManyRows : kFewRows);
    model.tokens = std::move(*tokens);
    model.rounding = oracles::Rounding::of(oracles::Number::bf16);
    read_weights(model);
    for (std::int64_t layer = 0; layer < judge_.run.model.n_layers; ++layer) {
      if (!read_layer(static_cast<int>(layer), model)) return std::nullopt;
    }
    model.logits = rows_of_view(file_.file.at("logits.0"), model.rows);
    if (file_.has("dlogits.0")) {
      model.dlogits = rows_of_view(file_.file.at("dlogits.0"), model.rows);
    }
    model.dropout = judge_.run.evidence.the_case.scenario.model.dropout;
    model.data = judge_.run.data;
    model.place = {file_.step, 0, file_.rank};
    model.draw_factors();
    return model;
  }

 private:
  void read_weights(ModelRows& model) const {
    for (const std::string& param : judge_.run.params) {
      if (param.find(".attn.") != std::string::npos) continue;
      const nsa::TensorView& view = weights_.file().at(weights_.name_of(param));
      if (view.shape.size() == 1) {
        model.small[param] = {view.shape, nsa::to_doubles(view)};
      } else {
        model.large[param] = {numbers_of(view), view.shape.front(), view.shape.back()};
      }
    }
  }

  bool read_layer(int layer, ModelRows& model) {
    files_.push_back(open_artefact(
        judge_.run.evidence, {file_.rank, kLayer, file_.step, file_.rank, layer}, judge_.result));
    if (!files_.back()) return false;
    const nsa::SafetensorsFile& file = *files_.back();
    ModelRows::Border border;
    border.x = rows_of_view(file.at("x"), model.rows);
    border.y = rows_of_view(file.at("y"), model.rows);
    if (file.contains("dx")) border.dx = rows_of_view(file.at("dx"), model.rows);
    if (file.contains("dy")) border.dy = rows_of_view(file.at("dy"), model.rows);
    model.layers.push_back(std::move(border));
    return true;
  }

  StepJudge& judge_;
  const StepFile& file_;
  StepWeights weights_;
  std::vector<std::optional<nsa::SafetensorsFile>> files_;
};

bool is_finite(const ModelRows& model) {
  return all_finite(model.logits) &&
         std::all_of(model.layers.begin(), model.layers.end(), [](const auto& layer) {
           return all_finite(layer.x) && all_finite(layer.y) && all_finite(layer.dx) &&
                  all_finite(layer.dy);
         });
}

void tell(StepJudge& judge,
          const StepFile& file,
          const std::string& code,
          const std::string& phase,
          Departure wrong) {
  wrong.code = code;
  wrong.site.ranks = {file.rank};
  wrong.site.step = file.step;
  wrong.site.phase = phase;
  judge.told.add(std::move(wrong));
}

// The rows that were judged; 0 where it could not be.
std::int64_t judge_model_of(StepJudge& judge, const StepFile& file) {
  ModelReader reader(judge, file);
  const std::optional<ModelRows> model = reader.read();
  if (!model) return 0;
  if (!is_finite(*model)) {
    judge.not_finite("the model", file);
    return 0;
  }
  Stream stream;
  if (auto wrong = judge_forward(*model, stream)) {
    tell(judge, file, "NUMERIC.FORWARD", "forward", std::move(*wrong));
    const std::string what = "gradients between the attention layers: their forward is wrong";
    judge.not_judged.push_back(what);
    Site site = site_of_rank(file.rank);
    for (std::size_t layer = 0; layer < model->layers.size(); ++layer) {
      site.layers.push_back(static_cast<int>(layer));
    }
    judge.result.not_judged(what, site);
  } else if (!model->dlogits.data.empty()) {
    if (auto back = judge_backward(*model, stream)) {
      tell(judge, file, "NUMERIC.GRADIENT", "backward", std::move(*back));
    }
  }
  return static_cast<std::int64_t>(model->rows.size());
}

}  // namespace

void ModelRows::draw_factors() {
  factors.clear();
  if (!(dropout > 0) || layers.empty()) return;
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    Halves halves;
    for (const std::int64_t site : {0, 1}) {
      oracles::Tensor ones = layers[layer].y;
      std::fill(ones.data.begin(), ones.data.end(), 1.0);
      halves.at(static_cast<std::size_t>(site)) =
          oracles::expected_dropout(dropping(layer, site, ones)).value;
    }
    factors.push_back(std::move(halves));
  }
}

oracles::DropoutInputs ModelRows::dropping(std::size_t layer,
                                           std::int64_t site,
                                           const oracles::Tensor& branch) const {
  const oracles::DropoutPlace at{place, static_cast<std::int64_t>(layer), site};
  return {branch, data, at, dropout, rounding, rows};
}

oracles::Tensor ModelRows::dropped(std::size_t layer,
                                   std::int64_t site,
                                   oracles::Tensor branch) const {
  if (factors.empty()) return branch;
  const oracles::Tensor& factor = factors[layer].at(static_cast<std::size_t>(site));
  for (std::size_t i = 0; i < branch.data.size(); ++i) branch.data[i] *= factor.data[i];
  return branch;
}

oracles::MlpWeights ModelRows::mlp(std::size_t layer) const {
  const std::string prefix = "blocks." + std::to_string(layer) + ".mlp.";
  return {"block " + std::to_string(layer),
          large.at(prefix + "fc1.weight"),
          large.at(prefix + "fc2.weight")};
}

oracles::Expected within_ceiling(oracles::Tensor value, const ModelRows& model) {
  double largest = 0;
  for (const double x : value.data) largest = std::max(largest, std::abs(x));
  const std::int64_t terms = model.large.at("blocks.0.mlp.fc1.weight").rows;
  const oracles::Rounding& rounding = model.rounding;
  oracles::Tensor bound{value.shape, std::vector<double>(value.data.size())};
  if (rounding.stored <= rounding.summed) {
    const double limit = ceiling(terms, rounding.stored) * largest;
    std::fill(bound.data.begin(), bound.data.end(), limit);
    return {std::move(value), std::move(bound)};
  }
  // Kept in a narrow type: two roundings a block on the stream (two more of what is dropped) and a few beside it, independent of
  // each other.
  const std::size_t a_block = model.factors.empty() ? 2 : 4;
  const auto roundings = static_cast<double>(a_block * model.layers.size() + 4);
  const double share = 8 / std::sqrt(3.0) * std::sqrt(roundings) * rounding.stored;
  const auto width = static_cast<std::size_t>(value.shape.back());
  for (std::size_t begin = 0; begin < value.data.size(); begin += width) {
    double squares = 0;
    for (std::size_t i = begin; i < begin + width; ++i) squares += value.data[i] * value.data[i];
    const double typical = std::sqrt(squares / static_cast<double>(width));
    for (std::size_t i = begin; i < begin + width; ++i) {
      bound.data[i] = share * (std::abs(value.data[i]) + typical) +
                      ceiling(terms, rounding.summed) * largest + rounding.flushed;
    }
  }
  return {std::move(value), std::move(bound)};
}

void judge_model(StepJudge& judge) {
  if (!is_autocast(judge.run)) {
    judge_blocks(judge);
    return;
  }
  judge.not_judged.emplace_back("gradients of weights outside the attention (not under autocast)");
  std::int64_t rows = 0;
  for (const auto& [key, file] : judge.files) {
    try {
      rows += judge_model_of(judge, file);
    } catch (const std::invalid_argument& error) {
      judge.result.missing("the model of " + process_name(key.first) + ", step " +
                           std::to_string(key.second) + ": " + error.what());
    }
  }
  if (rows > 0) {
    judge.judged.push_back("every stage between the attention layers, forward and back, in " +
                           std::to_string(rows) + " rows");
  } else {
    judge.not_judged.emplace_back("the model between its attention layers (not on record)");
  }
}

}  // namespace harness::checks
