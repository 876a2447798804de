// Where the time of a training step goes on a card: kernels by name with their share of the step, the share in which no kernel
// runs, tokens per second and the largest memory.
//   step_profile BATCH LENGTH SEAM=IMPLEMENTATION...
// The model is m7c_125m's shape in bf16 with masters; random tokens. Three steps warm up, the next ten are timed, two more are
// traced.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <torch/csrc/autograd/profiler_kineto.h>
#include <torch/cuda.h>

#include "harness/worker/kernel_trace.h"
#include "nsa/model/nsa_lm.h"
#include "nsa/train/optimizer.h"

namespace {

using torch::autograd::profiler::KinetoEvent;
using torch::profiler::impl::ProfilerConfig;
using torch::profiler::impl::ProfilerState;

constexpr int kWarmUp = 3;
constexpr int kTimed = 10;
constexpr int kTraced = 2;

struct Step {
  nsa::NsaLm& model;
  nsa::Optimizer& optimizer;
  torch::Tensor tokens_BS;

  void operator()() {
    nsa::next_token_loss(model->forward(tokens_BS), tokens_BS).backward();
    optimizer.step();
    for (auto& parameter : model->parameters()) parameter.mutable_grad().reset();
  }
};

double seconds_of(const std::function<void()>& work) {
  torch::cuda::synchronize();
  const auto begin = std::chrono::steady_clock::now();
  work();
  torch::cuda::synchronize();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

struct Share {
  std::string name;
  double ms = 0.0;
  int runs = 0;
};

void trace(Step& step) {
  const std::set<torch::profiler::impl::ActivityType> activities = {
      torch::profiler::impl::ActivityType::CUDA};
  const ProfilerConfig config(ProfilerState::KINETO);
  torch::cuda::synchronize();
  torch::autograd::profiler::prepareProfiler(config, activities);
  torch::autograd::profiler::enableProfiler(config, activities);
  for (int i = 0; i < kTraced; ++i) step();
  torch::cuda::synchronize();
  const auto result = torch::autograd::profiler::disableProfiler();
  std::map<std::string, Share> shares;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> busy;
  for (const KinetoEvent& event : result->events()) {
    if (event.deviceType() != c10::DeviceType::CUDA) continue;
    std::string name = event.name();
    if (name.find("at::native") != std::string::npos) {
      name = name.substr(0, 150);  // the functor tells what it is
    } else {
      name = harness::kernel_name(name);
    }
    Share& share = shares[name];
    share.name = name;
    share.ms += static_cast<double>(event.durationNs()) * 1e-6 / kTraced;
    ++share.runs;
    busy.emplace_back(event.startNs(), event.endNs());
  }
  std::sort(busy.begin(), busy.end());
  double covered = 0.0;
  std::uint64_t end = 0;
  for (const auto& [from, to] : busy) {
    if (to > end) covered += static_cast<double>(to - std::max(from, end)) * 1e-6;
    end = std::max(end, to);
  }
  const double whole = static_cast<double>(end - busy.front().first) * 1e-6;
  std::printf("traced step %.2f ms, no kernel in %.1f %% of it\n",
              whole / kTraced,
              100 * (1 - covered / whole));
  std::vector<Share> sorted;
  for (const auto& [name, share] : shares) sorted.push_back(share);
  std::sort(
      sorted.begin(), sorted.end(), [](const Share& a, const Share& b) { return a.ms > b.ms; });
  for (std::size_t i = 0; i < std::min<std::size_t>(sorted.size(), 45); ++i) {
    const Share& share = sorted[i];
    std::printf("%8.3f ms %5.1f %% %5d  %s\n",
                share.ms,
                100 * share.ms * kTraced / whole,
                share.runs / kTraced,
                share.name.c_str());
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) {
    std::fprintf(stderr, "usage: step_profile BATCH LENGTH SEAM=IMPLEMENTATION...\n");
    return 3;
  }
  const std::int64_t batch = std::atoll(arguments[1]);
  const std::int64_t length = std::atoll(arguments[2]);
  std::map<std::string, std::string> route;
  for (int i = 3; i < count; ++i) {
    const std::string pair = arguments[i];
    route[pair.substr(0, pair.find('='))] = pair.substr(pair.find('=') + 1);
  }
  nsa::ModelConfig config;
  config.dim = 768;
  config.n_layers = 12;
  config.n_heads = 12;
  config.n_kv_groups = 2;
  config.d_k = config.d_v = 64;
  config.l = 32;
  config.d = 16;
  config.l_sel = 64;
  config.n_sel = 16;
  config.w = 512;
  nsa::Routes routes;
  nsa::NsaLm model(config, route, routes);
  model->to(torch::kCUDA, torch::kBFloat16);
  nsa::Optimizer optimizer(model->parameters(),
                           {},
                           nsa::Precision::bf16,
                           route.count("optimizer") > 0 ? route["optimizer"] : "reference");
  Step step{model,
            optimizer,
            torch::randint(config.vocab_size,
                           {batch, length},
                           torch::TensorOptions().dtype(torch::kLong).device(torch::kCUDA))};
  for (int i = 0; i < kWarmUp; ++i) step();
  const double seconds = seconds_of([&] {
    for (int i = 0; i < kTimed; ++i) step();
  });
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(0);
  const auto peak = stats.allocated_bytes[0].peak;
  std::printf("%s %lld x %lld: %.2f ms, %.0f tokens/s, %.2f GiB allocated at most\n",
              at::cuda::getCurrentDeviceProperties()->name,
              static_cast<long long>(batch),
              static_cast<long long>(length),
              seconds / kTimed * 1e3,
              static_cast<double>(batch * length * kTimed) / seconds,
              static_cast<double>(peak) / (1024.0 * 1024.0 * 1024.0));
  trace(step);
  return 0;
}
