// One training step of m7c_125m on the CPU, in float32: forward and backward; and with clipping and AdamW. The counter
// peak_GiB is the largest resident size of the process so far: run one benchmark at a time to read it.

#include <sys/resource.h>

#include <benchmark/benchmark.h>

#include "nsa/model/nsa_lm.h"
#include "nsa/torch.h"
#include "nsa/train/data.h"
#include "nsa/train/optimizer.h"
#include "tests/model/m7c_125m.h"

namespace nsa {
namespace {

double peak_gib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / (1024.0 * 1024.0);
}

void train(benchmark::State& state, bool update) {
  torch::manual_seed(0);
  Routes routes;
  NsaLm model(testing::m7c_125m(), std::map<std::string, std::string>{}, routes);
  Optimizer optimizer(model->parameters(), OptimizerConfig{});
  DataConfig data;
  data.source = DataConfig::Source::uniform;
  const auto length = state.range(0);
  const auto source = make_data_source(data, {.batch_size = 1, .seq_len = length}, 0, 1);
  std::int64_t step = 0;
  for (auto _ : state) {
    const auto tokens_BS = source->batch(++step, 0, 0, 1);
    model->zero_grad();
    next_token_loss(model->forward(tokens_BS), tokens_BS).backward();
    if (update) benchmark::DoNotOptimize(optimizer.step());
  }
  state.counters["tokens_per_s"] =
      benchmark::Counter(static_cast<double>(length * step), benchmark::Counter::kIsRate);
  state.counters["peak_GiB"] = peak_gib();
}

void forward_backward(benchmark::State& state) {
  train(state, false);
}
void training_step(benchmark::State& state) {
  train(state, true);
}

BENCHMARK(forward_backward)->Arg(512)->Arg(2048)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(training_step)->Arg(512)->Arg(2048)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace nsa
