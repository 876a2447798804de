// The operation of the attention kernels with inputs and buffers of its own on the card.
#pragma once

#include <memory>
#include <vector>

#include <ATen/cuda/CUDAContext.h>

#include "nsa/kernels/branches.h"
#include "nsa/torch.h"

namespace kernels_bench {

namespace nk = nsa::kernels;
using torch::Tensor;

inline torch::TensorOptions options(torch::ScalarType type) {
  return torch::TensorOptions().device(torch::kCUDA).dtype(type);
}

// [B,S,heads,D] in memory.
struct Held {
  Held(const nk::Problem& p,
       std::int64_t heads,
       std::int64_t positions,
       std::int64_t width,
       bool random)
      : tensor(random
                   ? torch::randn({p.batch, positions, heads, width}, options(torch::kBFloat16))
                   : torch::empty({p.batch, positions, heads, width}, options(torch::kBFloat16))) {}
  [[nodiscard]] nk::MutableRows rows() const {
    return {tensor.data_ptr(), tensor.stride(0), tensor.stride(2), tensor.stride(1)};
  }
  Tensor tensor;
};

class Op {
 public:
  explicit Op(const nk::Problem& problem)
      : p(problem),
        heads(std::int64_t{p.groups} * p.heads),
        q(p, heads, p.length, p.d_k, true),
        d_o(p, heads, p.length, p.d_v, true),
        gates(torch::softmax(torch::randn({p.batch, p.length, p.groups, 3}, options(torch::kFloat)),
                             -1)
                  .to(torch::kBFloat16)) {
    for (int i = 0; i < 3; ++i) {
      k.emplace_back(p, p.groups, p.length, p.d_k, true);
      v.emplace_back(p, p.groups, p.length, p.d_v, true);
    }
  }

  [[nodiscard]] nk::Inputs inputs() const {
    nk::Inputs in;
    in.q = q.rows();
    in.k_raw = k[0].rows();
    in.v_raw = v[0].rows();
    in.k_sel = k[1].rows();
    in.v_sel = v[1].rows();
    in.k_win = k[2].rows();
    in.v_win = v[2].rows();
    in.gates = gate_rows(gates);
    return in;
  }
  static nk::MutableRows gate_rows(const Tensor& t) {
    return {t.data_ptr(), t.stride(0), t.stride(2), t.stride(1)};
  }

  // Everything above the inputs is allocated here: its sum is the operation's memory.
  void allocate(bool saves, bool backward) {
    o = std::make_unique<Held>(p, heads, p.length, p.d_v, false);
    for (auto& x : pooled) {
      x = torch::empty({p.batch, p.compressed_rows(), p.groups, p.d_k}, options(torch::kBFloat16));
    }
    for (auto& x : lse) x = torch::empty({p.batch * p.length * heads}, options(torch::kFloat));
    blocks = torch::empty({p.batch, p.length, p.groups, p.n_sel}, options(torch::kInt));
    if (saves) {
      for (auto& x : branch) x = std::make_unique<Held>(p, heads, p.length, p.d_v, false);
    }
    const auto bytes = [](std::size_t n) {
      return torch::empty({static_cast<std::int64_t>(n)}, options(torch::kByte));
    };
    // One for both passes: neither leaves anything in it for the other.
    const std::size_t forward_bytes = nk::forward_workspace(p, saves);
    workspace =
        bytes(backward ? std::max(forward_bytes, nk::backward_workspace(p)) : forward_bytes);
    if (!backward) return;
    d_q = std::make_unique<Held>(p, heads, p.length, p.d_k, false);
    for (int i = 0; i < 3; ++i) {
      d_k.emplace_back(p, p.groups, p.length, p.d_k, false);
      d_v.emplace_back(p, p.groups, p.length, p.d_v, false);
    }
    d_gates = torch::empty_like(gates);
  }

  [[nodiscard]] nk::Saved saved() const {
    nk::Saved s;
    const auto rows = [](const Tensor& t) {
      return nk::MutableRows{t.data_ptr(), t.stride(0), t.stride(2), t.stride(1)};
    };
    s.k_cmp = rows(pooled[0]);
    s.v_cmp = rows(pooled[1]);
    if (branch[0] != nullptr) {
      s.o_cmp = branch[0]->rows();
      s.o_sel = branch[1]->rows();
      s.o_win = branch[2]->rows();
    }
    s.lse_cmp = lse[0].data_ptr<float>();
    s.lse_sel = lse[1].data_ptr<float>();
    s.lse_win = lse[2].data_ptr<float>();
    s.blocks = rows(blocks);
    return s;
  }

  void forward() const {
    nk::forward(p, inputs(), saved(), o->rows(), workspace.data_ptr(), stream());
  }
  void backward() const {
    nk::Gradients g;
    g.q = d_q->rows();
    g.k_raw = d_k[0].rows();
    g.v_raw = d_v[0].rows();
    g.k_sel = d_k[1].rows();
    g.v_sel = d_v[1].rows();
    g.k_win = d_k[2].rows();
    g.v_win = d_v[2].rows();
    g.gates = gate_rows(d_gates);
    nk::backward(p, inputs(), saved(), d_o.rows(), g, workspace.data_ptr(), stream());
  }

  static nk::Stream stream() { return at::cuda::getCurrentCUDAStream().stream(); }

  nk::Problem p;
  std::int64_t heads;
  Held q, d_o;
  Tensor gates;
  std::vector<Held> k, v, d_k, d_v;  // raw, sel, win
  std::unique_ptr<Held> o, d_q;
  std::unique_ptr<Held> branch[3];
  Tensor pooled[2], lse[3], blocks, workspace, d_gates;
};

}  // namespace kernels_bench
