// A golden file (tests/golden/README.md) of somebody else's: inputs, weights and what they made of them. Read into memory
// whole, checked before anything is computed: format, level, configuration, names, dtypes, the shapes of the inputs, and that
// no input is NaN or infinite. The shapes of weights and results are left to whoever knows them (require_shape).
// Names here are the README's; in the file weights may lack their prefix ("W_Q.weight" for "w.W_Q.weight").
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/golden/golden_config.h"
#include "nsa/base/safetensors.h"

namespace harness {

class GoldenFile {
 public:
  // Throws: nsa::Error naming the file, the tensor or key, what was found and what was wanted.
  explicit GoldenFile(const std::string& path);
  GoldenFile(const GoldenFile&) = delete;
  GoldenFile& operator=(const GoldenFile&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] GoldenLevel level() const { return level_; }
  [[nodiscard]] const GoldenConfig& config() const { return config_; }
  [[nodiscard]] std::int64_t batch() const { return batch_; }
  [[nodiscard]] std::int64_t length() const { return length_; }
  [[nodiscard]] std::int64_t steps() const { return steps_; }  // train level; else 1

  // "w.", "p." or "p0.": what weights and parameters begin with at this level.
  [[nodiscard]] const std::string& weight_prefix() const;
  // By name, without prefix.
  [[nodiscard]] std::vector<std::string> weights() const;
  // Everything that is neither input nor weight and bears a name of this level; the rest is unknown().
  [[nodiscard]] std::vector<std::string> results() const;
  [[nodiscard]] const std::vector<std::string>& unknown() const { return unknown_; }

  [[nodiscard]] bool has(const std::string& name) const { return tensors_.count(name) > 0; }
  // Throw: nsa::Error where there is no such tensor, or it is of another dtype or shape.
  [[nodiscard]] const nsa::TensorView& at(const std::string& name) const;
  void require_shape(const std::string& name, const std::vector<std::int64_t>& shape) const;
  [[nodiscard]] std::vector<double> doubles(const std::string& name) const;
  [[nodiscard]] std::vector<std::int64_t> integers(const std::string& name) const;
  // doubles(), all of them finite.
  [[nodiscard]] std::vector<double> finite_doubles(const std::string& name) const;

 private:
  void read_metadata();
  void read_names();
  void read_sizes();
  void require_inputs() const;
  void add(const std::string& name, const nsa::TensorView& view);
  [[nodiscard]] std::string canonical(const std::string& name) const;
  [[nodiscard]] bool is_result(const std::string& name) const;

  std::string path_;
  std::string content_;
  nsa::SafetensorsIndex index_;  // views into content_
  GoldenLevel level_ = GoldenLevel::attention;
  GoldenConfig config_;
  std::int64_t batch_ = 0;
  std::int64_t length_ = 0;
  std::int64_t steps_ = 1;
  std::map<std::string, const nsa::TensorView*> tensors_;
  std::vector<std::string> unknown_;
};

// Why a choice [B,G,S,n] cannot be attended to: "batch 0, group 1, query 7: ...": not ascending and then -1, a block outside of
// the sequence or after the query's own. Empty when it can.
[[nodiscard]] std::string unusable_blocks(const nsa::ModelConfig& config,
                                          std::int64_t length,
                                          const std::vector<std::int64_t>& blocks);

// "[1,0,5]": where element `index` of a row-major tensor is.
[[nodiscard]] std::string place_text(const std::vector<std::int64_t>& shape, std::size_t index);

}  // namespace harness
