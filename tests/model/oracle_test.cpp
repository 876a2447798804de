// The model against the oracle, which shares no code with it, on random configurations: every stage and all gradients in
// float64, with the model's blocks replayed; the blocks themselves apart.

#include <iostream>
#include <random>

#include "harness/checks/attention/record/layer_record.h"
#include "oracles/attention/attention.h"
#include "oracles/attention/selection.h"
#include "tests/model/support.h"

namespace nsa::testing {
namespace {

using torch::Tensor;

constexpr double kOracleTolerance = 1e-12;  // float64 against the oracle

template <typename T>
oracles::Array<T> to_array(const Tensor& tensor) {
  const auto flat = tensor.detach().contiguous();
  const auto* data = flat.template data_ptr<T>();
  return {tensor.sizes().vec(), std::vector<T>(data, data + flat.numel())};
}

Tensor from_oracle(const oracles::Tensor& tensor) {
  return torch::tensor(tensor.data, torch::kDouble).reshape(tensor.shape);
}

// Numbers from the generator itself: the distributions of the library differ between libraries.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  template <typename T>
  T one_of(std::initializer_list<T> values) {
    return *(values.begin() + engine_() % values.size());
  }
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(high - low + 1));
  }

 private:
  std::mt19937_64 engine_;
};

struct RandomCase {
  ModelConfig config;
  std::int64_t batch = 1;
  std::int64_t length = 1;
  double logit_scale = 1.0;
};

RandomCase random_case(std::uint64_t seed) {
  Random random(seed);
  RandomCase result;
  auto& config = result.config;
  config.n_kv_groups = random.between(1, 3);
  config.n_heads = config.n_kv_groups * random.between(1, 4);
  config.dim = random.between(5, 33);
  config.d_k = 2 * random.between(1, 12);
  config.d_v = random.between(1, 20);
  config.d = random.one_of<std::int64_t>({1, 2, 4});
  config.l = config.d * random.one_of<std::int64_t>({1, 2, 3, 4});
  config.l_sel = config.d * random.one_of<std::int64_t>({1, 2, 3, 4});
  config.init_blocks = random.between(0, 2);
  config.local_blocks = random.between(1, 3);
  config.n_sel = config.init_blocks + config.local_blocks + random.between(0, 3);
  config.w = random.between(1, 40);
  config.rope_base = random.one_of({10000.0, 500.0, 1e6});
  config.rope_scale = random.one_of({1.0, 2.0, 0.5});
  config.gate_temp = random.one_of({1.0, 0.5, 3.0});
  config.gate_hidden = random.between(0, 6);
  config.gate = random.one_of({Gate::group_softmax, Gate::head_sigmoid});
  config.phi = random.one_of({Phi::avg, Phi::conv, Phi::mlp});
  config.eq9 = random.one_of({Eq9::fractional, Eq9::overlap});
  result.batch = random.between(1, 2);
  const auto l = config.l;
  const auto block = config.l_sel;
  const auto w = config.w;
  result.length = std::max<std::int64_t>(1,
                                         random.one_of<std::int64_t>({1,
                                                                      l - 1,
                                                                      l,
                                                                      l + 1,
                                                                      block - 1,
                                                                      block,
                                                                      block + 1,
                                                                      w - 1,
                                                                      w,
                                                                      w + 1,
                                                                      2 * w,
                                                                      97,
                                                                      120,
                                                                      131,
                                                                      150,
                                                                      257,
                                                                      300,
                                                                      300,
                                                                      300}));
  result.logit_scale =
      random.one_of({1.0, 1.0, 2.2});  // 2.2 of both sides: logits five times as large
  return result;
}

struct ModelRun {
  AttentionTrace trace;
  Tensor dy_BSE;
  Tensor dx_BSE;
};

// Gradients of the intermediates are kept too.
ModelRun run_model(const RandomCase& test, Attention& layer) {
  ModelRun run;
  layer->set_tap([&](const AttentionTrace& trace) {
    for (const auto& tensor : {trace.q_BHSD,
                               trace.k_cmp_BGCD,
                               trace.v_cmp_BGCD,
                               trace.o_cmp_BHSD,
                               trace.o_sel_BHSD,
                               trace.o_win_BHSD,
                               trace.gate}) {
      tensor.retain_grad();
    }
    run.trace = trace;
  });
  const auto x_BSE =
      torch::randn({test.batch, test.length, test.config.dim}, torch::kDouble).requires_grad_();
  run.dy_BSE = torch::randn_like(x_BSE);
  (layer->forward(x_BSE) * run.dy_BSE).sum().backward();
  run.dx_BSE = x_BSE.grad();
  return run;
}

void scale_weights(Attention& layer, const RandomCase& test) {
  const torch::NoGradGuard no_gradient;
  for (const auto& item : layer->named_parameters()) {
    const bool query_or_key = item.key().find("W_Q") == 0 || item.key().find("W_K") == 0;
    const double scale = query_or_key ? test.logit_scale : 1.0;
    const bool of_phi = item.key().find("phi") == 0;
    const auto terms = of_phi ? item.value().size(-1) : test.config.dim;
    item.value().normal_(0.0, scale / std::sqrt(static_cast<double>(terms)));
  }
}

oracles::AttentionPass run_oracle(const RandomCase& test,
                                  const Attention& layer,
                                  const ModelRun& run) {
  oracles::Weights weights;
  for (const auto& item : layer->named_parameters()) {
    weights[item.key()] = to_array<double>(item.value());
  }
  oracles::AttentionOptions options;
  options.replay = to_array<std::int64_t>(run.trace.blocks_BGSn);
  options.threads = 1;
  return oracles::attention_with_gradients(harness::checks::oracle_config(test.config),
                                           weights,
                                           to_array<double>(run.trace.x_BSE),
                                           to_array<double>(run.dy_BSE),
                                           options);
}

double compare_values(const ModelRun& run,
                      const Attention& layer,
                      const oracles::AttentionPass& pass) {
  const auto& trace = run.trace;
  const auto& result = pass.result;
  const auto& gradients = pass.gradients;
  Comparison comparison;
  const auto stage =
      [&](const std::string& name, const Tensor& found, const oracles::Tensor& wanted) {
        comparison.add("output", name, found, from_oracle(wanted));
      };
  stage("q", trace.q_BHSD, result.q);
  stage("k_cmp", trace.k_cmp_BGCD, result.k_cmp);
  stage("v_cmp", trace.v_cmp_BGCD, result.v_cmp);
  stage("p_grp", trace.p_grp_BGSN, result.p_grp);
  stage("o_cmp", trace.o_cmp_BHSD, result.o_cmp);
  stage("o_sel", trace.o_sel_BHSD, result.o_sel);
  stage("o_win", trace.o_win_BHSD, result.o_win);
  stage("gate", trace.gate, result.gate);
  stage("y", trace.y_BSE, result.y);
  const auto gradient =
      [&](const std::string& name, const Tensor& leaf, const oracles::Tensor& wanted) {
        comparison.add("gradient", "d " + name, gradient_of(leaf), from_oracle(wanted));
      };
  comparison.add("gradient", "d x", run.dx_BSE, from_oracle(gradients.x));
  gradient("q", trace.q_BHSD, gradients.q);
  gradient("k_cmp", trace.k_cmp_BGCD, gradients.k_cmp);
  gradient("v_cmp", trace.v_cmp_BGCD, gradients.v_cmp);
  gradient("o_cmp", trace.o_cmp_BHSD, gradients.o_cmp);
  gradient("o_sel", trace.o_sel_BHSD, gradients.o_sel);
  gradient("o_win", trace.o_win_BHSD, gradients.o_win);
  gradient("gate", trace.gate, gradients.gate);
  for (const auto& item : layer->named_parameters()) {
    gradient(item.key(), item.value(), gradients.weights.at(item.key()));
  }
  EXPECT_EQ(comparison.size(), 9U + 8U + gradients.weights.size());
  std::string worst;
  const double error = comparison.worst(worst);
  EXPECT_LE(error, kOracleTolerance) << worst;
  return error;
}

struct Choices {
  std::int64_t rows = 0;
  std::int64_t decided = 0;  // by scores
  std::int64_t tied = 0;
};

// A row agrees when its blocks are the oracle's, or would be with scores moved by no more than the tolerance of values.
void compare_blocks(const RandomCase& test,
                    const ModelRun& run,
                    const oracles::AttentionPass& pass,
                    Choices& choices) {
  const auto config = harness::checks::oracle_config(test.config);
  const auto blocks = to_array<std::int64_t>(run.trace.blocks_BGSn);
  const auto n_blocks = static_cast<std::size_t>(test.config.block_count(test.length));
  const auto n = static_cast<std::size_t>(test.config.n_sel);
  // A score is the sum of a group's probabilities, times up to l/d where the overlap is not divided by the token's length.
  const auto most = test.config.heads_per_group() *
                    (test.config.eq9 == Eq9::overlap ? test.config.l / test.config.d : 1);
  const double bound = kOracleTolerance * static_cast<double>(most);
  const std::vector<double> bounds(n_blocks, bound);
  const std::size_t rows = blocks.data.size() / n;
  for (std::size_t row = 0; row < rows; ++row) {
    const auto t = static_cast<std::int64_t>(row) % test.length;
    const auto agreement = oracles::compare_selection(
        config,
        t,
        std::span(pass.result.p_grp.data).subspan(row * n_blocks, n_blocks),
        bounds,
        std::span(blocks.data).subspan(row * n, n));
    EXPECT_NE(agreement.agreement, oracles::Agreement::wrong)
        << "t " << t << ", gap " << agreement.gap << ", bound " << agreement.bound;
    ++choices.rows;
    choices.decided += std::isfinite(pass.result.margin.data[row]) ? 1 : 0;
    choices.tied += agreement.agreement == oracles::Agreement::tied ? 1 : 0;
  }
}

// Returns the largest relative error.
double compare_seeds(std::uint64_t first, std::uint64_t last, Choices& choices) {
  torch::set_num_threads(1);
  double largest = 0.0;
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    const RandomCase test = random_case(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + ", S " + std::to_string(test.length) + ", gate " +
                 name_of(test.config.gate) + ", phi " + name_of(test.config.phi) + ", eq9 " +
                 name_of(test.config.eq9));
    Routes routes;
    Attention layer = make_layer(test.config, routes, seed);
    scale_weights(layer, test);
    const ModelRun run = run_model(test, layer);
    const auto pass = run_oracle(test, layer, run);
    largest = std::max(largest, compare_values(run, layer, pass));
    compare_blocks(test, run, pass, choices);
  }
  std::cout << "largest relative error against the oracle: " << largest << "; rows " << choices.rows
            << ", decided by scores " << choices.decided << ", tied " << choices.tied << "\n";
  return largest;
}

TEST(Oracle, FiftyRandomConfigurations) {
  Choices choices;
  EXPECT_LE(compare_seeds(1, 50, choices), kOracleTolerance);
  EXPECT_GT(choices.decided, 1000);
  EXPECT_LT(choices.tied, choices.decided / 100);
}

TEST(OracleSlowTrials, FiveHundredRandomConfigurations) {
  Choices choices;
  EXPECT_LE(compare_seeds(1001, 1500, choices), kOracleTolerance);
  EXPECT_GT(choices.decided, 10'000);
  EXPECT_LT(choices.tied, choices.decided / 100);
}

}  // namespace
}  // namespace nsa::testing
