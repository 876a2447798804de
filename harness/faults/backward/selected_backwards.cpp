// Backwards of the selected branch as fused kernels got them wrong, each behind a forward that is right: the softmax's mean
// subtracted once for every tile of the values; gradients of blocks that several queries chose lost or counted twice; lists of
// the blocks of a query read where the queries of a block are wanted. Computed densely: for sequences of some hundred tokens.
#include <cmath>

#include <torch/csrc/autograd/custom_function.h>

#include "harness/faults/faults.h"

namespace harness {
namespace {

using nsa::SeamContext;
using torch::Tensor;

// What a wrong backward does otherwise. Shapes [B,G,S,S]: query by key.
struct WrongBackward {
  double deltas = 1.0;  // how often sum p dp is subtracted from dp
  Tensor counts;  // how often a query adds to the gradients of a key; as it attends where undefined
};

// Which blocks a query lists: [B,G,S,N], from blocks_BGSn with -1 behind the last.
Tensor listed_blocks(const SeamContext& seam, const Tensor& blocks_BGSn) {
  const std::int64_t length = blocks_BGSn.size(2);
  const std::int64_t all = (length + seam.config.l_sel - 1) / seam.config.l_sel;
  std::vector<std::int64_t> shape = blocks_BGSn.sizes().vec();
  shape.back() = all + 1;  // the first is that of the -1
  return torch::zeros(shape, blocks_BGSn.options())
      .scatter_(3, blocks_BGSn + 1, 1)
      .slice(3, 1)
      .to(torch::kFloat);
}

Tensor blocks_of_tokens(const SeamContext& seam, std::int64_t length, torch::Device device) {
  return torch::arange(length, torch::TensorOptions(torch::kLong).device(device))
      .floor_divide(seam.config.l_sel);
}

// 1 where the query attends to the key: its block is listed and the key is not after the query.
Tensor attended_keys(const SeamContext& seam, const Tensor& listed_BGSN) {
  const std::int64_t length = listed_BGSN.size(2);
  const Tensor of_key_S = blocks_of_tokens(seam, length, listed_BGSN.device());
  return listed_BGSN.index_select(3, of_key_S).tril();
}

class AttendSelected : public torch::autograd::Function<AttendSelected> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context,
                        const Tensor& q_BHSD,
                        const Tensor& k_BGSD,
                        const Tensor& v_BGSD,
                        const Tensor& right_BHSD,
                        const Tensor& attended_BGSS,
                        const WrongBackward& wrong) {
    context->save_for_backward({q_BHSD, k_BGSD, v_BGSD, attended_BGSS, wrong.counts});
    context->saved_data["deltas"] = wrong.deltas;
    return right_BHSD.clone();
  }

  // Heads [B,G,h,S,D]: keys and values get the sum over h.
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor q = by_group(saved[0], saved[1].size(1));
    const Tensor k = saved[1].to(torch::kFloat).unsqueeze(2);
    const Tensor v = saved[2].to(torch::kFloat).unsqueeze(2);
    const Tensor attended = saved[3].unsqueeze(2);
    const Tensor counts = saved[4].defined() ? saved[4].unsqueeze(2) : attended;
    const Tensor dy = by_group(gradients[0], saved[1].size(1));
    const double scale = 1.0 / std::sqrt(static_cast<double>(q.size(4)));

    const Tensor s = torch::matmul(q, k.transpose(3, 4)) * scale;
    const Tensor lse = s.masked_fill(attended.eq(0), -INFINITY).logsumexp(-1, true);
    const Tensor dp = torch::matmul(dy, v.transpose(3, 4));
    const Tensor p = probabilities(s, lse, attended);
    const Tensor mean = (p * dp).sum(-1, true) * context->saved_data["deltas"].toDouble();
    const Tensor dq = torch::matmul(p * (dp - mean), k) * scale;
    const Tensor counted = probabilities(s, lse, counts);
    const Tensor dk = torch::matmul((counted * (dp - mean)).transpose(3, 4), q).sum(2) * scale;
    const Tensor dv = torch::matmul(counted.transpose(3, 4), dy).sum(2);
    return {dq.reshape(saved[0].sizes()).to(saved[0].scalar_type()),
            dk.to(saved[1].scalar_type()),
            dv.to(saved[2].scalar_type()),
            torch::zeros_like(gradients[0]),  // its own backward runs, and adds nothing
            Tensor(),
            Tensor()};
  }

 private:
  static Tensor by_group(const Tensor& x_BHSD, std::int64_t groups) {
    return x_BHSD.to(torch::kFloat).unflatten(1, {groups, x_BHSD.size(1) / groups});
  }

  // exp(s - lse) times `counts`; zero where that is zero, and in rows without keys.
  static Tensor probabilities(const Tensor& s, const Tensor& lse, const Tensor& counts) {
    const Tensor p = torch::exp(s - lse) * counts;
    return torch::where(counts.eq(0).logical_or(lse.eq(-INFINITY)), torch::zeros_like(p), p);
  }
};

// Puts the backward that `wrong_of(seam, listed, attended)` describes behind the selected branch of the fault's layers.
template <typename WrongOf>
void replace_backward(FaultContext& context, WrongOf wrong_of) {
  const int n_layers = static_cast<int>(context.model->config().n_layers);
  for (const int layer : fault_layers(context.request, n_layers)) {
    nsa::AttentionSeams& seams = context.model->attention(layer)->seams();
    seams.attend_sel = [inner = seams.attend_sel, &context, wrong_of](const SeamContext& seam,
                                                                      const Tensor& q_BHSD,
                                                                      const Tensor& k_BGSD,
                                                                      const Tensor& v_BGSD,
                                                                      const Tensor& blocks_BGSn) {
      if (!context.holds_now()) return inner(seam, q_BHSD, k_BGSD, v_BGSD, blocks_BGSn);
      const Tensor right_BHSD = inner(seam, q_BHSD, k_BGSD, v_BGSD, blocks_BGSn);
      const Tensor listed_BGSN = listed_blocks(seam, blocks_BGSn);
      const Tensor attended_BGSS = attended_keys(seam, listed_BGSN);
      context.fired();
      return AttendSelected::apply(q_BHSD,
                                   k_BGSD,
                                   v_BGSD,
                                   right_BHSD,
                                   attended_BGSS,
                                   wrong_of(seam, listed_BGSN, attended_BGSS));
    };
  }
}

void split_values(FaultContext& context) {
  replace_backward(context, [](const SeamContext&, const Tensor&, const Tensor&) {
    return WrongBackward{2.0, {}};
  });
}

// A sum without atomics keeps the last writer's share; one that adds lists twice counts shared blocks double.
void race_of_picks(FaultContext& context) {
  const bool lost = fault_form(context.request, {"lost", "doubled"}) == "lost";
  replace_backward(
      context,
      [lost](const SeamContext& seam, const Tensor& listed_BGSN, const Tensor& attended_BGSS) {
        const std::int64_t length = listed_BGSN.size(2);
        const Tensor of_key_S = blocks_of_tokens(seam, length, listed_BGSN.device());
        const Tensor position_S1 = torch::arange(length, listed_BGSN.options()).unsqueeze(1);
        const Tensor by_last = (listed_BGSN * (position_S1 + 1)).amax(2, true).eq(position_S1 + 1);
        const Tensor by_many = listed_BGSN.sum(2, true).gt(1).expand_as(listed_BGSN);
        const Tensor factor_BGSN = lost ? by_last.to(torch::kFloat) : by_many.to(torch::kFloat) + 1;
        return WrongBackward{1.0, attended_BGSS * factor_BGSN.index_select(3, of_key_S)};
      });
}

void transposed_lists(FaultContext& context) {
  replace_backward(context, [](const SeamContext& seam, const Tensor& listed_BGSN, const Tensor&) {
    const Tensor of_query_S = blocks_of_tokens(seam, listed_BGSN.size(2), listed_BGSN.device());
    return WrongBackward{1.0, listed_BGSN.index_select(3, of_query_S).transpose(2, 3)};
  });
}

}  // namespace

Faults faults_of_selected_backwards() {
  return {{"value_split_delta",
           "the selected branch's backward subtracts the softmax's mean once for each of two tiles "
           "of the values",
           {"layers", "step"},
           split_values},
          {"duplicate_pick_race",
           "gradients of keys and values of a block that several queries chose are lost, or count "
           "twice",
           {"layers", "step", "form"},
           race_of_picks,
           {"lost", "doubled"}},
          {"transposed_lists_reused",
           "the selected branch's backward reads a query's blocks where it needs a block's queries",
           {"layers", "step"},
           transposed_lists}};
}

}  // namespace harness
