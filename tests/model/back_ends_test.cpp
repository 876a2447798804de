// LibTorch's back ends of the window and the compressed branch against the reference: outputs and gradients at every edge
// length, also where uninitialised memory is NaN; what FlashAttention-2 refuses, by name; and how it cuts the branches into
// causal problems, with a plain function in place of its kernels.

#include <cmath>
#include <functional>
#include <map>

#include <torch/csrc/autograd/autograd.h>

#include "nsa/seams/by_hand/by_hand.h"
#include "nsa/seams/flash/branches.h"
#include "nsa/seams/reference/masked_attention.h"
#include "nsa/seams/refused.h"
#include "nsa/seams/sdpa/sdpa.h"
#include "tests/model/attend_result.h"
#include "tests/model/support.h"
#include "tests/model/variants.h"

namespace nsa::testing {
namespace {

using torch::Tensor;

using Attend =
    std::function<Tensor(const SeamContext&, const Tensor&, const Tensor&, const Tensor&)>;

constexpr std::int64_t kSmallChunk = 40'000;  // bytes: several chunks at these sizes

// What stands for FlashAttention-2's kernels: every query, its own keys.
Tensor plain_dense(const Tensor& q_NSHD,
                   const Tensor& k_NSGD,
                   const Tensor& v_NSGD,
                   std::optional<std::int64_t> window) {
  EXPECT_EQ(q_NSHD.size(1), k_NSGD.size(1));
  const auto groups = k_NSGD.size(2);
  const Tensor u_S = torch::arange(k_NSGD.size(1), torch::kLong);
  const Tensor t_S1 = u_S.unsqueeze(1);
  Tensor allowed_SS = u_S.le(t_S1);
  if (window) allowed_SS = allowed_SS.logical_and(u_S.gt(t_S1 - *window));
  const Tensor o_PhSD =
      reference::masked_attention(reference::group_heads(q_NSHD.transpose(1, 2), groups),
                                  k_NSGD.transpose(1, 2).flatten(0, 1),
                                  v_NSGD.transpose(1, 2).flatten(0, 1),
                                  allowed_SS.unsqueeze(0));
  return o_PhSD.reshape({q_NSHD.size(0), q_NSHD.size(2), q_NSHD.size(1), v_NSGD.size(3)})
      .transpose(1, 2);
}

Tensor plain_varlen(const Tensor& q_LHD,
                    const Tensor& k_LGD,
                    const Tensor& v_LGD,
                    const Tensor& boundaries,
                    std::int64_t longest,
                    std::optional<std::int64_t> window) {
  EXPECT_EQ(boundaries.scalar_type(), torch::kInt);
  EXPECT_EQ(boundaries[0].item<int>(), 0);
  EXPECT_EQ(boundaries[-1].item<std::int64_t>(), q_LHD.size(0));
  EXPECT_EQ(q_LHD.size(0), k_LGD.size(0));
  std::vector<Tensor> parts;
  for (std::int64_t i = 0; i + 1 < boundaries.size(0); ++i) {
    const auto first = boundaries[i].item<std::int64_t>();
    const auto last = boundaries[i + 1].item<std::int64_t>();
    EXPECT_LT(first, last) << "an empty sequence";
    EXPECT_LE(last - first, longest);
    const auto one = [&](const Tensor& x_L) { return x_L.slice(0, first, last).unsqueeze(0); };
    parts.push_back(plain_dense(one(q_LHD), one(k_LGD), one(v_LGD), window).squeeze(0));
  }
  return torch::cat(parts);
}

struct BackEnd {
  std::string name;
  Attend cmp;
  Attend win;
};

const std::vector<BackEnd>& back_ends() {
  static const std::vector<BackEnd> list = {
      {"sdpa",
       [](const auto&... arguments) { return sdpa::attend_cmp(arguments..., kSmallChunk); },
       [](const auto&... arguments) { return sdpa::attend_win(arguments..., kSmallChunk); }},
      {"fa2's problems",
       [](const SeamContext& context, const auto&... tensors) {
         return flash::compressed_dense(plain_dense, context.config, tensors...);
       },
       [](const SeamContext& context, const auto&... tensors) {
         return flash::window_dense(plain_dense, context.config, tensors...);
       }},
      {"fa2_varlen's problems",
       [](const SeamContext& context, const auto&... tensors) {
         return flash::compressed_varlen(plain_varlen, context.config, tensors...);
       },
       [](const SeamContext& context, const auto&... tensors) {
         return flash::window_varlen(plain_varlen, context.config, tensors...);
       }},
      {"by_hand", by_hand::attend_cmp, by_hand::attend_win},
  };
  return list;
}

struct Inputs {
  Tensor q_BHSD, k_BGKD, v_BGKD, dy_BHSD;
};

Inputs make_inputs(const ModelConfig& config, std::int64_t length, std::int64_t keys) {
  const auto normal = [](std::int64_t heads, std::int64_t rows, std::int64_t width) {
    return torch::randn({2, heads, rows, width}, torch::kDouble);
  };
  return {normal(config.n_heads, length, config.d_k) * 3.0,
          normal(config.n_kv_groups, keys, config.d_k),
          normal(config.n_kv_groups, keys, config.d_v),
          normal(config.n_heads, length, config.d_v)};
}

// A leaf that has no part in the graph fails here.
AttendResult run(const Attend& attend,
                 const SeamContext& context,
                 const Inputs& inputs,
                 torch::Dtype dtype) {
  std::vector<Tensor> leaves;
  for (const auto& tensor : {inputs.q_BHSD, inputs.k_BGKD, inputs.v_BGKD}) {
    leaves.push_back(tensor.to(dtype).detach().clone().requires_grad_());
  }
  const Tensor o_BHSD = attend(context, leaves[0], leaves[1], leaves[2]);
  EXPECT_EQ(o_BHSD.scalar_type(), dtype);
  EXPECT_EQ(o_BHSD.sizes(), inputs.dy_BHSD.sizes());
  return {o_BHSD, torch::autograd::grad({o_BHSD}, leaves, {inputs.dy_BHSD.to(dtype)})};
}

class BackEnds : public ::testing::Test {
 protected:
  void SetUp() override {
    torch::set_num_threads(1);
    torch::manual_seed(7);
  }

  static void compare(const ModelConfig& config,
                      std::int64_t length,
                      std::int64_t keys,
                      const Attend& reference,
                      Attend BackEnd::*branch) {
    Routes routes;
    const SeamContext context{config, 0, routes};
    const Inputs inputs = make_inputs(config, length, keys);
    const AttendResult wanted = run(reference, context, inputs, torch::kDouble);
    // Terms of the longest sum: keys of a row and their width forward; rows and heads that share a key backward.
    const auto terms = length * config.heads_per_group() + config.d_k;
    const double fp32_ceiling = 64 * std::sqrt(static_cast<double>(terms)) * std::ldexp(1.0, -24);
    for (const auto& back_end : back_ends()) {
      SCOPED_TRACE(back_end.name + " at length " + std::to_string(length));
      std::string worst;
      const AttendResult fp64 = run(back_end.*branch, context, inputs, torch::kDouble);
      EXPECT_LE(error_of(fp64, wanted, worst), 1e-12) << worst;
      EXPECT_LE(error_of(run(back_end.*branch, context, inputs, torch::kFloat), wanted, worst),
                fp32_ceiling)
          << worst;
      if (branch == &BackEnd::cmp) {
        EXPECT_TRUE(
            fp64.o_BHSD.slice(2, 0, std::min(length, config.l - 1)).eq(0.0).all().item<bool>());
      }
    }
  }

  static void every_length(const ModelConfig& config) {
    for (const std::int64_t length : {std::int64_t{1},
                                      config.l - 1,
                                      config.l,
                                      config.l + 1,
                                      config.l_sel - 1,
                                      config.l_sel,
                                      config.l_sel + 1,
                                      std::max<std::int64_t>(config.w - 1, 1),
                                      config.w,
                                      config.w + 1,
                                      2 * config.w,
                                      std::int64_t{37},
                                      std::int64_t{131}}) {
      compare(
          config,
          length,
          config.compressed_len(length),
          [](const auto&... arguments) { return reference::attend_cmp(arguments...); },
          &BackEnd::cmp);
      compare(
          config,
          length,
          length,
          [](const auto&... arguments) { return reference::attend_win(arguments...); },
          &BackEnd::win);
    }
  }
};

TEST_F(BackEnds, EqualTheReferenceAtEveryLength) {
  for (const auto& [name, config] : variants()) {
    SCOPED_TRACE(name);
    every_length(config);
  }
}

// Nothing that was never written may be read.
TEST_F(BackEnds, EqualTheReferenceWhereUninitialisedMemoryIsNan) {
  const EmptyIsNan empty_is_nan;
  every_length(small_config());
}

// Rows without keys must not let a NaN of theirs through, nor make one in the gradients.
TEST_F(BackEnds, RowsWithoutKeysAreZeroWhateverTheyHold) {
  const ModelConfig config = small_config();
  Routes routes;
  const SeamContext context{config, 0, routes};
  for (const std::int64_t length : {config.l - 1, std::int64_t{37}}) {
    Inputs inputs = make_inputs(config, length, config.compressed_len(length));
    inputs.q_BHSD.slice(2, 0, config.l - 1).fill_(std::nan(""));
    for (const auto& back_end : back_ends()) {
      SCOPED_TRACE(back_end.name + " at length " + std::to_string(length));
      const AttendResult found = run(back_end.cmp, context, inputs, torch::kDouble);
      EXPECT_TRUE(found.o_BHSD.slice(2, 0, config.l - 1).eq(0.0).all().item<bool>());
      for (const Tensor& gradient : found.gradients) {
        EXPECT_TRUE(gradient.isfinite().all().item<bool>());
      }
      EXPECT_TRUE(found.gradients[0].slice(2, 0, config.l - 1).eq(0.0).all().item<bool>());
    }
  }
}

// One key more or fewer must show.
TEST_F(BackEnds, NoticeTheWindow) {
  ModelConfig config = small_config();
  Routes routes;
  const Inputs inputs = make_inputs(config, 70, 70);
  std::string worst;
  for (const auto& back_end : back_ends()) {
    const AttendResult right = run(back_end.win, {config, 0, routes}, inputs, torch::kDouble);
    ModelConfig wider = config;
    ++wider.w;
    const AttendResult wrong = run(back_end.win, {wider, 0, routes}, inputs, torch::kDouble);
    EXPECT_GT(error_of(wrong, right, worst), 1e-6) << back_end.name;
  }
}

// Queries that begin later than their keys, as in decoding; what is read is counted alike.
TEST_F(BackEnds, SdpaTakesLaterQueriesAndCountsItsReads) {
  const ModelConfig config = small_config();
  constexpr std::int64_t kLength = 70;
  for (const std::int64_t first : {std::int64_t{3}, config.l - 1, std::int64_t{50}}) {
    Routes routes;
    Reads wanted;
    Reads found;
    SeamContext context{config, 0, routes};
    context.first = first;
    const Inputs win = make_inputs(config, kLength, kLength);
    const Inputs cmp = make_inputs(config, kLength, config.compressed_len(kLength));
    const auto compare = [&](const Attend& plain, const Attend& other, const Inputs& inputs) {
      const Tensor q_BHSD = inputs.q_BHSD.slice(2, first);
      context.reads = &wanted;
      const Tensor right = plain(context, q_BHSD, inputs.k_BGKD, inputs.v_BGKD);
      context.reads = &found;
      const Tensor o = other(context, q_BHSD, inputs.k_BGKD, inputs.v_BGKD);
      EXPECT_LE((o - right).abs().max().item<double>(), 1e-13) << first;
    };
    compare([](const auto&... x) { return reference::attend_win(x...); },
            [](const auto&... x) { return sdpa::attend_win(x...); },
            win);
    compare([](const auto&... x) { return reference::attend_cmp(x...); },
            [](const auto&... x) { return sdpa::attend_cmp(x...); },
            cmp);
    EXPECT_GT(wanted.win, 0);
    EXPECT_GT(wanted.cmp, 0);
    EXPECT_EQ(found, wanted) << first;
  }
}

TEST_F(BackEnds, SdpaCountsItselfInAModel) {
  const ModelConfig config = small_config();
  const auto tokens_BS = torch::randint(config.vocab_size, {1, 70}, torch::kLong);
  Tensor wanted;
  for (const std::string name : {"reference", "sdpa"}) {
    Routes routes;
    torch::manual_seed(3);
    const std::map<std::string, std::string> route = {{"attend_win", name}, {"attend_cmp", name}};
    NsaLm model(config, route, routes);
    model->to(torch::kDouble);
    const auto logits = model->forward(tokens_BS);
    next_token_loss(logits, tokens_BS).backward();
    int counted = 0;
    for (const auto& count : routes.counts()) {
      if (route.count(count.seam) == 0) continue;
      EXPECT_EQ(count.implementation, name);
      EXPECT_EQ(count.forward, 1);
      EXPECT_EQ(count.backward, 1);
      ++counted;
    }
    EXPECT_EQ(counted, 4);
    if (!wanted.defined()) wanted = logits.detach();
    EXPECT_LE((logits - wanted).abs().max().item<double>(), 1e-12) << name;
  }
}

// ---- refusals ------------------------------------------------------------------------------------

// What was refused: "seam implementation: reason", or "" when nothing was.
std::string refusal(const std::function<void()>& ask) {
  try {
    ask();
  } catch (const Refused& refused) {
    return refused.seam + " " + refused.implementation + ": " + refused.reason;
  }
  return "";
}

ModelConfig fitting_config() {
  ModelConfig config = small_config();
  config.d_k = config.d_v = 16;
  return config;
}

class Refusals : public ::testing::TestWithParam<std::string> {};

TEST_P(Refusals, OfFlashAttentionAreByName) {
  const std::string& name = GetParam();
  const ModelConfig fits = fitting_config();
  ModelConfig two_widths = fits;
  two_widths.d_v = 8;
  ModelConfig odd = fits;
  odd.d_k = odd.d_v = 12;
  ModelConfig wide = fits;
  wide.d_k = wide.d_v = 264;
  for (const std::string seam : {"attend_win", "attend_cmp"}) {
    const auto made = [&](const ModelConfig& config) {
      return refusal([&] { static_cast<void>(make_attention_seams(config, {{seam, name}})); });
    };
    const auto there = [&](torch::Device device, torch::ScalarType dtype, bool decodes) {
      return refusal([&] { check_route(fits, {{seam, name}}, {device, dtype, decodes}); });
    };
    const std::string who = seam + " " + name + ": ";
    EXPECT_EQ(made(fits), "");
    EXPECT_EQ(made(two_widths), who + "d_k 16 with d_v 8: keys and values have one width");
    EXPECT_EQ(made(odd), who + "head width 12: wanted a multiple of 8 up to 256");
    EXPECT_EQ(made(wide), who + "head width 264: wanted a multiple of 8 up to 256");
    EXPECT_EQ(there(torch::kCPU, torch::kBFloat16, false),
              who + "device cpu: its kernels are for CUDA");
    EXPECT_EQ(there(torch::kCUDA, torch::kFloat, false),
              who + "dtype Float: wanted BFloat16 or Half");
    EXPECT_EQ(there(torch::kCUDA, torch::kHalf, true),
              who + "decoding: its kernels do not tell what they read");
  }
  EXPECT_EQ(
      refusal([&] {
        static_cast<void>(make_attention_seams(fits, {{"attend_sel", name}}));
      }),
      "attend_sel " + name + ": the selected branch: it masks bands, and chosen blocks are none");
}

// Where nobody asked beforehand: the call itself refuses, says in which layer, and nothing ran or was counted.
TEST_P(Refusals, ComeFromTheCallAsWell) {
  const ModelConfig config = fitting_config();
  const AttentionSeams seams =
      make_attention_seams(config, {{"attend_win", GetParam()}, {"attend_cmp", GetParam()}});
  Routes routes;
  const SeamContext context{config, 5, routes};
  const auto tensor = [&](std::int64_t heads) { return torch::randn({1, heads, 40, 16}); };
  for (const auto* attend : {&seams.attend_win, &seams.attend_cmp}) {
    try {
      static_cast<void>((*attend)(context, tensor(4), tensor(2), tensor(2)));
      FAIL() << "was not refused";
    } catch (const Refused& refused) {
      EXPECT_EQ(refused.implementation, GetParam());
      EXPECT_EQ(refused.layer, 5);
      EXPECT_EQ(refused.reason, "device cpu: its kernels are for CUDA");
    }
  }
  try {
    static_cast<void>(
        seams.attend_win(context, tensor(4).to(torch::kBFloat16), tensor(2), tensor(2)));
    FAIL() << "was not refused";
  } catch (const Refused& refused) {
    EXPECT_EQ(refused.reason,
              "queries of BFloat16 with keys of Float and values of Float: wanted one dtype");
  }
  EXPECT_TRUE(routes.counts().empty());
}

INSTANTIATE_TEST_SUITE_P(FlashAttention, Refusals, ::testing::Values("fa2", "fa2_varlen"));

}  // namespace
}  // namespace nsa::testing
