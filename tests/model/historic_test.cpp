// The historic forms of the selected branch, and the one by hand, against the reference: outputs and gradients, at every edge
// length, in float64 and float32, also where uninitialised memory is NaN.

#include "nsa/seams/historic/historic.h"

#include <cmath>
#include <functional>

#include <torch/csrc/autograd/autograd.h>

#include "nsa/seams/by_hand/by_hand.h"
#include "tests/model/attend_result.h"
#include "tests/model/support.h"
#include "tests/model/variants.h"

namespace nsa::testing {
namespace {

using torch::Tensor;

using AttendSel = std::function<Tensor(
    const SeamContext&, const Tensor&, const Tensor&, const Tensor&, const Tensor&)>;

constexpr std::int64_t kChunk = 40'000;  // bytes: several chunks at these sizes

const std::vector<std::pair<std::string, AttendSel>>& forms() {
  static const std::vector<std::pair<std::string, AttendSel>> list = {
      {"masked",
       [](const auto&... arguments) { return historic::attend_sel_masked(arguments..., kChunk); }},
      {"packed",
       [](const auto&... arguments) { return historic::attend_sel_packed(arguments..., kChunk); }},
      {"gather",
       [](const auto&... arguments) { return historic::attend_sel_gather(arguments..., kChunk); }},
      {"by_hand", by_hand::attend_sel},
  };
  return list;
}

struct Case {
  Tensor q_BHSD, k_BGSD, v_BGSD, dy_BHSD, blocks_BGSn;
};

// Row 0 of the first group has no block at all.
Case make_case(const SeamContext& context, std::int64_t length, double scale) {
  const auto& config = context.config;
  const auto normal = [&](std::int64_t heads, std::int64_t width) {
    return torch::randn({2, heads, length, width}, torch::kDouble);
  };
  Case made{normal(config.n_heads, config.d_k) * scale,
            normal(config.n_kv_groups, config.d_k),
            normal(config.n_kv_groups, config.d_v),
            normal(config.n_heads, config.d_v),
            {}};
  const auto scores =
      torch::rand({2, config.n_kv_groups, length, config.block_count(length)}, torch::kDouble);
  made.blocks_BGSn = reference::select(context, scores);
  made.blocks_BGSn[0][0][0].fill_(-1);
  return made;
}

AttendResult run(const AttendSel& form,
                 const SeamContext& context,
                 const Case& test,
                 torch::Dtype dtype) {
  std::vector<Tensor> leaves;
  for (const auto& tensor : {test.q_BHSD, test.k_BGSD, test.v_BGSD}) {
    leaves.push_back(tensor.to(dtype).detach().clone().requires_grad_());
  }
  const Tensor o_BHSD = form(context, leaves[0], leaves[1], leaves[2], test.blocks_BGSn);
  EXPECT_EQ(o_BHSD.scalar_type(), dtype);
  return {o_BHSD, torch::autograd::grad({o_BHSD}, leaves, {test.dy_BHSD.to(dtype)})};
}

class Historic : public ::testing::Test {
 protected:
  void SetUp() override {
    torch::set_num_threads(1);
    torch::manual_seed(5);
  }

  // Every form at one length.
  static void compare(const ModelConfig& config, std::int64_t length, double scale) {
    Routes routes;
    const SeamContext context{config, 0, routes};
    const Case test = make_case(context, length, scale);
    const AttendSel reference = [](const auto&... arguments) {
      return reference::attend_sel(arguments...);
    };
    const AttendResult wanted = run(reference, context, test, torch::kDouble);
    // Terms of the longest sum: keys of a row and their width forward; rows and heads that share a key backward.
    const auto terms =
        std::max(config.n_sel * config.l_sel + config.d_k, length * config.heads_per_group());
    const double fp32_ceiling = 64 * std::sqrt(static_cast<double>(terms)) * std::ldexp(1.0, -24);
    for (const auto& [name, form] : forms()) {
      SCOPED_TRACE(name + " at length " + std::to_string(length));
      std::string worst;
      const AttendResult fp64 = run(form, context, test, torch::kDouble);
      EXPECT_LE(error_of(fp64, wanted, worst), 1e-12) << worst;
      EXPECT_LE(error_of(run(form, context, test, torch::kFloat), wanted, worst), fp32_ceiling)
          << worst;
      EXPECT_EQ(fp64.o_BHSD.slice(1, 0, config.heads_per_group())[0]
                    .select(1, 0)
                    .abs()
                    .max()
                    .item<double>(),
                0.0);
    }
  }

  static void every_length(const ModelConfig& config) {
    for (const std::int64_t length : {std::int64_t{1},
                                      config.l - 1,
                                      config.l,
                                      config.l_sel - 1,
                                      config.l_sel,
                                      config.l_sel + 1,
                                      std::int64_t{37},
                                      std::int64_t{131}}) {
      compare(config, length, length % 2 == 0 ? 5.0 : 1.0);
    }
  }
};

TEST_F(Historic, EqualTheReferenceAtEveryLength) {
  for (const auto& [name, config] : variants()) {
    SCOPED_TRACE(name);
    every_length(config);
  }
}

// Nothing that was never written may be read.
TEST_F(Historic, EqualTheReferenceWhereUninitialisedMemoryIsNan) {
  const EmptyIsNan empty_is_nan;
  every_length(small_config());
}

// A wrong block, a key too many or one too few must show.
TEST_F(Historic, NoticeWhichKeysAreSelected) {
  const ModelConfig config = small_config();
  Routes routes;
  const SeamContext context{config, 0, routes};
  const Case test = make_case(context, 131, 1.0);
  Case other = test;
  other.blocks_BGSn = test.blocks_BGSn.clone();
  other.blocks_BGSn[1][1][130][0].fill_(1 +
                                        other.blocks_BGSn[1][1][130][0].item<std::int64_t>() % 2);
  for (const auto& [name, form] : forms()) {
    std::string worst;
    const double error = error_of(
        run(form, context, other, torch::kDouble), run(form, context, test, torch::kDouble), worst);
    EXPECT_GT(error, 1e-6) << name;
  }
}

// Queries that begin later than their keys, as in decoding; what is read is counted alike.
TEST_F(Historic, LaterQueriesAndReads) {
  const ModelConfig config = small_config();
  Routes routes;
  Reads reads;
  SeamContext context{config, 0, routes};
  context.reads = &reads;
  const Case test = make_case(context, 70, 1.0);
  const auto blocks_BGTn = test.blocks_BGSn.slice(2, 50);
  const Tensor whole =
      reference::attend_sel(context, test.q_BHSD, test.k_BGSD, test.v_BGSD, test.blocks_BGSn);
  const auto all_read = reads.sel;
  EXPECT_GT(all_read, 0);
  for (const auto& [name, form] : forms()) {
    context.first = 0;
    reads = {};
    static_cast<void>(form(context, test.q_BHSD, test.k_BGSD, test.v_BGSD, test.blocks_BGSn));
    EXPECT_EQ(reads.sel, all_read) << name;
    context.first = 50;
    const Tensor late =
        form(context, test.q_BHSD.slice(2, 50), test.k_BGSD, test.v_BGSD, blocks_BGTn);
    EXPECT_LE((late - whole.slice(2, 50)).abs().max().item<double>(), 1e-14) << name;
  }
}

TEST_F(Historic, CountThemselvesInAModel) {
  const ModelConfig config = small_config();
  const auto tokens_BS = torch::randint(config.vocab_size, {1, 70}, torch::kLong);
  Tensor wanted;
  for (const std::string name : {"reference", "masked", "packed", "gather"}) {
    Routes routes;
    torch::manual_seed(3);
    NsaLm model(config, std::map<std::string, std::string>{{"attend_sel", name}}, routes);
    model->to(torch::kDouble);
    const auto logits = model->forward(tokens_BS);
    next_token_loss(logits, tokens_BS).backward();
    int counted = 0;
    for (const auto& count : routes.counts()) {
      if (count.seam != "attend_sel") continue;
      EXPECT_EQ(count.implementation, name);
      EXPECT_EQ(count.forward, 1);
      EXPECT_EQ(count.backward, 1);
      ++counted;
    }
    EXPECT_EQ(counted, 2);
    if (!wanted.defined()) wanted = logits.detach();
    EXPECT_LE((logits - wanted).abs().max().item<double>(), 1e-12) << name;
  }
}

}  // namespace
}  // namespace nsa::testing
