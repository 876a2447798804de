// One recorded attention layer of one process and step, as the oracle wants it: configuration, input, weights, the blocks that
// were chosen, what came out and the gradients. Tensors are copied into doubles, exactly. Of a long sequence only a sample of
// the query rows is taken; keys, values, the choice of blocks and its scores are always those of the whole sequence.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/checks/artefacts.h"
#include "harness/scenario/scenario.h"
#include "nsa/base/config.h"
#include "oracles/attention/attention.h"
#include "oracles/attention/score_bound.h"
#include "oracles/attention/stages.h"

namespace harness::checks {

[[nodiscard]] oracles::AttentionConfig oracle_config(const nsa::ModelConfig& model);

struct ReadOptions {
  std::optional<std::array<double, 3>> gate_override;
  bool forward_only = false;  // the kind computes no gradients
  bool from_input = true;  // the whole layer is judged from its input too, not by its stages alone
  std::uint64_t seed = 0;  // of the sample
  std::int64_t most_rows =
      4096;  // (batch, row) pairs that are judged one and all; beyond, a sample
  // Which branches multiply narrow numbers (docs/arithmetic.md); nothing where what ran has not said what it rounds.
  std::optional<std::array<bool, 3>> narrow_products = std::array<bool, 3>{};
};

struct LayerRecord {
  oracles::AttentionConfig config;
  std::int64_t batch = 0;
  std::int64_t length = 0;
  std::vector<std::int64_t> rows;  // query positions that are judged, ascending: R of them
  double unit_roundoff = 0.0;      // of the lowest dtype on record
  oracles::Arithmetic arithmetic = oracles::Arithmetic::float32();
  // What a computation in the type on record rounds, where that type is narrow and what ran has said it.
  std::optional<oracles::Kept> kept;
  oracles::Tensor x;  // [B,S,E]
  oracles::Weights weights;
  std::optional<std::array<double, 3>> gate_override;
  oracles::IntTensor blocks;          // [B,G,S,n]
  std::optional<oracles::Tensor> dy;  // [B,R,E]
  bool forward_only = false;
  bool from_input = true;
  std::set<std::string> given;  // tensors that are inputs: not results to be judged
  bool dy_elsewhere = false;    // dy is not zero in all rows that are not judged
  // Everything else that is floating, by name: q [B,G,h,R,D], o_* [B,G,h,R,V], gate [B,G,R,3] or [B,G,h,R,3], y [B,R,E],
  // k_*, v_* [B,G,S|C,D], p_grp [B,G,S,N], dx [B,S,E], g.w.*
  std::map<std::string, oracles::Tensor> tensors;

  [[nodiscard]] bool has(const std::string& name) const { return tensors.count(name) > 0; }
  [[nodiscard]] const oracles::Tensor& at(const std::string& name) const {
    return tensors.at(name);
  }
  [[nodiscard]] std::int64_t row_count() const { return static_cast<std::int64_t>(rows.size()); }
  [[nodiscard]] bool is_sample() const { return row_count() < length; }
  [[nodiscard]] std::int64_t lists() const { return batch * config.n_kv_groups; }
};

// Throws: nsa::Error where a tensor is missing, or not of the shape that the configuration demands.
[[nodiscard]] LayerRecord read_layer(const nsa::SafetensorsFile& file,
                                     const nsa::ModelConfig& model,
                                     const ReadOptions& options = {});

// What a record of packed documents (packed_record.h) has in common: sizes, type, weights and their gradients. No other tensor.
[[nodiscard]] LayerRecord read_shared(const nsa::SafetensorsFile& file,
                                      const nsa::ModelConfig& model,
                                      const ReadOptions& options);

// A query of one group.
struct BadRow {
  std::int64_t batch = 0;
  std::int64_t group = 0;
  std::int64_t row = 0;  // position
  auto operator<=>(const BadRow&) const = default;
};

// Rows of the choice that cannot be attended to as they stand.
struct UnusableRows {
  std::vector<BadRow>
      out_of_range;  // a block after the query's own, outside of the sequence, or below -1
  std::vector<BadRow> malformed;  // else: not ascending, a block twice, something after -1
};
[[nodiscard]] UnusableRows unusable_rows(const LayerRecord& record);

// The choice at the judged rows, [B,G,R,n], every row a list that can be attended to: unusable rows lose what is no block,
// and are told apart by unusable_rows().
[[nodiscard]] oracles::IntTensor usable_blocks(const LayerRecord& record);

// The oracle at the judged rows and the recorded choice. REQUIRES: the choice was recorded.
[[nodiscard]] oracles::AttentionOptions options_of(const LayerRecord& record);
// The stages that follow get what was recorded of the earlier ones. Refers to the record.
void give_recorded(const LayerRecord& record, oracles::Stages& stages);

// Keys and values of tokens are on record where a check asked for them.
[[nodiscard]] constexpr bool is_optional(const oracles::StageRow& row) {
  return row.rows == oracles::RowsOf::tokens;
}

// Rows of [lists, S, width] at the judged rows.
template <typename T>
[[nodiscard]] oracles::Array<T> at_rows(const oracles::Array<T>& all,
                                        std::int64_t length,
                                        std::int64_t width,
                                        const std::vector<std::int64_t>& rows) {
  oracles::Array<T> kept;
  const auto lists =
      static_cast<std::int64_t>(all.data.size()) / std::max<std::int64_t>(1, length * width);
  kept.data.reserve(
      static_cast<std::size_t>(lists * static_cast<std::int64_t>(rows.size()) * width));
  for (std::int64_t list = 0; list < lists; ++list) {
    for (const std::int64_t row : rows) {
      const auto begin = all.data.begin() + (list * length + row) * width;
      kept.data.insert(kept.data.end(), begin, begin + width);
    }
  }
  return kept;
}

}  // namespace harness::checks
