// The oracle at the m7c_125m shape: a layer forward, forward with all gradients, and the same for
// some of the rows; one optimiser step; every linear map of a training step by random projections; all
// initial values. And a whole training step of a toy. A busy machine only adds: read the smallest of the
// repetitions ("_min").
#include <algorithm>
#include <map>
#include <random>
#include <string>

#include <benchmark/benchmark.h>

#include "oracles/attention/attention.h"
#include "oracles/model/mlp_stage.h"
#include "oracles/products.h"
#include "oracles/training/initial_values.h"
#include "oracles/training/judge_adamw.h"
#include "oracles/training/norms.h"
#include "oracles/training/run.h"

namespace oracles {
namespace {

AttentionConfig m7c_config() {
  AttentionConfig config;
  config.dim = 768;
  config.n_heads = 12;
  config.n_kv_groups = 2;
  config.d_k = 64;
  config.d_v = 64;
  config.l = 32;
  config.d = 16;
  config.l_sel = 64;
  config.n_sel = 16;
  config.w = 512;
  return config;
}

Tensor random_tensor(const Shape& shape, double scale, std::mt19937_64& random) {
  Tensor tensor = zeros(shape);
  std::normal_distribution<double> normal(0, scale);
  for (double& value : tensor.data) {
    value = normal(random);
  }
  return tensor;
}

struct Inputs {
  AttentionConfig config = m7c_config();
  Weights weights;
  Tensor x;
  Tensor dy;

  explicit Inputs(std::int64_t length) {
    std::mt19937_64 random(1);
    for (const auto& [name, shape] : weight_shapes(config)) {
      weights[name] = random_tensor(shape, 0.04, random);
    }
    x = random_tensor({1, length, config.dim}, 1, random);
    dy = random_tensor(x.shape, 1, random);
  }
};

double smallest(const std::vector<double>& times) {
  return *std::min_element(times.begin(), times.end());
}

void repeated(benchmark::internal::Benchmark* bench) {
  bench->Unit(benchmark::kMillisecond)->UseRealTime()->Iterations(1)->Repetitions(5);
  bench->ComputeStatistics("min", smallest)->ReportAggregatesOnly();
}

void forward(benchmark::State& state) {
  const Inputs in(state.range(0));
  for (auto step : state) {
    benchmark::DoNotOptimize(attention(in.config, in.weights, in.x));
  }
}
BENCHMARK(forward)->Arg(512)->Arg(2048)->Apply(repeated);

void forward_backward(benchmark::State& state) {
  const Inputs in(state.range(0));
  for (auto step : state) {
    benchmark::DoNotOptimize(attention_with_gradients(in.config, in.weights, in.x, in.dy));
  }
}
BENCHMARK(forward_backward)->Arg(512)->Arg(2048)->Apply(repeated);

// Rows spread evenly over 2048 tokens, so that a row costs the same on average however many there
// are: time = what the keys of the whole sequence cost + rows * what a row costs.
void forward_backward_of_rows(benchmark::State& state) {
  const Inputs in(2048);
  AttentionOptions options;
  for (std::int64_t row = 0; row < state.range(0); ++row) {
    options.rows.push_back((row + 1) * 2048 / state.range(0) - 1);
  }
  const Tensor dy = gather_rows(in.dy, options.rows);
  for (auto step : state) {
    benchmark::DoNotOptimize(attention_with_gradients(in.config, in.weights, in.x, dy, options));
  }
}
BENCHMARK(forward_backward_of_rows)->Arg(256)->Arg(512)->Arg(1024)->Arg(2048)->Apply(repeated);

// AdamW of many float32 numbers, all on record and right.
struct OptimizerStep {
  std::vector<float> p, m, v, gradient, p_after, m_after, v_after;
  UpdateSettings settings;

  explicit OptimizerStep(std::int64_t count) {
    std::mt19937_64 random(1);
    settings.lr = 1e-3;
    settings.n = 10;
    constexpr std::int64_t kPart = 1 << 20;
    for (std::int64_t begin = 0; begin < count; begin += kPart) {
      const std::int64_t end = std::min(count, begin + kPart);
      for (std::int64_t i = begin; i < end; ++i) {
        p.push_back(static_cast<float>(random() % 1000) * 1e-4F);
        gradient.push_back(static_cast<float>(random() % 1000) * 1e-3F - 0.5F);
        m.push_back(0.01F);
        v.push_back(0.001F);
      }
      p_after.resize(p.size());
      UpdateRecord part = record();
      for (Numbers* const numbers :
           {&part.p_before, &part.m_before, &part.v_before, &part.gradient, &part.p_after}) {
        *numbers = numbers->part(begin, end - begin);
      }
      part.m_after = part.v_after = {};
      const UpdatePrediction right = predicted_update(part, settings);
      m_after.insert(m_after.end(), right.m.begin(), right.m.end());
      v_after.insert(v_after.end(), right.v.begin(), right.v.end());
      std::copy(right.p.begin(), right.p.end(), p_after.begin() + begin);
    }
  }
  [[nodiscard]] UpdateRecord record() const {
    const auto view = [](const std::vector<float>& values) { return Numbers::of(values); };
    return {"p",
            view(p),
            view(m),
            view(v),
            view(gradient),
            view(p_after),
            view(m_after),
            view(v_after)};
  }
};

constexpr std::int64_t kParameters = 78'300'000;  // of m7c_125m

const OptimizerStep& optimizer_step() {
  static const OptimizerStep kStep(kParameters);
  return kStep;
}

void optimizer_judged(benchmark::State& state) {
  const OptimizerStep& in = optimizer_step();
  bool fits = true;
  for (auto step : state) {
    fits = fits && judge_update(in.record(), in.settings).fits();
  }
  if (!fits) {
    state.SkipWithError("a right step was judged wrong");
  }
}
BENCHMARK(optimizer_judged)->Apply(repeated);

void optimizer_norm(benchmark::State& state) {
  const Numbers gradient = optimizer_step().record().gradient;
  for (auto step : state) {
    benchmark::DoNotOptimize(gradient_norms(std::span(&gradient, 1)));
  }
}
BENCHMARK(optimizer_norm)->Apply(repeated);

void optimizer_factor(benchmark::State& state) {
  const UpdateRecord record = optimizer_step().record();
  for (auto step : state) {
    benchmark::DoNotOptimize(fitted_factor(std::span(&record, 1), optimizer_step().settings));
  }
}
BENCHMARK(optimizer_factor)->Apply(repeated);

LmConfig m7c_model() {
  LmConfig config;
  config.attention = m7c_config();
  config.n_layers = 12;
  config.vocab_size = 256;
  return config;
}

// Shapes [out, in] of the linear maps of a block, and the number of tokens of a rank.
constexpr std::pair<std::int64_t, std::int64_t> kMaps[] = {{768, 768},
                                                           {128, 768},
                                                           {128, 768},
                                                           {128, 768},
                                                           {128, 768},
                                                           {128, 768},
                                                           {128, 768},
                                                           {768, 768},
                                                           {3072, 768},
                                                           {768, 3072}};
constexpr std::int64_t kTokens = 512;

// y = x W^T, dx = dy W and dW = dy^T x of every map, of range(0) ranks with 12 blocks each. The numbers
// are the same ones, so they are wrong; a wrong product costs what a right one does.
void linear_maps_projected(benchmark::State& state) {
  std::mt19937_64 random(1);
  const auto drawn = [&](std::int64_t count) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) {
      value = static_cast<float>(random() % 1000) * 1e-3F - 0.5F;
    }
    return values;
  };
  const std::vector<float> weight = drawn(3072 * 768);
  const std::vector<float> x = drawn(kTokens * 3072);
  const std::vector<float> y = drawn(kTokens * 3072);
  const auto view = [](const std::vector<float>& from, std::int64_t rows, std::int64_t columns) {
    return Matrix{Numbers::of(from).part(0, rows * columns), rows, columns};
  };
  const Rounding rounding = Rounding::of(Number::f32);
  for (auto step : state) {
    for (std::int64_t block = 0; block < 12 * state.range(0); ++block) {
      for (const auto& [out, in] : kMaps) {
        const Matrix a = view(x, kTokens, in);
        const Matrix b = view(y, kTokens, out);
        const Matrix w = view(weight, out, in);
        benchmark::DoNotOptimize(judge_product(linear_product(a, w, b, rounding), 1));
        benchmark::DoNotOptimize(judge_product(input_gradient_product(b, w, a, rounding), 2));
        benchmark::DoNotOptimize(judge_product(weight_gradient_product(b, a, w, rounding), 3));
      }
    }
  }
}
BENCHMARK(linear_maps_projected)->Arg(2)->Apply(repeated);

// The mlp of one block, forward and backward, at range(0) drawn rows.
void mlp_rows(benchmark::State& state) {
  std::mt19937_64 random(1);
  const auto drawn = [&](std::int64_t count) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) {
      value = static_cast<float>(random() % 1000) * 1e-4F - 0.05F;
    }
    return values;
  };
  const std::vector<float> fc1 = drawn(3072 * 768);
  const std::vector<float> fc2 = drawn(3072 * 768);
  MlpInputs in;
  in.x = random_tensor({state.range(0), 768}, 1, random);
  in.weights = {"", {Numbers::of(fc1), 3072, 768}, {Numbers::of(fc2), 768, 3072}};
  const Tensor dy = random_tensor(in.x.shape, 1, random);
  for (auto step : state) {
    benchmark::DoNotOptimize(expected_mlp(in));
    benchmark::DoNotOptimize(expected_mlp_gradient(in, dy));
  }
}
BENCHMARK(mlp_rows)->Arg(16)->Apply(repeated);

void initial_values(benchmark::State& state) {
  const LmConfig config = m7c_model();
  std::mt19937_64 random(1);
  std::map<std::string, std::vector<float>> values;
  std::vector<InitialRecord> records;
  for (const auto& [name, shape] : parameter_shapes(config)) {
    const InitialLaw law = initial_law(config, name);
    std::vector<float>& own = values[name];
    std::normal_distribution<float> normal(0, static_cast<float>(law.size));
    const auto size = static_cast<float>(law.size);
    for (std::int64_t i = 0; i < element_count(shape); ++i) {
      const float unit = static_cast<float>(random() >> 40) * 0x1p-23F - 1;
      own.push_back(law.kind == InitialLaw::Kind::constant  ? size
                    : law.kind == InitialLaw::Kind::uniform ? size * unit
                                                            : normal(random));
    }
    records.push_back({name, shape, Numbers::of(own)});
  }
  bool right = true;
  for (auto step : state) {
    right = right && judge_initial_values(config, records).wrong.empty();
  }
  if (!right) {
    state.SkipWithError("right values were judged wrong");
  }
}
BENCHMARK(initial_values)->Apply(repeated);

// Forward and backward of range(0) layers of the toy at 285 tokens, on one thread.
void toy_step(benchmark::State& state) {
  RunConfig config;
  config.model.attention = {.dim = 128,
                            .n_heads = 8,
                            .n_kv_groups = 2,
                            .d_k = 16,
                            .d_v = 16,
                            .l = 16,
                            .d = 8,
                            .l_sel = 32,
                            .n_sel = 8,
                            .w = 64};
  config.model.n_layers = state.range(0);
  config.model.vocab_size = 256;
  config.data.seq_len = 285;
  std::mt19937_64 random(1);
  Weights parameters;
  for (const auto& [name, shape] : parameter_shapes(config.model)) {
    parameters[name] = random_tensor(shape, 0.1, random);
  }
  for (auto step : state) {
    benchmark::DoNotOptimize(step_gradients(config, {}, 1, parameters, 1));
  }
}
BENCHMARK(toy_step)->Arg(1)->Arg(3)->Apply(repeated);

}  // namespace
}  // namespace oracles
