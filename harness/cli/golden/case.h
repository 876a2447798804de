// A golden file as the oracle wants it: configuration, inputs and weights in doubles, and the results to be judged. Letters as
// in oracles/attention.h.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/golden/golden_file.h"
#include "oracles/attention/attention.h"
#include "oracles/attention/score_bound.h"
#include "oracles/model/lm.h"
#include "oracles/training/optimizer.h"

namespace harness::cli::golden {

struct Case {
  std::string path;
  GoldenLevel level = GoldenLevel::attention;
  GoldenConfig config;
  std::int64_t batch = 0;
  std::int64_t length = 0;
  std::int64_t steps = 1;
  oracles::LmConfig lm;        // `attention` alone at the attention level
  oracles::TrainConfig train;  // train level
  oracles::Weights weights;    // without prefix
  oracles::Tensor x;
  std::optional<oracles::Tensor> dy;
  oracles::IntTensor tokens;  // [B,S], or [steps,B,S]

  std::vector<std::string> results;  // those of the file, in computing order
  std::map<std::string, oracles::Tensor> found;
  std::optional<oracles::IntTensor> blocks;
  std::string unusable;  // why the blocks cannot be replayed, "" if they can
  std::vector<std::string> not_judged;

  std::map<std::string, nsa::DType> stored;  // each result's own type
  nsa::DType dtype = nsa::DType::f64;        // the narrowest of the results that hold a number
  oracles::Arithmetic arithmetic = oracles::Arithmetic::float64();

  [[nodiscard]] bool has(const std::string& name) const { return found.count(name) > 0; }
  [[nodiscard]] const oracles::AttentionConfig& attention() const { return lm.attention; }
};

// Throws: nsa::Error naming the file, the tensor, what was found and what was wanted.
[[nodiscard]] Case read_case(const std::string& path);

// The narrowest of a result's own type and those of the results in the file that it is made of. What
// holds no number decides nothing.
[[nodiscard]] nsa::DType type_of(const Case& the_case, const std::string& result);

// Every result there can be, in computing order, with its shape: forward, then backward.
[[nodiscard]] std::vector<std::pair<std::string, oracles::Shape>> all_results(const Case& the_case);

}  // namespace harness::cli::golden
