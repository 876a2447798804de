// The attention kernels on a card beside LibTorch's dense attention (flash and cuDNN), in one process and on inputs of one
// distribution. Time is the median of the device's own; counters: ms, TFLOP (counted), its rate, memory above the inputs.
//   paper: 64 query heads in 4 groups, width 128; small: 12 in 2, width 64; blocks 32/16/64, 16 chosen, window 512; bf16.
//   NSA_BENCH_FAMILY=mma|wgmma forces a family of kernels.
#include <algorithm>
#include <cstdlib>
#include <functional>

#include <ATen/Context.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <torch/csrc/autograd/autograd.h>

#include <benchmark/benchmark.h>

#include "tests/bench/kernels_operation.h"

namespace {

using namespace kernels_bench;

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
  state.counters["workspace MiB"] = mib(op.workspace.nbytes());
  state.counters["inputs MiB"] = mib(inputs - before_inputs);
}

Tensor bytes_of(std::size_t n) {
  return torch::empty({static_cast<std::int64_t>(n)}, options(torch::kByte));
}
nk::MutableRows rows_of(const Tensor& t) {
  return {t.data_ptr(), t.stride(0), t.stride(2), t.stride(1)};
}

void pool(benchmark::State& state, const nk::Problem& p) {
  Op op(p);
  op.allocate(true, true);
  const auto saved = op.saved();
  const auto in = op.inputs();
  const double ms = median_ms([&] {
    nk::compress(p, nk::Pooled::keys, in.k_raw, nullptr, nullptr, saved.k_cmp, Op::stream());
    nk::compress(p, nk::Pooled::values, in.v_raw, nullptr, nullptr, saved.v_cmp, Op::stream());
  });
  report(state, ms, 0);
}

void choose(benchmark::State& state, const nk::Problem& p) {
  Op op(p);
  op.allocate(true, true);
  op.forward();
  const auto saved = op.saved();
  const Tensor workspace = bytes_of(nk::choose_workspace(p));
  const double ms = median_ms([&] {
    nk::choose(p,
               op.inputs().q,
               saved.k_cmp,
               saved.lse_cmp,
               nullptr,
               saved.blocks,
               workspace.data_ptr(),
               Op::stream());
  });
  report(state, ms, Tflop(p).scores);
}

void attend(benchmark::State& state, const nk::Problem& p, nk::Branch branch, bool backward) {
  Op op(p);
  op.allocate(true, true);
  op.forward();
  const auto saved = op.saved();
  const auto in = op.inputs();
  const Tflop tflop(p);
  const int index = static_cast<int>(branch);
  const nk::AttendInputs inputs[3] = {{in.q, saved.k_cmp, saved.v_cmp, {}, nullptr},
                                      {in.q, in.k_sel, in.v_sel, saved.blocks, nullptr},
                                      {in.q, in.k_win, in.v_win, {}, nullptr}};
  float* const sums[3] = {saved.lse_cmp, saved.lse_sel, saved.lse_win};
  const double work[3] = {tflop.compressed, tflop.selected, tflop.window};
  const auto o = op.branch[index]->rows();
  const Tensor workspace = bytes_of(backward ? nk::attend_backward_workspace(p, branch)
                                             : nk::attend_workspace(p, branch));
  const Tensor d_k = torch::empty_like(index == 0 ? op.pooled[0] : op.k[index].tensor);
  const Tensor d_v = torch::empty_like(d_k);
  const double ms = median_ms([&] {
    if (!backward) {
      nk::attend(p, branch, inputs[index], o, sums[index], workspace.data_ptr(), Op::stream());
      return;
    }
    nk::attend_backward(p,
                        branch,
                        inputs[index],
                        o,
                        sums[index],
                        op.d_o.rows(),
                        op.d_q->rows(),
                        rows_of(d_k),
                        rows_of(d_v),
                        workspace.data_ptr(),
                        Op::stream());
  });
  report(state, ms, (backward ? 2.5 : 1.0) * work[index]);
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
  const std::pair<const char*, nk::Branch> branches[] = {{"compressed", nk::Branch::compressed},
                                                         {"selected", nk::Branch::selected},
                                                         {"window", nk::Branch::window}};
  for (const auto& [name, branch] : branches) {
    const nk::Branch which = branch;
    add(row + name + "/forward", [=](auto& s) { attend(s, p, which, false); });
    add(row + name + "/backward", [=](auto& s) { attend(s, p, which, true); });
  }
  add(row + "choose", [=](auto& s) { choose(s, p); });
  add(row + "pool", [=](auto& s) { pool(s, p); });
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
