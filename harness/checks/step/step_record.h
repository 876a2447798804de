// What ranks recorded of their optimiser steps (artefact optimizer_step), as the oracle wants it: the run's configuration, and
// of each rank and step the tokens, the loss and the state before and after. Tensors are looked at where the files are mapped.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/checks/artefacts.h"
#include "oracles/model/lm.h"
#include "oracles/numbers.h"
#include "oracles/training/data.h"
#include "oracles/training/optimizer.h"

namespace harness::checks {

inline constexpr const char* kStep = "optimizer_step";

// Of a floating tensor. REQUIRES: the view's file outlives it. Throws: nsa::Error for another dtype.
[[nodiscard]] oracles::Numbers numbers_of(const nsa::TensorView& view);

// The case in the oracle's words.
struct StepRun {
  explicit StepRun(const Evidence& from);

  const Evidence& evidence;
  const nsa::TrainingConfig& training;
  oracles::LmConfig model;
  oracles::DataConfig data;
  oracles::TrainConfig train;
  std::vector<std::string> params;  // in the model's order
  oracles::Number stored;  // type of parameters or masters, of moments and of the arithmetic
  oracles::Number narrow;  // type of the model's weights
  bool has_masters = false;
  bool scales_loss = false;
};

struct StepFile {
  int rank = 0;
  std::int64_t step = 0;
  nsa::SafetensorsFile file;

  [[nodiscard]] bool has(const std::string& name) const { return file.contains(name); }
  // No numbers where there is no such tensor.
  [[nodiscard]] oracles::Numbers numbers(const std::string& name) const;
  // [R,C] or [B,S,C] as rows. No numbers where there is no such tensor.
  [[nodiscard]] oracles::Matrix matrix(const std::string& name) const;
  [[nodiscard]] std::optional<oracles::IntTensor> tokens(std::int64_t micro) const;
  // The rows of a parameter that were drawn; none where all of it is on record.
  [[nodiscard]] std::vector<std::int64_t> rows(const std::string& param) const;
  [[nodiscard]] bool is_whole() const;
  // Did the step change a parameter or a moment of these parameters?
  [[nodiscard]] bool moved(const std::vector<std::string>& params) const;
  // The number of micro-batch `micro` in tensor `name` ("loss", "root").
  [[nodiscard]] std::optional<double> of_micro(const std::string& name, std::int64_t micro) const;
};

// All files of a case that can be opened, by rank and step; what cannot is missing in `result`.
using StepFiles = std::map<std::pair<int, std::int64_t>, StepFile>;
[[nodiscard]] StepFiles open_steps(const StepRun& run, ResultBuilder& result);

// Some rows of a recorded tensor as float64; all of it where `rows` is empty.
[[nodiscard]] std::vector<double> taken_rows(const nsa::TensorView& view,
                                             const std::vector<std::int64_t>& rows);

}  // namespace harness::checks
