// What decides the mathematics of one Native Sparse Attention layer (arXiv 2502.11089), under the
// names of the golden files' `config`. A plain value; validate() before use (the oracle does).
#pragma once

#include <cstdint>

namespace oracles {

enum class Gate { group_softmax, head_sigmoid };
enum class Phi { avg, conv, mlp };
enum class Eq9 { fractional, overlap };

struct AttentionConfig {
  std::int64_t dim = 0;           // width of x and y
  std::int64_t n_heads = 0;       // query heads, H
  std::int64_t n_kv_groups = 0;   // key/value groups, G; divides n_heads
  std::int64_t d_k = 0;           // width of queries and keys; even
  std::int64_t d_v = 0;           // width of values
  std::int64_t l = 0;             // tokens of a compression window
  std::int64_t d = 0;             // its stride; divides l and l_sel
  std::int64_t l_sel = 0;         // tokens of a selection block
  std::int64_t n_sel = 0;         // blocks selected, forced ones included
  std::int64_t w = 0;             // window in tokens, the query's own included
  std::int64_t init_blocks = 1;   // forced blocks at the start
  std::int64_t local_blocks = 2;  // forced blocks ending with the current one; at least 1
  double rope_base = 10000;
  double rope_scale = 1;
  Gate gate = Gate::group_softmax;
  double gate_temp = 1;          // group_softmax only
  std::int64_t gate_hidden = 0;  // group_softmax only; 0 means max(1, d_k / 2)
  Phi phi = Phi::avg;
  Eq9 eq9 = Eq9::fractional;

  [[nodiscard]] std::int64_t heads_per_group() const { return n_heads / n_kv_groups; }
  [[nodiscard]] std::int64_t gate_width() const {
    return gate_hidden > 0 ? gate_hidden : (d_k >= 2 ? d_k / 2 : 1);
  }
  // Compressed tokens of a sequence: a last incomplete window is dropped.
  [[nodiscard]] std::int64_t compressed_count(std::int64_t length) const {
    return length < l ? 0 : (length - l) / d + 1;
  }
  // Selection blocks of a sequence, a last incomplete one included.
  [[nodiscard]] std::int64_t block_count(std::int64_t length) const {
    return (length + l_sel - 1) / l_sel;
  }
};

// Throws std::invalid_argument that names the value found and what was wanted.
void validate(const AttentionConfig& config);

}  // namespace oracles
