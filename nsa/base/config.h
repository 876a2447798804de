// What a model, its training and its parallel run are: plain values with defaults and validate().
// Read from YAML (configs/models/*.yaml, scenario files); used by the model, the worker and, through the case, the checks.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "nsa/base/names.h"
#include "nsa/base/yaml.h"

namespace nsa {

enum class Gate { group_softmax, head_sigmoid };
enum class Phi { avg, conv, mlp };
enum class Eq9 { fractional, overlap };
// bf16, fp16: weights of the model in that type, masters and AdamW state in float32 (fp16 with loss scaling). *_pure: weights
// and AdamW state in that type alone, as it was once done.
enum class Precision { fp64, fp32, bf16, fp16, bf16_pure, fp16_pure, bf16_autocast };
enum class Device { cpu, cuda };

inline constexpr std::array kGateNames = {"group_softmax", "head_sigmoid"};
inline constexpr std::array kPhiNames = {"avg", "conv", "mlp"};
inline constexpr std::array kEq9Names = {"fractional", "overlap"};
inline constexpr std::array kPrecisionNames = {
    "fp64", "fp32", "bf16", "fp16", "bf16_pure", "fp16_pure", "bf16_autocast"};
inline constexpr std::array kDeviceNames = {"cpu", "cuda"};
constexpr Names names_of(Gate /*of*/) {
  return kGateNames;
}
constexpr Names names_of(Phi /*of*/) {
  return kPhiNames;
}
constexpr Names names_of(Eq9 /*of*/) {
  return kEq9Names;
}
constexpr Names names_of(Precision /*of*/) {
  return kPrecisionNames;
}
constexpr Names names_of(Device /*of*/) {
  return kDeviceNames;
}

// NSA language model (the letters are those of arXiv 2502.11089). Widths and lengths in numbers of elements/tokens.
struct ModelConfig {
  std::string name;      // the file of configs/models it came from
  std::int64_t dim = 0;  // width of the residual stream
  std::int64_t n_layers = 0;
  std::int64_t n_heads = 0;      // H
  std::int64_t n_kv_groups = 0;  // G; query head g*h+i belongs to group g, h = H/G
  std::int64_t d_k = 0;          // even
  std::int64_t d_v = 0;
  std::int64_t l = 0;      // compression block
  std::int64_t d = 0;      // its stride, divides l and l_sel
  std::int64_t l_sel = 0;  // selection block
  std::int64_t n_sel = 0;  // selected blocks, forced ones included
  std::int64_t w = 0;      // window, the query's own token included
  std::int64_t init_blocks = 1;
  std::int64_t local_blocks = 2;
  std::int64_t vocab_size = 256;  // bytes
  std::int64_t mlp_ratio = 4;
  double rope_base = 10000.0;
  double rope_scale = 1.0;
  Gate gate = Gate::group_softmax;
  double gate_temp = 1.0;
  std::int64_t gate_hidden = 0;  // 0 stands for max(1, d_k/2)
  Phi phi = Phi::avg;
  Eq9 eq9 = Eq9::fractional;
  bool tied_head = false;  // lm_head.weight is embed.weight: one parameter
  double dropout = 0.0;    // of what a block adds to the residual stream, in training

  [[nodiscard]] std::int64_t heads_per_group() const { return n_heads / n_kv_groups; }
  [[nodiscard]] std::int64_t gate_width() const {
    return gate_hidden > 0 ? gate_hidden : (d_k / 2 > 0 ? d_k / 2 : 1);
  }
  // Compressed tokens of a sequence of `seq_len`: floor((S-l)/d)+1, 0 if S < l.
  [[nodiscard]] std::int64_t compressed_len(std::int64_t seq_len) const {
    return seq_len < l ? 0 : (seq_len - l) / d + 1;
  }
  // Selection blocks, the last may be partial: ceil(S / l_sel).
  [[nodiscard]] std::int64_t block_count(std::int64_t seq_len) const {
    return (seq_len + l_sel - 1) / l_sel;
  }
  [[nodiscard]] std::int64_t parameter_count() const;

  // Throws: Error at `where`, naming the value and the law it breaks. The laws also bound every size, so that nothing
  // computed from a valid configuration overflows.
  void validate(const Location& where) const;
  bool operator==(const ModelConfig&) const = default;
};

struct DataConfig {
  enum class Source { text, uniform, long_range };
  enum class LossMask { none, ragged };
  Source source = Source::text;
  std::vector<std::string> text;  // files or folders (corpus.h), absolute after reading
  std::vector<std::string>
      as_written;  // the same as the scenario names them; empty: the default corpus
  std::int64_t distance =
      0;                   // long_range: the next token depends on the one this many positions back
  double sharpness = 0.9;  // long_range: probability of the copied token
  // Which positions of a sequence the loss scores: all that predict, or the first of them, a drawn number.
  LossMask loss_mask = LossMask::none;
  bool replicated = false;  // every rank gets the sequences of rank 0
  std::int64_t packed = 1;  // documents in each sequence

  bool operator==(const DataConfig&) const = default;
};
inline constexpr std::array kSourceNames = {"text", "uniform", "long_range"};
constexpr Names names_of(DataConfig::Source /*of*/) {
  return kSourceNames;
}
inline constexpr std::array kLossMaskNames = {"none", "ragged"};
constexpr Names names_of(DataConfig::LossMask /*of*/) {
  return kLossMaskNames;
}

struct OptimizerConfig {  // AdamW
  double lr = 3e-4;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
  double max_norm = 1.0;      // clip by global L2 norm
  std::int64_t warmup = 1;    // optimiser steps of linear warm-up
  std::int64_t total = 1000;  // optimiser steps until the cosine reaches zero

  bool operator==(const OptimizerConfig&) const = default;
};

// Of cuda_graph: steps that the host runs, so that all that is made once was made before the capture.
inline constexpr std::int64_t kStepsBeforeGraph = 2;

struct TrainingConfig {
  std::int64_t steps = 1;       // optimiser steps, counted from 1
  std::int64_t batch_size = 1;  // sequences a rank and micro-batch
  std::int64_t seq_len = 0;
  std::int64_t accumulate = 1;
  Precision precision = Precision::fp32;
  DataConfig data;
  OptimizerConfig optimizer;
  bool reaches_floor = false;  // the loss shall end at the floor of its source, not only fall
  bool cuda_graph = false;     // steps are captured once and launched as one CUDA graph

  void validate(const Location& where) const;
  bool operator==(const TrainingConfig&) const = default;
};

struct ParallelConfig {
  std::int64_t ranks = 2;
  Device device = Device::cpu;
  std::string backend = "auto";  // auto, gloo, nccl
  bool static_graph = false;     // ddp.*
  bool find_unused = false;
  bool gradient_as_bucket_view = false;
  double bucket_mb = 25.0;
  std::string compress = "none";  // none, bf16: what travels between ranks
  std::vector<int>
      checkpoint_layers;  // checkpoint.*: layers computed again in the backward, ascending
  std::string checkpoint_mode = "functional";  // functional, nested
  bool checkpoint_keep_blocks = false;         // the blocks that were chosen are chosen again

  // The backend that `auto` stands for on this device.
  [[nodiscard]] std::string effective_backend() const;
  void validate(const Location& where) const;
  bool operator==(const ParallelConfig&) const = default;
};

// The documented keys, unknown ones refused; validated, errors at the line of the value. `model` may hold {use: NAME,
// ...overrides}:
// NAME.yaml of `models_folder`. Relative text paths are relative to `base_folder`. Throws: Error with file:line.
[[nodiscard]] ModelConfig read_model(const YamlNode& node, const std::string& models_folder);
[[nodiscard]] TrainingConfig read_training(const YamlNode& node, const std::string& base_folder);
// Layers of checkpoint.layers are below `n_layers`.
[[nodiscard]] ParallelConfig read_parallel(const YamlNode& node, std::int64_t n_layers);

}  // namespace nsa
