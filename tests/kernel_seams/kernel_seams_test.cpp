// The kernels behind the seams, emulated on the host with LibTorch's autograd around them: outputs and all gradients as near to
// a float64 layer as the reference in the same narrow type, the whole layer and each step alone, at edge lengths, where
// inputs have gaps and uninitialised memory is NaN; packed documents in one call; what the trace shows; what is counted; what is
// refused.

#include <cmath>

#include <ATen/Context.h>

#include "nsa/seams/automatic.h"
#include "nsa/seams/cuda/cuda.h"
#include "nsa/seams/cuda/norm.h"
#include "nsa/seams/norm.h"
#include "nsa/seams/refused.h"
#include "tests/model/support.h"

namespace nsa::testing {
namespace {

using torch::Tensor;
using Route = std::map<std::string, std::string>;

ModelConfig config_of_kernels() {
  ModelConfig config;
  config.dim = 64;
  config.n_layers = 1;
  config.n_heads = 4;
  config.n_kv_groups = 2;
  config.d_k = 64;
  config.d_v = 64;
  config.l = 8;
  config.d = 4;
  config.l_sel = 16;
  config.n_sel = 16;  // all blocks of what is tested
  config.w = 24;
  return config;
}

struct Variant {
  std::string name;
  ModelConfig config;
  GateOverride gates = {};
};

std::vector<Variant> kernel_variants() {
  ModelConfig paper = config_of_kernels();
  paper.gate = Gate::head_sigmoid;
  paper.phi = Phi::conv;
  paper.eq9 = Eq9::overlap;
  paper.rope_scale = 2.0;
  ModelConfig lone = config_of_kernels();
  lone.n_heads = 3;
  lone.n_kv_groups = 1;
  lone.gate_temp = 0.5;
  ModelConfig choosing = config_of_kernels();
  choosing.n_sel = 4;
  return {{"softmax_avg", config_of_kernels()},
          {"drops_blocks", choosing},
          {"sigmoid_conv", paper},
          {"one_group", lone},
          {"selected_alone", config_of_kernels(), one_hot(1)}};
}

// A layer's results by name: y, dx, and the gradient of every weight.
using Results = std::map<std::string, Tensor>;

struct Ran {
  Results results;
  AttentionTrace trace;
  std::vector<RouteCount> counts;
};

class KernelSeams : public ::testing::Test {
 protected:
  void SetUp() override {
    at::globalContext().setDeterministicAlgorithms(true, true);
    at::globalContext().setDeterministicFillUninitializedMemory(true);
  }
  void TearDown() override { at::globalContext().setDeterministicAlgorithms(false, false); }

  static Attention layer_of(const Variant& variant,
                            const Route& route,
                            Routes& routes,
                            torch::ScalarType type) {
    torch::manual_seed(3);
    Attention layer(variant.config, 0, make_attention_seams(variant.config, route), routes);
    spread_weights(*layer, 0.15);
    layer->to(torch::kBFloat16);  // the same numbers in every type
    layer->to(type);
    layer->set_gate_override(variant.gates);
    return layer;
  }

  // `gaps`: x is every second row of a larger tensor.
  static Ran run(const Variant& variant,
                 const Route& route,
                 std::int64_t length,
                 torch::ScalarType type,
                 bool gaps = false,
                 const DocumentLengths& documents = {}) {
    Routes routes;
    Attention layer = layer_of(variant, route, routes, type);
    torch::manual_seed(5);
    const auto drawn_alike = [&](torch::IntArrayRef sizes) {  // the same numbers in every type
      return torch::randn(sizes, torch::kDouble).to(torch::kBFloat16).to(type);
    };
    const Tensor drawn = drawn_alike({2, length, variant.config.dim});
    const Tensor dy = drawn_alike(drawn.sizes());
    Tensor x = drawn;
    if (gaps) x = torch::stack({drawn, drawn}, 2).flatten(1, 2).slice(1, 0, 2 * length, 2);
    x = x.detach().requires_grad_(true);
    Ran ran;
    layer->set_tap([&](const AttentionTrace& trace) { ran.trace = trace; });
    layer->set_documents(documents);
    const Tensor y = layer->forward(x);
    y.backward(dy);
    ran.results["y"] = y.detach();
    ran.results["dx"] = x.grad();
    for (const auto& item : layer->named_parameters()) {
      ran.results[item.key()] = gradient_of(item.value());
    }
    ran.counts = routes.counts();
    return ran;
  }

  static double distance(const Tensor& x, const Tensor& truth) {
    const Tensor difference = x.to(torch::kDouble) - truth.to(torch::kDouble);
    const double size = truth.to(torch::kDouble).norm().item<double>();
    const double error = difference.norm().item<double>();
    return size > 0 ? error / size : error;
  }

  // As near to the truth as the reference in bfloat16, or twice as far: both round, in other places. The gradient of the gate's bias
  // is a sum of few numbers, and how far off the reference's own sum is depends on the processor (with AMX 1.9 times less).
  static void expect_near(const Results& found,
                          const Results& reference,
                          const Results& truth,
                          const std::string& where) {
    ASSERT_EQ(found.size(), truth.size());
    for (const auto& [name, right] : truth) {
      const double limit = 2.0 * distance(reference.at(name), right) + 2e-3;
      EXPECT_LE(distance(found.at(name), right), limit) << where << " " << name;
    }
  }
};

TEST_F(KernelSeams, AWholeLayerIsAsNearToTheTruthAsTheReference) {
  for (const Variant& variant : kernel_variants()) {
    for (const std::int64_t length : {1, 7, 8, 33, 150}) {
      const Ran truth = run(variant, {}, length, torch::kDouble);
      const Ran reference = run(variant, {}, length, torch::kBFloat16);
      const bool gaps = length == 8 || length == 33;
      const Ran found = run(variant, {{"attention", "cuda"}}, length, torch::kBFloat16, gaps);
      expect_near(found.results,
                  reference.results,
                  truth.results,
                  variant.name + " " + std::to_string(length) + (gaps ? " gaps" : ""));
    }
  }
}

TEST_F(KernelSeams, EachStepIsAsNearToTheTruthAsTheReference) {
  for (const Variant& variant : kernel_variants()) {
    for (const std::int64_t length : {7, 100}) {
      const Ran truth = run(variant, {}, length, torch::kDouble);
      const Ran reference = run(variant, {}, length, torch::kBFloat16);
      for (const char* seam : cuda::kSeams) {
        if (seam == std::string("attention")) continue;
        const Ran found = run(variant, {{seam, "cuda_mma"}}, length, torch::kBFloat16);
        expect_near(found.results, reference.results, truth.results, variant.name + " " + seam);
      }
    }
  }
}

Results tensors_of(const AttentionTrace& t) {
  return {{"x", t.x_BSE},
          {"q", t.q_BHSD},
          {"k_raw", t.k_raw_BGSD},
          {"v_raw", t.v_raw_BGSD},
          {"k_cmp", t.k_cmp_BGCD},
          {"v_cmp", t.v_cmp_BGCD},
          {"k_sel", t.k_sel_BGSD},
          {"v_sel", t.v_sel_BGSD},
          {"k_win", t.k_win_BGSD},
          {"v_win", t.v_win_BGSD},
          {"p_grp", t.p_grp_BGSN},
          {"o_cmp", t.o_cmp_BHSD},
          {"o_sel", t.o_sel_BHSD},
          {"o_win", t.o_win_BHSD},
          {"gate", t.gate},
          {"y", t.y_BSE},
          {"blocks", t.blocks_BGSn}};
}

// An MLP pools by LibTorch's products, in front of the kernels and by its own name.
TEST_F(KernelSeams, AnMlpPoolsBeforeTheKernels) {
  Variant variant = kernel_variants().front();
  variant.config.phi = Phi::mlp;
  for (const std::int64_t length : {7, 8, 33, 150}) {
    const Ran truth = run(variant, {}, length, torch::kDouble);
    const Ran reference = run(variant, {}, length, torch::kBFloat16);
    const Ran found = run(variant, {{"attention", "cuda"}}, length, torch::kBFloat16);
    const std::string where = "mlp " + std::to_string(length);
    expect_near(found.results, reference.results, truth.results, where);
    expect_near(
        tensors_of(found.trace), tensors_of(reference.trace), tensors_of(truth.trace), where);
    ASSERT_EQ(found.counts.size(), 2U);
    EXPECT_EQ(found.counts[0].implementation, "cuda");
    EXPECT_EQ(found.counts[1].seam, "compress");
    EXPECT_EQ(found.counts[1].implementation, "reference");
  }
  EXPECT_THROW(run(variant, {{"attention", "cuda"}}, 60, torch::kBFloat16, false, {{30, 30}, {60}}),
               Refused);
}

// What somebody looks at is what the reference shows, each tensor.
TEST_F(KernelSeams, TheTraceOfAWholeLayerIsWhole) {
  for (const Variant& variant : kernel_variants()) {
    const auto shown = [&](const Route& route, torch::ScalarType type) {
      return tensors_of(run(variant, route, 100, type).trace);
    };
    expect_near(shown({{"attention", "cuda"}}, torch::kBFloat16),
                shown({}, torch::kBFloat16),
                shown({}, torch::kDouble),
                variant.name);
  }
}

// Shorter than a compression block, of one token, longer than a window.
const DocumentLengths kPacked{{7, 1, 52}, {33, 3, 24}};

// One call for all documents: what the reference gives for one after the other, gradients and trace too.
TEST_F(KernelSeams, PackedDocumentsAreOneCall) {
  for (const Variant& variant : kernel_variants()) {
    const auto packed = [&](const Route& route, torch::ScalarType type) {
      return run(variant, route, 60, type, /*gaps=*/false, kPacked);
    };
    const Ran truth = packed({}, torch::kDouble);
    const Ran reference = packed({}, torch::kBFloat16);
    const Ran found = packed({{"attention", "cuda"}}, torch::kBFloat16);
    expect_near(found.results, reference.results, truth.results, variant.name);
    expect_near(tensors_of(found.trace),
                tensors_of(reference.trace),
                tensors_of(truth.trace),
                variant.name + " trace");
    ASSERT_EQ(found.trace.documents.size(), 6U);
    for (std::size_t i = 0; i < 6; ++i) {
      expect_near(tensors_of(found.trace.documents[i]),
                  tensors_of(reference.trace.documents[i]),
                  tensors_of(truth.trace.documents[i]),
                  variant.name + " document " + std::to_string(i));
    }
    ASSERT_EQ(found.counts.size(), 1U);
    EXPECT_EQ(found.counts[0].forward, 1);
    EXPECT_EQ(found.counts[0].backward, 1);
  }
}

// Bit by bit: another document in front changes nothing, forward or backward, and a repeat is a repeat.
TEST_F(KernelSeams, PackedDocumentsKnowNothingOfEachOther) {
  const Variant variant = kernel_variants()[1];
  const auto run_with = [&](double shift) {
    Routes routes;
    Attention layer = layer_of(variant, {{"attention", "cuda"}}, routes, torch::kBFloat16);
    torch::manual_seed(9);
    Tensor x = torch::randn({2, 60, variant.config.dim}).to(torch::kBFloat16);
    x.select(0, 1).narrow(0, 0, 33) += shift;
    x.requires_grad_(true);
    layer->set_documents(kPacked);
    const Tensor y = layer->forward(x);
    y.backward(torch::ones_like(y));
    return std::pair(y.detach(), x.grad());
  };
  const auto one = run_with(0.0);
  const auto again = run_with(0.0);
  const auto other = run_with(1.0);
  EXPECT_TRUE(torch::equal(one.first, again.first));
  EXPECT_TRUE(torch::equal(one.second, again.second));
  const auto untouched = [](const Tensor& all) {
    return torch::cat({all[0], all[1].narrow(0, 33, 27)});
  };
  EXPECT_TRUE(torch::equal(untouched(one.first), untouched(other.first)));
  EXPECT_TRUE(torch::equal(untouched(one.second), untouched(other.second)));
  EXPECT_FALSE(torch::equal(one.first[1].narrow(0, 0, 33), other.first[1].narrow(0, 0, 33)));
}

// Lengths that are not those of the batch are refused before anything runs.
TEST_F(KernelSeams, PackedDocumentsOfAnotherBatchAreAnError) {
  for (const DocumentLengths& wrong : {DocumentLengths{{60}}, DocumentLengths{{59}, {60}}}) {
    EXPECT_THROW(run(kernel_variants().front(),
                     {{"attention", "cuda"}},
                     60,
                     torch::kBFloat16,
                     /*gaps=*/false,
                     wrong),
                 c10::Error);
  }
}

// The gradients of the projections are one matrix where nobody touched them, and are put together where somebody did.
TEST_F(KernelSeams, AGradientThatSomebodyReplacedArrives) {
  const Variant variant = kernel_variants().front();
  const auto gradients = [&](const Route& route, torch::ScalarType type) {
    Routes routes;
    Attention layer = layer_of(variant, route, routes, type);
    torch::manual_seed(7);
    const Tensor x = torch::randn({1, 40, variant.config.dim}, torch::kDouble)
                         .to(torch::kBFloat16)
                         .to(type)
                         .requires_grad_(true);
    layer->set_tap([&](const AttentionTrace& trace) {
      trace.k_sel_BGSD.register_hook([](const Tensor& gradient) { return gradient * 3; });
    });
    layer->forward(x).sum().backward();
    return Results{{"dx", x.grad()}, {"k_sel", layer->weights().k_sel.grad()}};
  };
  expect_near(gradients({{"attention", "cuda"}}, torch::kBFloat16),
              gradients({}, torch::kBFloat16),
              gradients({}, torch::kDouble),
              "hook");
}

TEST_F(KernelSeams, AWholeLayerCountsItselfAlone) {
  const Ran ran = run(kernel_variants().front(), {{"attention", "cuda"}}, 33, torch::kBFloat16);
  ASSERT_EQ(ran.counts.size(), 1U);
  EXPECT_EQ(ran.counts[0].seam, "attention");
  EXPECT_EQ(ran.counts[0].implementation, "cuda");
  EXPECT_EQ(ran.counts[0].forward, 1);
  EXPECT_EQ(ran.counts[0].backward, 1);
}

// Rows of every count of chunks that a lane can have, rows of zeros among them.
TEST_F(KernelSeams, ANormIsAsNearToTheTruthAsTheReference) {
  for (const std::int64_t width : {8, 64, 256, 520, 768, 1024, 2048}) {
    const auto run = [&](const Norm& norm, torch::ScalarType type) {
      torch::manual_seed(11);
      const auto drawn = [&](torch::IntArrayRef sizes) {
        return torch::randn(sizes, torch::kDouble).to(torch::kBFloat16).to(type);
      };
      Tensor x = drawn({2, 9, width});
      x.select(1, 4).zero_();
      x.requires_grad_(true);
      const Tensor weight = drawn({width}).requires_grad_(true);
      const Tensor y = norm(x, weight);
      y.backward(drawn(y.sizes()));
      return Results{{"y", y.detach()}, {"dx", x.grad()}, {"d_weight", weight.grad()}};
    };
    Routes routes;
    const Norm reference = make_norm({}, routes, 0);
    const Norm kernel = [](const Tensor& x, const Tensor& weight) {
      return cuda::norm(x, weight, 0);
    };
    const Results truth = run(reference, torch::kDouble);
    expect_near(run(kernel, torch::kBFloat16),
                run(reference, torch::kBFloat16),
                truth,
                std::to_string(width));
  }
}

std::string refusal(const std::function<void()>& ask) {
  try {
    ask();
  } catch (const Refused& refused) {
    return refused.seam + " " + refused.implementation + ": " + refused.reason;
  }
  return "";
}

TEST_F(KernelSeams, WhatTheyCannotDoIsRefusedByName) {
  const auto there = [&](const ModelConfig& config,
                         const char* seam,
                         torch::ScalarType type,
                         bool decodes = false) {
    return refusal([&] { check_route(config, {{seam, "cuda"}}, {torch::kCPU, type, decodes}); });
  };
  ModelConfig config = config_of_kernels();
  EXPECT_EQ(there(config, "attention", torch::kBFloat16, false), "");
  EXPECT_EQ(there(config, "attention", torch::kFloat, false),
            "attention cuda: dtype Float: wanted BFloat16 or Half");
  EXPECT_EQ(there(config, "select", torch::kFloat, false), "");
  EXPECT_EQ(there(config, "attend_win", torch::kBFloat16, true), "");
  config.phi = Phi::mlp;
  EXPECT_EQ(there(config, "attention", torch::kBFloat16), "");
  EXPECT_EQ(there(config, "compress", torch::kBFloat16),
            "compress cuda: phi mlp: its kernels pool by avg or conv");
  EXPECT_EQ(there(config, "attend_sel", torch::kBFloat16, false), "");
  config = config_of_kernels();
  config.d_k = 136;
  EXPECT_EQ(there(config, "attend_sel", torch::kBFloat16, false),
            "attend_sel cuda: no kernels were built for bf16, d_k 136, d_v 64");
  config = config_of_kernels();
  config.n_heads = 34;
  EXPECT_EQ(there(config, "attend_cmp", torch::kBFloat16, false),
            "attend_cmp cuda: heads of a group: 1 to 16, not 17");
  config = config_of_kernels();
  EXPECT_EQ(there(config, "norm", torch::kBFloat16, false), "");
  EXPECT_EQ(there(config, "norm", torch::kFloat, false),
            "norm cuda: dtype Float: wanted BFloat16 or Half");
  config.dim = 2056;
  EXPECT_EQ(there(config, "norm", torch::kHalf, false),
            "norm cuda: width 2056: wanted a multiple of 8 up to 2048");
}

// A prompt by the whole layer, single tokens by the steps, as near to the truth as the reference; each counts itself.
TEST_F(KernelSeams, DecodingIsAsNearToTheTruthAsTheReference) {
  const torch::NoGradGuard no_gradient;
  const Route steps = {{"attention", "cuda"},
                       {"compress", "cuda"},
                       {"score", "cuda"},
                       {"select", "cuda"},
                       {"attend_cmp", "cuda"},
                       {"attend_sel", "cuda"},
                       {"attend_win", "cuda"}};
  constexpr std::int64_t kLength = 36;
  for (const Variant& variant : kernel_variants()) {
    const bool drops = variant.name == "drops_blocks";
    for (const std::int64_t prompt :
         drops ? std::vector<std::int64_t>{1, 29} : std::vector<std::int64_t>{29}) {
      const auto decoded = [&](const Route& route, torch::ScalarType type) {
        Routes routes;
        Attention layer = layer_of(variant, route, routes, type);
        torch::manual_seed(5);
        const Tensor x = torch::randn({2, kLength, variant.config.dim}, torch::kDouble)
                             .to(torch::kBFloat16)
                             .to(type);
        LayerCache cache;
        std::vector<Tensor> y = {layer->prefill(x.narrow(1, 0, prompt), cache)};
        EXPECT_EQ(cache.reads.partial, !route.empty());
        for (std::int64_t t = prompt; t < kLength; ++t) {
          y.push_back(layer->step(x.narrow(1, t, 1), cache));
        }
        return std::pair(Results{{"y", torch::cat(y, 1)}}, routes.counts());
      };
      const auto found = decoded(steps, torch::kBFloat16);
      expect_near(found.first,
                  decoded({}, torch::kBFloat16).first,
                  decoded({}, torch::kDouble).first,
                  variant.name + " after " + std::to_string(prompt));
      for (const RouteCount& count : found.second) {
        if (count.seam == "attention") {
          EXPECT_EQ(count.forward, 1);
        }
        if (count.seam == "attend_win") {
          EXPECT_EQ(count.forward, kLength - prompt);
        }
        const bool is_kernels = steps.count(count.seam) > 0;
        EXPECT_EQ(count.implementation, is_kernels ? "cuda" : "reference") << count.seam;
      }
    }
  }
}

// A token behind a prompt has no way back, and no whole layer.
TEST_F(KernelSeams, ALaterPositionIsRefusedWhereThereIsNoKernel) {
  const ModelConfig config = config_of_kernels();
  const AttentionSeams seams = make_attention_seams(config, {{"attend_win", "cuda"}});
  Routes routes;
  SeamContext context{config, 5, routes};
  context.first = 9;
  const auto drawn = [](std::int64_t heads, std::int64_t tokens) {
    return torch::randn({1, heads, tokens, 64}).to(torch::kBFloat16);
  };
  const Tensor q = drawn(4, 1);
  const Tensor k = drawn(2, 10);
  EXPECT_EQ(seams.attend_win(context, q, k, k).size(2), 1);
  const Tensor differentiable = q.clone().requires_grad_(true);
  EXPECT_EQ(refusal([&] { static_cast<void>(seams.attend_win(context, differentiable, k, k)); }),
            "attend_win cuda: gradients of queries from a later position on");
  Attention layer =
      layer_of(kernel_variants().front(), {{"attention", "cuda"}}, routes, torch::kBFloat16);
  const Tensor x = torch::randn({1, 3, config.dim}).to(torch::kBFloat16);
  EXPECT_EQ(
      refusal([&] {
        static_cast<void>(layer->seams().attention(context, layer->seams(), layer->weights(), x));
      }),
      "attention cuda: a whole layer from a later position on");
}

// Here the kernels can serve: `auto` takes them, says why where it does not, and what it took is what counts itself.
TEST_F(KernelSeams, AutoTakesThemWhereTheyCanServe) {
  const auto resolved = [](const ModelConfig& config,
                           const Route& route,
                           torch::ScalarType type,
                           bool autocasts = false) {
    return resolve_route(config, route, {torch::kCPU, type, false, autocasts});
  };
  const auto reason = [](const ResolvedRoute& found) {
    return found.candidates.at(0).implementation + ": " + found.candidates.at(0).passed_over;
  };
  ModelConfig config = config_of_kernels();
  const Route whole = {{"attention", "auto"}, {"attend_sel", "auto"}};
  const ResolvedRoute fits = resolved(config, whole, torch::kBFloat16);
  EXPECT_EQ(fits.route, (Route{{"attention", "cuda"}, {"attend_sel", "reference"}}));
  ASSERT_EQ(fits.candidates.size(), 1U) << "nobody calls attend_sel";
  EXPECT_EQ(reason(fits), "cuda: ");

  const ResolvedRoute wide = resolved(config, whole, torch::kFloat);
  EXPECT_EQ(wide.route, (Route{{"attention", "reference"}, {"attend_sel", "reference"}}));
  EXPECT_EQ(reason(wide), "cuda: dtype Float: wanted BFloat16 or Half");
  EXPECT_EQ(reason(resolved(config, whole, torch::kBFloat16, true)),
            "cuda: autocast: its operands come in two dtypes");

  const ResolvedRoute beside =
      resolved(config, {{"attention", "auto"}, {"attend_win", "sdpa"}}, torch::kBFloat16);
  EXPECT_EQ(beside.route, (Route{{"attention", "reference"}, {"attend_win", "sdpa"}}));
  EXPECT_EQ(reason(beside), "cuda: attend_win sdpa: it calls no other seam");

  config.phi = Phi::mlp;
  const ResolvedRoute pools = resolved(config, {{"compress", "auto"}}, torch::kBFloat16);
  EXPECT_EQ(pools.route, (Route{{"compress", "reference"}}));
  EXPECT_EQ(reason(pools), "cuda: phi mlp: its kernels pool by avg or conv");
  EXPECT_EQ(resolved(config, whole, torch::kBFloat16).route, fits.route);

  const Ran ran = run(kernel_variants().front(), fits.route, 33, torch::kBFloat16);
  ASSERT_EQ(ran.counts.size(), 1U);
  EXPECT_EQ(ran.counts[0].implementation, "cuda");

  // Behind a prompt the layer's steps are called one by one.
  const ResolvedRoute decodes =
      resolve_route(config_of_kernels(), whole, {torch::kCPU, torch::kBFloat16, true});
  EXPECT_EQ(decodes.route, (Route{{"attention", "cuda"}, {"attend_sel", "cuda"}}));
}

// Sizes that nobody can ask about before the call: no memory stands behind these.
TEST_F(KernelSeams, WhatIsTooLargeIsRefusedByTheCall) {
  const ModelConfig config = config_of_kernels();
  const AttentionSeams seams = make_attention_seams(config, {{"attend_sel", "cuda"}});
  Routes routes;
  const SeamContext context{config, 5, routes};
  const auto tensor = [](std::int64_t heads, std::int64_t width) {
    constexpr std::int64_t kLength = 70'000'000;
    return torch::zeros({1}, torch::kBFloat16).expand({1, heads, kLength, width});
  };
  EXPECT_EQ(refusal([&] {
              static_cast<void>(seams.attend_sel(
                  context, tensor(4, 64), tensor(2, 64), tensor(2, 64), tensor(2, 16)));
            }),
            "attend_sel cuda: more than 2^30 chosen blocks in a group");
  EXPECT_TRUE(routes.counts().empty());
}

}  // namespace
}  // namespace nsa::testing
