// The attention of Native Sparse Attention between the projections, as CUDA kernels: pooling of keys and values,
// compressed attention, scores and choice of blocks, selected attention, window attention, gated sum; forward and
// backward. This header: what a problem is, and the whole operation. branches.h: each step alone.
//
// Shape letters: B sequences, S queries of a sequence, G groups, h heads of a group (H = G*h, head g*h+i), D width,
// C compressed tokens, N selection blocks, n blocks chosen. T counts the queries of all sequences (b*S + t, or the packed
// position where lengths vary).
//
// Stated arithmetic. Inputs are bf16 or fp16; products of inputs are summed in float32; softmax, scores and the gated sum
// are float32. Rounded to the element type before a product: probabilities (forward, dv), the gradient of the logits (dq,
// dk). The softmax's denominator is summed from unrounded probabilities. Each output is rounded once: o; dq summed over the
// three branches; dk and dv of a branch; k_cmp and v_cmp. The parts of the selected branch (output and dq of one block for
// one row) wait in memory as integers times the row's largest value / the largest integer: of 12 bits in `forward` and `backward`
// where elements are bf16, else of 16 (common/part.h says why). So do, with 16 bits, the forced blocks' share of its output and
// the share of dq that has no parts.
// Sums are taken in an order that depends on shapes alone: same inputs, same bits.
//
// All functions launch on `stream`, wait for nothing, allocate nothing and can be captured in a CUDA graph. They throw
// std::invalid_argument where an argument breaks its contract and std::runtime_error where a launch fails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

struct CUstream_st;

namespace nsa::kernels {

using Stream = CUstream_st*;

enum class Element { bf16, fp16 };
// `caller`: the caller has pooled, by a law of its own.
enum class Phi { avg, conv, caller };
enum class Overlap {
  fractional,
  per_stride
};  // of a compressed token with a block: divided by l, or by d
enum class GateForm { per_group, per_head };  // gates [B,G,S,3] or [B,H,S,3]
enum class GateType { element, float32 };
enum class Family { automatic, mma, wgmma };  // mma: any card from sm_80 on; wgmma: sm_90a

struct Problem {
  Element element = Element::bf16;
  std::int64_t batch = 1;   // sequences
  std::int64_t length = 0;  // queries of a sequence; of the longest one where lengths vary
  // Lengths vary: sequences lie one after the other in `tokens` positions, as cu_seqlens says.
  bool varlen = false;
  std::int64_t tokens = 0;  // varlen only
  // Position of the first query; keys are all positions before the last query's end. Forward only; 0 in varlen.
  std::int64_t first = 0;
  int groups = 0;
  int heads = 0;  // of a group
  int d_k = 0;
  int d_v = 0;
  int l = 32;      // tokens of a compression window
  int d = 16;      // its stride
  int l_sel = 64;  // tokens of a selection block
  int n_sel = 16;  // blocks chosen, forced ones included
  int w = 512;     // window in tokens, the query's own included
  int init_blocks = 1;
  int local_blocks = 2;
  Phi phi = Phi::avg;
  Overlap overlap = Overlap::fractional;
  GateForm gate_form = GateForm::per_group;
  GateType gate_type = GateType::element;
  Family family = Family::automatic;
  // Aim for the buffers whose size follows a chunk of queries, of a forward pass that saves nothing; up to four times as much where
  // the lists of a chunk would be short, and four times that in training. Smaller costs time, never bits of the forward pass.
  std::size_t chunk_bytes = std::size_t{128} << 20;
  // One thread block takes a tile of rows through the dense branches of the forward pass one after the other where there are that
  // many tiles; with fewer the branches are blocks of their own, so that the card is full. Never changes bits.
  std::int64_t least_joined_tiles = 2048;

  [[nodiscard]] std::int64_t all_tokens() const { return varlen ? tokens : batch * length; }
  // Rows of k_cmp and v_cmp of one sequence, or of all of them in varlen: the compressed tokens of sequence b begin at
  // row cu_seqlens[b] / d there, and rows between two sequences are not written.
  [[nodiscard]] std::int64_t compressed_rows() const;
  [[nodiscard]] std::int64_t block_count() const;  // N of the longest sequence
};

// Why there is no kernel for this problem on a card of this compute capability (90 for 9.0); "" where there is one.
[[nodiscard]] std::string refusal(const Problem& problem, int compute_capability);
// What Family::automatic is on a card: for the record of what ran.
[[nodiscard]] Family chosen_family(const Problem& problem, int compute_capability);

// A tensor [B, heads, S, D] in somebody else's device memory: unit stride in D, other strides in elements. In varlen
// `batch` is not used and `position` counts packed positions. For element tensors: data and strides divisible by 16 bytes.
struct Rows {
  const void* data = nullptr;
  std::int64_t batch = 0;
  std::int64_t head = 0;
  std::int64_t position = 0;
};
struct MutableRows {
  void* data = nullptr;
  std::int64_t batch = 0;
  std::int64_t head = 0;
  std::int64_t position = 0;

  operator Rows() const {
    return {data, batch, head, position};
  }  // NOLINT(google-explicit-constructor)
};

struct Inputs {
  Rows q;  // [B,H,S,d_k], rotated
  Rows k_raw,
      v_raw;  // [B,G,first+S,d_k], [.., d_v]: keys (rotated) and values before pooling; phi caller: not read
  Rows k_sel, v_sel;             // [B,G,first+S,.]
  Rows k_win, v_win;             // [B,G,first+S,.]
  Rows gates;                    // [B,G|H,S,3] of cmp, sel, win; any strides
  const void* k_conv = nullptr;  // phi conv: weights [d_k,l], [d_v,l], element type
  const void* v_conv = nullptr;
  const std::int32_t* cu_seqlens = nullptr;  // varlen: [B+1], from 0 to tokens, on the device
};

// What the forward pass leaves for the backward pass. The caller owns the memory.
struct Saved {
  MutableRows k_cmp, v_cmp;  // [B,G,C,.], C = compressed_rows(); phi caller: read, not written
  MutableRows o_cmp, o_sel, o_win;  // [B,H,S,d_v]; may lack data where no backward follows
  float* lse_cmp =
      nullptr;  // [G,T,h] natural logarithm of the softmax's denominator; -inf without keys
  float* lse_sel = nullptr;
  float* lse_win = nullptr;
  MutableRows blocks;  // int32 [B,G,S,n]: ascending, then -1
};

// All but `stream` and the sizes are device pointers. Workspaces are aligned to 256 bytes.
[[nodiscard]] std::size_t forward_workspace(const Problem& problem, bool saves_outputs);
void forward(const Problem& problem,
             const Inputs& in,
             const Saved& saved,
             const MutableRows& o,  // [B,H,S,d_v]
             void* workspace,
             Stream stream);

struct Gradients {
  MutableRows q;
  MutableRows k_raw, v_raw;  // phi caller: of k_cmp and v_cmp, [B,G,C,.]
  MutableRows k_sel, v_sel;
  MutableRows k_win, v_win;
  MutableRows gates;        // of the gates' type
  float* k_conv = nullptr;  // phi conv: [d_k,l], [d_v,l], float32
  float* v_conv = nullptr;
};

[[nodiscard]] std::size_t backward_workspace(const Problem& problem);
void backward(const Problem& problem,
              const Inputs& in,
              const Saved& saved,
              const Rows& d_o,  // [B,H,S,d_v]
              const Gradients& gradients,
              void* workspace,
              Stream stream);

}  // namespace nsa::kernels
