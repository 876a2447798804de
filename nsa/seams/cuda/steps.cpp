#include "nsa/seams/cuda/steps.h"

#include <c10/core/DeviceGuard.h>

#include "nsa/seams/cuda/device.h"
#include "nsa/seams/no_keys.h"

namespace nsa::cuda {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

kernels::Pooled pooled_of(int choice) {
  return static_cast<kernels::Pooled>(choice);
}

const char* seam_of(kernels::Branch branch) {
  switch (branch) {
    case kernels::Branch::compressed: return "attend_cmp";
    case kernels::Branch::selected: return "attend_sel";
    case kernels::Branch::window: return "attend_win";
  }
  TORCH_CHECK(false, "unknown branch");
}

kernels::Branch branch_of(int choice) {
  return static_cast<kernels::Branch>(choice);
}

// Weights of phi conv [D,1,l] as the kernels read them, or null.
const void* conv_of(const Tensor& conv) {
  return conv.defined() ? conv.data_ptr() : nullptr;
}

struct Compress : Function<Compress> {
  static Tensor forward(AutogradContext* context,
                        const Tensor& raw_BGSD,
                        const std::optional<Tensor>& conv_D1l,
                        const kernels::Problem& problem,
                        kernels::Pooled what) {
    const c10::DeviceGuard guard(raw_BGSD.device());
    const Tensor raw = readable(raw_BGSD);
    const Tensor conv = without_gaps(conv_D1l);
    const Tensor out = new_heads(raw, raw.size(1), problem.compressed_rows(), raw.size(3));
    if (out.numel() > 0) {
      kernels::compress(problem,
                        what,
                        rows_of(raw),
                        conv_of(conv),
                        nullptr,
                        rows_of(out),
                        current_stream(raw.device()));
    }
    context->save_for_backward({raw, conv});
    keep(context, problem, static_cast<int>(what));
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const Kept& held = kept(context);
    const auto saved = context->get_saved_variables();
    const Tensor& raw = saved[0];
    const Tensor& conv = saved[1];
    const c10::DeviceGuard guard(raw.device());
    const Tensor d_raw = new_heads(raw, raw.size(1), raw.size(2), raw.size(3));
    const Tensor d_conv = conv.defined() ? new_floats(raw, conv.numel()) : Tensor();
    const Tensor d_out = readable(gradients[0]);
    if (d_out.numel() == 0) {  // no compressed token: nothing to go back through
      d_raw.zero_();
      if (d_conv.defined()) d_conv.zero_();
    } else {
      const Tensor space = new_bytes(raw, kernels::compress_backward_workspace(held.problem));
      kernels::compress_backward(held.problem,
                                 pooled_of(held.choice),
                                 rows_of(raw),
                                 conv_of(conv),
                                 rows_of(d_out),
                                 nullptr,
                                 rows_of(d_raw),
                                 d_conv.defined() ? d_conv.data_ptr<float>() : nullptr,
                                 space.data_ptr(),
                                 current_stream(raw.device()));
    }
    const Tensor d_weight =
        conv.defined() ? d_conv.view(conv.sizes()).to(conv.scalar_type()) : Tensor();
    return {d_raw, d_weight, Tensor(), Tensor()};
  }
};

struct Attend : Function<Attend> {
  static Tensor forward(AutogradContext* context,
                        const Tensor& q_BHSD,
                        const Tensor& k_BGKD,
                        const Tensor& v_BGKD,
                        const std::optional<Tensor>& blocks_BGSn,
                        const kernels::Problem& problem,
                        kernels::Branch branch) {
    const c10::DeviceGuard guard(q_BHSD.device());
    const Tensor q = readable(q_BHSD);
    const Tensor k = readable(k_BGKD);
    const Tensor v = readable(v_BGKD);
    const Tensor blocks = blocks_BGSn ? blocks_BGSn->to(torch::kInt).contiguous() : Tensor();
    const Tensor o = new_heads(q, q.size(1), q.size(2), v.size(3));
    const Tensor lse = new_floats(q, q.size(0) * q.size(1) * q.size(2));
    const Tensor space = new_bytes(q, kernels::attend_workspace(problem, branch));
    kernels::attend(problem,
                    branch,
                    operands(q, k, v, blocks),
                    rows_of(o),
                    lse.data_ptr<float>(),
                    space.data_ptr(),
                    current_stream(q.device()));
    context->save_for_backward({q, k, v, blocks, o, lse});
    keep(context, problem, static_cast<int>(branch));
    return o;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const Kept& held = kept(context);
    const auto saved = context->get_saved_variables();
    const Tensor& q = saved[0];
    const Tensor& k = saved[1];
    const Tensor& v = saved[2];
    const c10::DeviceGuard guard(q.device());
    const Tensor d_o = readable(gradients[0]);
    const Tensor d_q = new_heads(q, q.size(1), q.size(2), q.size(3));
    const Tensor d_k = new_heads(k, k.size(1), k.size(2), k.size(3));
    const Tensor d_v = new_heads(v, v.size(1), v.size(2), v.size(3));
    const auto branch = branch_of(held.choice);
    const Tensor space = new_bytes(q, kernels::attend_backward_workspace(held.problem, branch));
    kernels::attend_backward(held.problem,
                             branch,
                             operands(q, k, v, saved[3]),
                             rows_of(saved[4]),
                             saved[5].data_ptr<float>(),
                             rows_of(d_o),
                             rows_of(d_q),
                             rows_of(d_k),
                             rows_of(d_v),
                             space.data_ptr(),
                             current_stream(q.device()));
    return {d_q, d_k, d_v, Tensor(), Tensor(), Tensor()};
  }

 private:
  static kernels::AttendInputs operands(const Tensor& q,
                                        const Tensor& k,
                                        const Tensor& v,
                                        const Tensor& blocks) {
    kernels::AttendInputs in;
    in.q = rows_of(q);
    in.k = rows_of(k);
    in.v = rows_of(v);
    if (blocks.defined()) in.blocks = rows_of(blocks);
    return in;
  }
};

kernels::Problem problem_like(const BackEnd& back_end,
                              const SeamContext& context,
                              const Tensor& x) {
  return problem_of(back_end, context.config, x.scalar_type(), x.size(0), x.size(2));
}
// x are queries, which begin at the context's position.
kernels::Problem problem_of_queries(const BackEnd& back_end,
                                    const SeamContext& context,
                                    const Tensor& x) {
  kernels::Problem problem = problem_like(back_end, context, x);
  problem.first = context.first;
  return problem;
}

}  // namespace

Tensor compress(const BackEnd& back_end,
                const SeamContext& context,
                const Tensor& raw_BGSD,
                Pooled what,
                const PhiWeights& weights) {
  std::vector<Tensor> operands = {raw_BGSD};
  if (weights.conv.defined()) operands.push_back(weights.conv);
  refuse_unsupported(back_end, Part::compress, "compress", context, operands);
  const Tensor pooled_BGCD =
      Compress::apply(raw_BGSD,
                      optional_of(weights.conv),
                      problem_like(back_end, context, raw_BGSD),
                      what == Pooled::key ? kernels::Pooled::keys : kernels::Pooled::values);
  context.routes.ran("compress", context.layer, back_end.name, pooled_BGCD);
  return pooled_BGCD;
}

Tensor score(const BackEnd& back_end,
             const SeamContext& context,
             const Tensor& q_BHSD,
             const Tensor& k_cmp_BGCD) {
  refuse_unsupported(back_end, Part::score, "score", context, {q_BHSD, k_cmp_BGCD});
  const torch::NoGradGuard no_gradient;
  const c10::DeviceGuard guard(q_BHSD.device());
  kernels::Problem problem = problem_of_queries(back_end, context, q_BHSD);
  const Tensor q = readable(q_BHSD);
  const Tensor k = readable(k_cmp_BGCD);
  const auto stream = current_stream(q.device());
  const Tensor p_grp = torch::empty({q.size(0), k.size(1), q.size(2), problem.block_count()},
                                    q.options().dtype(torch::kFloat));
  if (k.size(2) == 0) {
    p_grp.zero_();
  } else {
    problem.d_v =
        problem.d_k;  // the keys stand for the values of the pass that finds the denominators
    const Tensor o = new_heads(q, q.size(1), q.size(2), q.size(3));
    const Tensor lse = new_floats(q, q.size(0) * q.size(1) * q.size(2));
    kernels::AttendInputs in;
    in.q = rows_of(q);
    in.k = in.v = rows_of(k);
    kernels::attend(problem,
                    kernels::Branch::compressed,
                    in,
                    rows_of(o),
                    lse.data_ptr<float>(),
                    nullptr,
                    stream);
    kernels::score(problem, in.q, in.k, lse.data_ptr<float>(), nullptr, rows_of(p_grp), stream);
  }
  context.routes.ran("score", context.layer, back_end.name);
  return p_grp;
}

Tensor select(const BackEnd& back_end, const SeamContext& context, const Tensor& p_grp_BGSN) {
  refuse_unsupported(back_end, Part::select, "select", context, {p_grp_BGSN});
  const torch::NoGradGuard no_gradient;
  const c10::DeviceGuard guard(p_grp_BGSN.device());
  const Tensor p_grp = p_grp_BGSN.contiguous();
  const auto& config = context.config;
  auto problem = problem_of(back_end, config, torch::kBFloat16, p_grp.size(0), p_grp.size(2));
  problem.first = context.first;
  const Tensor blocks = torch::empty({p_grp.size(0), p_grp.size(1), p_grp.size(2), config.n_sel},
                                     p_grp.options().dtype(torch::kInt));
  kernels::select(
      problem, rows_of(p_grp), nullptr, rows_of(blocks), current_stream(p_grp.device()));
  context.routes.ran("select", context.layer, back_end.name);
  return blocks.to(torch::kLong);
}

Tensor attend(const BackEnd& back_end,
              const SeamContext& context,
              kernels::Branch branch,
              const Tensor& q_BHSD,
              const Tensor& k_BGKD,
              const Tensor& v_BGKD,
              const Tensor& blocks_BGSn) {
  const char* seam = seam_of(branch);
  refuse_unsupported(back_end, Part::attend, seam, context, {q_BHSD, k_BGKD, v_BGKD});
  const Tensor o_BHSD = k_BGKD.size(2) == 0
                            ? over_no_keys(q_BHSD, k_BGKD, v_BGKD)
                            : Attend::apply(q_BHSD,
                                            k_BGKD,
                                            v_BGKD,
                                            optional_of(blocks_BGSn),
                                            problem_of_queries(back_end, context, q_BHSD),
                                            branch);
  context.routes.ran(seam, context.layer, back_end.name, o_BHSD);
  return o_BHSD;
}

}  // namespace nsa::cuda
