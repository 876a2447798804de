#include "harness/checks/step/step_record.h"

#include <algorithm>

#include "harness/checks/attention/record/layer_record.h"
#include "harness/checks/data_of.h"
#include "harness/checks/parameter_names.h"
#include "nsa/base/error.h"

namespace harness::checks {
namespace {

oracles::LmConfig lm_config(const nsa::ModelConfig& model) {
  oracles::LmConfig config;
  config.attention = oracle_config(model);
  config.n_layers = model.n_layers;
  config.vocab_size = model.vocab_size;
  config.mlp_ratio = model.mlp_ratio;
  config.tied_head = model.tied_head;
  return config;
}

oracles::TrainConfig train_config(const nsa::OptimizerConfig& optimizer) {
  oracles::TrainConfig config;
  config.lr = optimizer.lr;
  config.beta1 = optimizer.beta1;
  config.beta2 = optimizer.beta2;
  config.eps = optimizer.eps;
  config.weight_decay = optimizer.weight_decay;
  config.max_norm = optimizer.max_norm;
  config.warmup = optimizer.warmup;
  config.total = optimizer.total;
  return config;
}

// The type that the model's weights have.
oracles::Number weights_of(nsa::Precision precision) {
  switch (precision) {
    case nsa::Precision::fp64: return oracles::Number::f64;
    case nsa::Precision::bf16:
    case nsa::Precision::bf16_pure: return oracles::Number::bf16;
    case nsa::Precision::fp16:
    case nsa::Precision::fp16_pure: return oracles::Number::f16;
    default: return oracles::Number::f32;
  }
}

std::optional<oracles::Number> number_of(nsa::DType dtype) {
  switch (dtype) {
    case nsa::DType::f64: return oracles::Number::f64;
    case nsa::DType::f32: return oracles::Number::f32;
    case nsa::DType::bf16: return oracles::Number::bf16;
    case nsa::DType::f16: return oracles::Number::f16;
    default: return std::nullopt;
  }
}

}  // namespace

oracles::Numbers numbers_of(const nsa::TensorView& view) {
  const std::optional<oracles::Number> number = number_of(view.dtype);
  if (!number) {
    throw nsa::Error(view.where + ": found dtype " + std::string(nsa::dtype_name(view.dtype)) +
                     ", wanted a floating one");
  }
  const auto bytes = static_cast<std::int64_t>(view.bytes.size());
  return {view.bytes.data(), bytes / oracles::bytes_of(*number), *number};
}

StepRun::StepRun(const Evidence& from)
    : evidence(from),
      training(from.the_case.scenario.training),
      model(lm_config(from.the_case.scenario.model)),
      data(data_of(from.the_case.scenario)),
      train(train_config(training.optimizer)),
      params(parameter_names(from.the_case.scenario.model)),
      stored(oracles::Number::f32),
      narrow(weights_of(training.precision)),
      has_masters(training.precision == nsa::Precision::bf16 ||
                  training.precision == nsa::Precision::fp16),
      scales_loss(training.precision == nsa::Precision::fp16) {
  if (!has_masters) stored = narrow;
}

oracles::Numbers StepFile::numbers(const std::string& name) const {
  return has(name) ? numbers_of(file.at(name)) : oracles::Numbers();
}

oracles::Matrix StepFile::matrix(const std::string& name) const {
  if (!has(name)) return {};
  const nsa::TensorView& view = file.at(name);
  const std::int64_t columns = view.shape.empty() ? 1 : view.shape.back();
  const oracles::Numbers numbers = numbers_of(view);
  return {numbers, columns == 0 ? 0 : numbers.size() / columns, columns};
}

std::optional<oracles::IntTensor> StepFile::tokens(std::int64_t micro) const {
  const std::string name = "tokens." + std::to_string(micro);
  if (!has(name)) return std::nullopt;
  return oracles::IntTensor{file.at(name).shape, nsa::to_int64s(file.at(name))};
}

std::vector<std::int64_t> StepFile::rows(const std::string& param) const {
  const std::string name = "rows." + param;
  return has(name) ? nsa::to_int64s(file.at(name)) : std::vector<std::int64_t>{};
}

bool StepFile::is_whole() const {
  const auto& tensors = file.tensors();
  const auto at = tensors.lower_bound("rows.");
  return at == tensors.end() || at->first.rfind("rows.", 0) != 0;
}

namespace {

bool all_zero(const oracles::Numbers& numbers) {
  for (std::int64_t i = 0; i < numbers.size(); ++i) {
    if (!(numbers[i] == 0)) return false;
  }
  return true;
}

}  // namespace

bool StepFile::moved(const std::vector<std::string>& params) const {
  return std::any_of(params.begin(), params.end(), [&](const std::string& param) {
    for (const char* part : {"p", "m", "v"}) {
      const std::string before = std::string(part) + "." + param;
      const std::string after = std::string(part) + "1." + param;
      if (!has(after)) continue;
      // Moments that were not there are zeros, whoever writes them down.
      if (has(before) ? !same_bytes(file.at(before), file.at(after)) : !all_zero(numbers(after))) {
        return true;
      }
    }
    return false;
  });
}

std::optional<double> StepFile::of_micro(const std::string& name, std::int64_t micro) const {
  const oracles::Numbers all = numbers(name);
  if (micro >= all.size()) return std::nullopt;
  return all[micro];
}

StepFiles open_steps(const StepRun& run, ResultBuilder& result) {
  StepFiles files;
  for (const int rank : all_ranks(run.evidence)) {
    for (std::int64_t step = 1; step <= run.training.steps; ++step) {
      auto file = open_artefact(run.evidence, {rank, kStep, step, rank}, result);
      if (!file) continue;
      files.emplace(std::pair(rank, step), StepFile{rank, step, std::move(*file)});
    }
  }
  return files;
}

std::vector<double> taken_rows(const nsa::TensorView& view, const std::vector<std::int64_t>& rows) {
  const oracles::Numbers all = numbers_of(view);
  if (rows.empty()) return all.values();
  const std::int64_t count = view.shape.empty() ? 1 : view.shape.front();
  const std::int64_t width = count == 0 ? 0 : all.size() / count;
  std::vector<double> taken;
  taken.reserve(rows.size() * static_cast<std::size_t>(width));
  for (const std::int64_t row : rows) {
    if (row < 0 || row >= count) {
      throw nsa::Error(view.where + ": found row " + std::to_string(row) + ", wanted below " +
                       std::to_string(count));
    }
    const std::vector<double> values = all.part(row * width, width).values();
    taken.insert(taken.end(), values.begin(), values.end());
  }
  return taken;
}

}  // namespace harness::checks
