// The attention kernels on a card beside LibTorch's dense attention (flash and cuDNN), in one process and on inputs of one
// distribution. Time is the median of the device's own; counters: ms, TFLOP (counted), its rate, memory above the inputs.
//   paper: 64 query heads in 4 groups, width 128; small: 12 in 2, width 64; blocks 32/16/64, 16 chosen, window 512; bf16.
//   NSA_BENCH_FAMILY=mma|wgmma forces a family of kernels.
#include <algorithm>
#include <cstdlib>
#include <functional>

#include <ATen/Context.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <torch/csrc/autograd/autograd.h>

#include <benchmark/benchmark.h>

#include "nsa/kernels/branches.h"
#include "nsa/torch.h"

namespace {

namespace nk = nsa::kernels;
using torch::Tensor;

constexpr int kRounds = 21;
constexpr double kBudgetMs = 600;  // of one measurement

struct Shape {
  const char* name;
  int groups, heads, width;
};
constexpr Shape kPaper{"paper", 4, 16, 128};
constexpr Shape kSmall{"small", 2, 6, 64};

nk::Problem problem_of(const Shape& shape, std::int64_t batch, std::int64_t length) {
  nk::Problem p;
  p.batch = batch;
  p.length = length;
  p.groups = shape.groups;
  p.heads = shape.heads;
  p.d_k = p.d_v = shape.width;
  const char* family = std::getenv("NSA_BENCH_FAMILY");
  if (family != nullptr)
    p.family = std::string(family) == "mma" ? nk::Family::mma : nk::Family::wgmma;
  return p;
}

torch::TensorOptions options(torch::ScalarType type) {
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
    workspace = bytes(nk::forward_workspace(p, saves));
    if (!backward) return;
    backspace = bytes(nk::backward_workspace(p));
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
    nk::backward(p, inputs(), saved(), d_o.rows(), g, backspace.data_ptr(), stream());
  }

  static nk::Stream stream() { return at::cuda::getCurrentCUDAStream().stream(); }

  nk::Problem p;
  std::int64_t heads;
  Held q, d_o;
  Tensor gates;
  std::vector<Held> k, v, d_k, d_v;  // raw, sel, win
  std::unique_ptr<Held> o, d_q;
  std::unique_ptr<Held> branch[3];
  Tensor pooled[2], lse[3], blocks, workspace, backspace, d_gates;
};

// Median in ms of what `work` takes on the device.
double median_ms(const std::function<void()>& work) {
  at::cuda::CUDAEvent first(cudaEventDefault);
  at::cuda::CUDAEvent last(cudaEventDefault);
  work();
  first.record();
  work();
  last.record();
  last.synchronize();
  const double once = first.elapsed_time(last);
  const int rounds = std::clamp(static_cast<int>(kBudgetMs / std::max(once, 0.01)), 3, kRounds);
  std::vector<std::pair<at::cuda::CUDAEvent, at::cuda::CUDAEvent>> events;
  for (int i = 0; i < rounds; ++i) {
    auto& pair = events.emplace_back(at::cuda::CUDAEvent(cudaEventDefault),
                                     at::cuda::CUDAEvent(cudaEventDefault));
    pair.first.record();
    work();
    pair.second.record();
  }
  at::cuda::getCurrentCUDAStream().synchronize();
  std::vector<double> ms;
  for (auto& pair : events) ms.push_back(pair.first.elapsed_time(pair.second));
  std::nth_element(ms.begin(), ms.begin() + ms.size() / 2, ms.end());
  return ms[ms.size() / 2];
}

// Multiplications and additions of one product of queries with all keys they see, over all heads: in TFLOP, width w.
double product_tflop(const nk::Problem& p, double keys_per_row, int width) {
  const double rows = static_cast<double>(p.batch) * p.length * p.groups * p.heads;
  return 2e-12 * rows * keys_per_row * width;
}
double compressed_keys(const nk::Problem& p) {
  return static_cast<double>(p.compressed_rows()) / 2;
}
double window_keys(const nk::Problem& p) {
  double sum = 0;
  for (std::int64_t t = 0; t < p.length; ++t)
    sum += static_cast<double>(std::min<std::int64_t>(t + 1, p.w));
  return sum / static_cast<double>(p.length);
}
double selected_keys(const nk::Problem& p) {
  double sum = 0;
  for (std::int64_t t = 0; t < p.length; ++t) {
    sum += static_cast<double>(
        std::min<std::int64_t>(t + 1, std::int64_t{p.n_sel} * p.l_sel - p.l_sel / 2));
  }
  return sum / static_cast<double>(p.length);
}

struct Tflop {
  explicit Tflop(const nk::Problem& p)
      : compressed(2 * product_tflop(p, compressed_keys(p), p.d_k)),
        scores(product_tflop(p, compressed_keys(p), p.d_k)),
        selected(2 * product_tflop(p, selected_keys(p), p.d_k)),
        window(2 * product_tflop(p, window_keys(p), p.d_k)) {}
  [[nodiscard]] double forward() const { return compressed + scores + selected + window; }
  [[nodiscard]] double backward() const { return 2.5 * (compressed + selected + window); }
  double compressed, scores, selected, window;
};

void report(benchmark::State& state, double ms, double tflop) {
  for (auto _ : state) state.SetIterationTime(ms * 1e-3);
  state.counters["ms"] = ms;
  state.counters["TFLOP"] = tflop;
  state.counters["TFLOP/s"] = tflop / ms * 1e3;
}

double mib(std::int64_t bytes) {
  return static_cast<double>(bytes) / (1024.0 * 1024.0);
}
std::int64_t held_bytes() {
  namespace stats = c10::CachingAllocator;
  return c10::cuda::CUDACachingAllocator::getDeviceStats(0)
      .allocated_bytes[static_cast<std::size_t>(stats::StatType::AGGREGATE)]
      .current;
}

void whole(benchmark::State& state, const nk::Problem& p, bool saves, bool backward) {
  const auto before_inputs = held_bytes();
  Op op(p);
  const auto inputs = held_bytes();
  op.allocate(saves, backward);
  const auto all = held_bytes();
  const double ms = median_ms([&] {
    op.forward();
    if (backward) op.backward();
  });
  const Tflop tflop(p);
  report(state, ms, tflop.forward() + (backward ? tflop.backward() : 0));
  state.counters["MiB"] = mib(all - inputs);
  state.counters["workspace MiB"] =
      mib(op.workspace.nbytes() + (backward ? op.backspace.nbytes() : 0));
  state.counters["inputs MiB"] = mib(inputs - before_inputs);
}

// One branch or step, forward or backward.
void step(benchmark::State& state, const nk::Problem& p, const std::string& what, bool backward) {
  Op op(p);
  op.allocate(true, true);
  op.forward();
  const auto saved = op.saved();
  const auto in = op.inputs();
  const Tflop tflop(p);
  const auto bytes = [](std::size_t n) {
    return torch::empty({static_cast<std::int64_t>(n)}, options(torch::kByte));
  };
  const int index = what == "compressed" ? 0 : (what == "selected" ? 1 : 2);
  const auto branch = static_cast<nk::Branch>(index);
  const nk::AttendInputs branches[3] = {{in.q, saved.k_cmp, saved.v_cmp, {}, nullptr},
                                        {in.q, in.k_sel, in.v_sel, saved.blocks, nullptr},
                                        {in.q, in.k_win, in.v_win, {}, nullptr}};
  float* const sums[3] = {saved.lse_cmp, saved.lse_sel, saved.lse_win};
  const double work[3] = {tflop.compressed, tflop.selected, tflop.window};
  if (what == "pool") {
    report(state,
           median_ms([&] {
             nk::compress(
                 p, nk::Pooled::keys, in.k_raw, nullptr, nullptr, saved.k_cmp, Op::stream());
             nk::compress(
                 p, nk::Pooled::values, in.v_raw, nullptr, nullptr, saved.v_cmp, Op::stream());
           }),
           0);
    return;
  }
  if (what == "choose") {
    const Tensor workspace = bytes(nk::choose_workspace(p));
    report(state,
           median_ms([&] {
             nk::choose(p,
                        in.q,
                        saved.k_cmp,
                        saved.lse_cmp,
                        nullptr,
                        saved.blocks,
                        workspace.data_ptr(),
                        Op::stream());
           }),
           tflop.scores);
    return;
  }
  const nk::MutableRows o = op.branch[index]->rows();
  if (!backward) {
    const Tensor workspace = bytes(nk::attend_workspace(p, branch));
    report(state,
           median_ms([&] {
             nk::attend(
                 p, branch, branches[index], o, sums[index], workspace.data_ptr(), Op::stream());
           }),
           work[index]);
    return;
  }
  const Tensor workspace = bytes(nk::attend_backward_workspace(p, branch));
  Tensor d_k = torch::empty_like(index == 0 ? op.pooled[0] : op.k[index].tensor);
  Tensor d_v = torch::empty_like(d_k);
  const auto rows = [](const Tensor& t) {
    return nk::MutableRows{t.data_ptr(), t.stride(0), t.stride(2), t.stride(1)};
  };
  report(state,
         median_ms([&] {
           nk::attend_backward(p,
                               branch,
                               branches[index],
                               o,
                               sums[index],
                               op.d_o.rows(),
                               op.d_q->rows(),
                               rows(d_k),
                               rows(d_v),
                               workspace.data_ptr(),
                               Op::stream());
         }),
         2.5 * work[index]);
}

void dense(benchmark::State& state, const nk::Problem& p, bool cudnn, bool backward) {
  auto& context = at::globalContext();
  context.setSDPUseFlash(!cudnn);
  context.setSDPUseCuDNN(cudnn);
  context.setSDPUseMemEfficient(false);
  context.setSDPUseMath(false);
  const std::int64_t heads = std::int64_t{p.groups} * p.heads;
  const auto make = [&] {
    return torch::randn({p.batch, heads, p.length, p.d_k}, options(torch::kBFloat16))
        .requires_grad_(backward);
  };
  const Tensor q = make(), k = make(), v = make();
  const Tensor d_o = torch::randn_like(q);
  try {
    const double ms = median_ms([&] {
      torch::AutoGradMode mode(backward);
      const Tensor o = at::scaled_dot_product_attention(q, k, v, {}, 0.0, /*is_causal=*/true);
      if (backward) torch::autograd::grad({o}, {q, k, v}, {d_o});
    });
    const double tflop = 2 * product_tflop(p, static_cast<double>(p.length) / 2, p.d_k);
    report(state, ms, backward ? 3.5 * tflop : tflop);
  } catch (const std::exception& error) {
    state.SkipWithError(std::string(error.what()).substr(0, 200).c_str());
  }
}

using Run = std::function<void(benchmark::State&)>;
void add(const std::string& name, const Run& run) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [run](benchmark::State& state) {
                                 run(state);
                                 c10::cuda::CUDACachingAllocator::emptyCache();
                               })
      ->UseManualTime()
      ->Iterations(1)
      ->Unit(benchmark::kMillisecond);
}

void add_row(const Shape& shape, std::int64_t batch, std::int64_t length) {
  const nk::Problem p = problem_of(shape, batch, length);
  const std::string row =
      std::string(shape.name) + "/" + std::to_string(batch) + "x" + std::to_string(length) + "/";
  add(row + "op/forward", [=](auto& s) { whole(s, p, false, false); });
  add(row + "op/forward_saving", [=](auto& s) { whole(s, p, true, false); });
  add(row + "op/forward_backward", [=](auto& s) { whole(s, p, true, true); });
  for (const char* name : {"compressed", "selected", "window"}) {
    add(row + name + "/forward", [=](auto& s) { step(s, p, name, false); });
    add(row + name + "/backward", [=](auto& s) { step(s, p, name, true); });
  }
  add(row + "choose", [=](auto& s) { step(s, p, "choose", false); });
  add(row + "pool", [=](auto& s) { step(s, p, "pool", false); });
  for (const bool cudnn : {false, true}) {
    const std::string name = row + (cudnn ? "dense_cudnn/" : "dense_flash/");
    add(name + "forward", [=](auto& s) { dense(s, p, cudnn, false); });
    add(name + "forward_backward", [=](auto& s) { dense(s, p, cudnn, true); });
  }
}

}  // namespace

int main(int argc, char** argv) {
  for (const std::int64_t length : {2048, 8192, 32768, 65536}) add_row(kSmall, 1, length);
  add_row(kSmall, 16, 2048);
  add_row(kSmall, 4, 8192);
  for (const std::int64_t length : {8192, 32768, 65536}) add_row(kPaper, 1, length);
  benchmark::Initialize(&argc, argv);
  torch::empty({1}, options(torch::kFloat));  // starts CUDA
  benchmark::AddCustomContext("card", at::cuda::getCurrentDeviceProperties()->name);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
