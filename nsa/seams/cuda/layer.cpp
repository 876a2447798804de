#include "nsa/seams/cuda/layer.h"

#include <c10/core/DeviceGuard.h>

#include "nsa/kernels/branches.h"
#include "nsa/seams/cuda/device.h"
#include "nsa/seams/cuda/documents.h"
#include "nsa/seams/cuda/projections.h"
#include "nsa/seams/fan_out.h"
#include "nsa/seams/refused.h"

namespace nsa::cuda {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// B = 1 where documents are packed: their tokens one after the other.
struct Operands {
  Projected x;  // by Column; where the caller pools, compressed tokens in the place of the raw ones
  Tensor gates;           // [B,G|H,S,3]
  Tensor k_conv, v_conv;  // phi conv: [D,1,l]
  Tensor starts;          // of packed documents: int32
};

// What lies between the operands and the sum of the branches. The outputs of the branches are not there where nobody goes back
// and nobody looks. The compressed tokens are handed out in any case: decoding goes on with them.
struct Between {
  Tensor k_cmp, v_cmp;
  Tensor o_cmp, o_sel, o_win;
  Tensor lse;     // of the three branches, one after the other
  Tensor blocks;  // int32
  Tensor p_grp;   // where somebody looks
};

Between new_between(const kernels::Problem& problem, const Tensor& like, bool keeps_outputs) {
  Between between;
  const std::int64_t heads = std::int64_t{problem.groups} * problem.heads;
  const std::int64_t length = like.size(2);
  between.k_cmp = new_heads(like, problem.groups, problem.compressed_rows(), problem.d_k);
  between.v_cmp = new_heads(like, problem.groups, problem.compressed_rows(), problem.d_v);
  if (keeps_outputs) {
    for (Tensor* o : {&between.o_cmp, &between.o_sel, &between.o_win}) {
      *o = new_heads(like, heads, length, problem.d_v);
    }
  }
  between.lse = new_floats(like, 3 * like.size(0) * heads * length);
  between.blocks = torch::empty({like.size(0), length, problem.groups, problem.n_sel},
                                like.options().dtype(torch::kInt))
                       .transpose(1, 2);
  return between;
}

// What goes from the forward to the backward pass, in the order in which it is saved.
std::vector<Tensor*> kept_tensors(Operands& operands, Between& between) {
  std::vector<Tensor*> tensors;
  for (Tensor& x : operands.x) tensors.push_back(&x);
  tensors.insert(tensors.end(),
                 {&operands.gates,
                  &operands.k_conv,
                  &operands.v_conv,
                  &operands.starts,
                  &between.k_cmp,
                  &between.v_cmp,
                  &between.o_cmp,
                  &between.o_sel,
                  &between.o_win,
                  &between.lse,
                  &between.blocks});
  return tensors;
}

// `Views`: kernels::Inputs of the projections and gates, or kernels::Gradients of theirs.
template <typename Views>
Views views_of(const Projected& x, const Tensor& gates) {
  const auto rows = [&](Column column) { return rows_of(column_of(x, column)); };
  Views views;
  views.q = rows(Column::q);
  views.k_raw = rows(Column::k_cmp);
  views.v_raw = rows(Column::v_cmp);
  views.k_sel = rows(Column::k_sel);
  views.v_sel = rows(Column::v_sel);
  views.k_win = rows(Column::k_win);
  views.v_win = rows(Column::v_win);
  views.gates = rows_of(gates);
  return views;
}

kernels::Inputs inputs_of(const Operands& operands) {
  auto in = views_of<kernels::Inputs>(operands.x, operands.gates);
  if (operands.k_conv.defined()) in.k_conv = operands.k_conv.data_ptr();
  if (operands.v_conv.defined()) in.v_conv = operands.v_conv.data_ptr();
  if (operands.starts.defined()) in.cu_seqlens = operands.starts.data_ptr<std::int32_t>();
  return in;
}

kernels::Saved saved_of(const Between& between) {
  kernels::Saved saved;
  saved.k_cmp = rows_of(between.k_cmp);
  saved.v_cmp = rows_of(between.v_cmp);
  if (between.o_cmp.defined()) {
    saved.o_cmp = rows_of(between.o_cmp);
    saved.o_sel = rows_of(between.o_sel);
    saved.o_win = rows_of(between.o_win);
  }
  const std::int64_t rows = between.lse.numel() / 3;
  saved.lse_cmp = between.lse.data_ptr<float>();
  saved.lse_sel = saved.lse_cmp + rows;
  saved.lse_win = saved.lse_sel + rows;
  saved.blocks = rows_of(between.blocks);
  return saved;
}

Tensor scores_of(const kernels::Problem& problem,
                 const kernels::Inputs& in,
                 const kernels::Saved& saved,
                 const Tensor& like) {
  const Tensor p_grp =
      torch::zeros({like.size(0), problem.groups, like.size(2), problem.block_count()},
                   like.options().dtype(torch::kFloat));
  if (problem.compressed_rows() > 0) {
    kernels::score(problem,
                   in.q,
                   saved.k_cmp,
                   saved.lse_cmp,
                   in.cu_seqlens,
                   rows_of(p_grp),
                   current_stream(like.device()));
  }
  return p_grp;
}

// The three branches and their gated sum: o [B,H,S,d_v].
struct Branches : torch::autograd::Function<Branches> {
  static Tensor forward(AutogradContext* context,
                        const Tensor& q,
                        const Tensor& k_cmp,
                        const Tensor& k_sel,
                        const Tensor& k_win,
                        const Tensor& v_cmp,
                        const Tensor& v_sel,
                        const Tensor& v_win,
                        const Tensor& gates,
                        const std::optional<Tensor>& k_conv,
                        const std::optional<Tensor>& v_conv,
                        const std::optional<Tensor>& starts,
                        const kernels::Problem& problem,
                        bool keeps_outputs,
                        bool shown,
                        Between* handed) {
    const c10::DeviceGuard guard(q.device());
    Operands operands{{q, k_cmp, k_sel, k_win, v_cmp, v_sel, v_win},
                      gates.stride(3) == 1 ? gates : gates.contiguous(),
                      without_gaps(k_conv),
                      without_gaps(v_conv),
                      without_gaps(starts)};
    for (Tensor& x : operands.x) x = readable(x);
    Between between = new_between(problem, q, keeps_outputs);
    if (problem.phi == kernels::Phi::caller) {
      between.k_cmp = column_of(operands.x, Column::k_cmp);
      between.v_cmp = column_of(operands.x, Column::v_cmp);
    }
    Tensor o = new_heads(q, q.size(1), q.size(2), problem.d_v);
    const Tensor space = new_bytes(q, kernels::forward_workspace(problem, keeps_outputs));
    const kernels::Inputs in = inputs_of(operands);
    const kernels::Saved saved = saved_of(between);
    kernels::forward(problem, in, saved, rows_of(o), space.data_ptr(), current_stream(q.device()));
    handed->k_cmp = between.k_cmp;
    handed->v_cmp = between.v_cmp;
    if (shown) {
      *handed = between;
      handed->p_grp = scores_of(problem, in, saved, q);
    }
    variable_list to_save;
    for (const Tensor* x : kept_tensors(operands, between)) to_save.push_back(*x);
    context->save_for_backward(to_save);
    keep(context, problem, 0);
    return o;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients);
};

variable_list Branches::backward(AutogradContext* context, const variable_list& gradients) {
  const kernels::Problem& problem = kept(context).problem;
  Operands operands;
  Between between;
  const variable_list saved = context->get_saved_variables();
  const std::vector<Tensor*> tensors = kept_tensors(operands, between);
  for (std::size_t i = 0; i < saved.size(); ++i) *tensors[i] = saved[i];
  const Tensor& q = operands.x.front();
  const c10::DeviceGuard guard(q.device());
  const Tensor d_o = readable(gradients[0]);
  // In rows as the projections are, so that they are one matrix for what comes before.
  const RowShape shape{
      std::int64_t{problem.groups} * problem.heads, problem.groups, problem.d_k, problem.d_v};
  Projected d_x = columns_of(shape, new_rows(shape, q, q.size(0), q.size(2)));
  if (problem.phi == kernels::Phi::caller) {
    for (const Column column : {Column::k_cmp, Column::v_cmp}) {
      const Tensor& compressed = column_of(operands.x, column);
      column_of(d_x, column) =
          new_heads(q, compressed.size(1), compressed.size(2), compressed.size(3));
    }
  }
  const Tensor d_gates = torch::empty_like(operands.gates, at::MemoryFormat::Contiguous);
  auto to = views_of<kernels::Gradients>(d_x, d_gates);
  Tensor d_k_conv;
  Tensor d_v_conv;
  if (operands.k_conv.defined()) {
    d_k_conv = new_floats(q, operands.k_conv.numel());
    d_v_conv = new_floats(q, operands.v_conv.numel());
    to.k_conv = d_k_conv.data_ptr<float>();
    to.v_conv = d_v_conv.data_ptr<float>();
  }
  const Tensor space = new_bytes(q, kernels::backward_workspace(problem));
  kernels::backward(problem,
                    inputs_of(operands),
                    saved_of(between),
                    rows_of(d_o),
                    to,
                    space.data_ptr(),
                    current_stream(q.device()));
  const auto like = [](const Tensor& gradient, const Tensor& weight) {
    return weight.defined() ? gradient.view(weight.sizes()).to(weight.scalar_type()) : Tensor();
  };
  variable_list results(d_x.begin(), d_x.end());
  results.insert(results.end(),
                 {d_gates,
                  like(d_k_conv, operands.k_conv),
                  like(d_v_conv, operands.v_conv),
                  Tensor(),
                  Tensor(),
                  Tensor(),
                  Tensor(),
                  Tensor()});
  return results;
}

// One layer: from its input to its output.
class Layer {
 public:
  Layer(const BackEnd& back_end,
        const SeamContext& context,
        const AttentionSeams& seams,
        const AttentionWeights& weights)
      : back_end_(back_end),
        context_(context),
        config_(context.config),
        seams_(seams),
        weights_(weights) {}

  AttentionTrace run(reference::RopeTable& table, const Tensor& x_BSE) {
    if (context_.documents == nullptr) return run_rows(table, x_BSE);
    context_.documents->require_of(x_BSE);
    const Tensor x_1TE = x_BSE.reshape({1, -1, x_BSE.size(2)});
    return trace_of_batch(run_rows(table, x_1TE), *context_.documents, config_, x_BSE);
  }

 private:
  AttentionTrace run_rows(reference::RopeTable& table, const Tensor& x_BSE) {
    refuse(x_BSE);
    const bool per_head = config_.gate == Gate::head_sigmoid && !context_.gate_override;
    const auto x_of = fan_out(x_BSE, per_head ? 2 : 1);
    const auto angles = angles_of(table, x_BSE);
    const Projections projected =
        project(config_, weights_, x_of.front(), angles.cos_SD, angles.sin_SD);
    const Tensor gate = reference::gate_of_means(
        context_, x_of.back(), projected.means_BSGD.transpose(1, 2), weights_.gate);
    Between between;
    const Tensor o_BHSD = mixed(pooled(projected.columns), gate, &between);
    const Tensor y_BSE = torch::linear(o_BHSD.transpose(1, 2).flatten(2), weights_.out);
    context_.routes.ran("attention", context_.layer, back_end_.name, y_BSE);
    return trace_of(x_BSE, projected.columns, gate, between, y_BSE);
  }

  // Of each position of x: of packed documents, where it stands in its own.
  [[nodiscard]] reference::Angles angles_of(reference::RopeTable& table,
                                            const Tensor& x_BSE) const {
    const PackedDocuments* documents = context_.documents;
    const std::int64_t length = documents == nullptr ? x_BSE.size(1) : documents->longest();
    auto angles = reference::angles(
        table, config_, length, x_BSE.options().dtype(torch::kFloat), config_.d_k);
    if (documents == nullptr) return angles;
    const Tensor& positions_T = documents->places(x_BSE.device()).positions_T;
    return {angles.cos_SD.index_select(0, positions_T), angles.sin_SD.index_select(0, positions_T)};
  }

  void refuse(const Tensor& x_BSE) const {
    std::vector<Tensor> operands = {x_BSE, weights_.q, weights_.out};
    if (weights_.phi_k.conv.defined()) operands.push_back(weights_.phi_k.conv);
    refuse_unsupported(back_end_, Part::whole_layer, "attention", context_, operands);
    if (context_.documents != nullptr && config_.phi == Phi::mlp) {
      throw Refused("attention",
                    back_end_.name,
                    "packed documents with phi mlp: its pooling takes one sequence",
                    context_.layer);
    }
  }

  // Compressed tokens in the place of the raw ones where the kernels do not pool.
  [[nodiscard]] Projected pooled(const Projected& projected) const {
    Projected x = projected;
    if (config_.phi != Phi::mlp) return x;
    Tensor& k = column_of(x, Column::k_cmp);
    Tensor& v = column_of(x, Column::v_cmp);
    k = seams_.compress(context_, k, Pooled::key, weights_.phi_k);
    v = seams_.compress(context_, v, Pooled::value, weights_.phi_v);
    return x;
  }

  [[nodiscard]] Tensor mixed(const Projected& x, const Tensor& gate, Between* between) const {
    auto problem = problem_of(back_end_, config_, gate.scalar_type(), gate.size(0), gate.size(2));
    Tensor starts;
    if (const PackedDocuments* documents = context_.documents; documents != nullptr) {
      put_documents(*documents, problem);
      starts = documents->places(gate.device()).starts;
    }
    const bool differentiates = torch::GradMode::is_enabled() && x.front().requires_grad();
    return Branches::apply(x[0],
                           x[1],
                           x[2],
                           x[3],
                           x[4],
                           x[5],
                           x[6],
                           gate,
                           optional_of(weights_.phi_k.conv),
                           optional_of(weights_.phi_v.conv),
                           optional_of(starts),
                           problem,
                           differentiates || context_.shown,
                           context_.shown,
                           between);
  }

  [[nodiscard]] AttentionTrace trace_of(const Tensor& x_BSE,
                                        const Projected& x,
                                        const Tensor& gate,
                                        const Between& between,
                                        const Tensor& y_BSE) const {
    const auto column = [&](Column which) { return column_of(x, which); };
    AttentionTrace trace;
    trace.layer = context_.layer;
    trace.x_BSE = x_BSE;
    trace.q_BHSD = column(Column::q);
    trace.k_raw_BGSD = column(Column::k_cmp);
    trace.v_raw_BGSD = column(Column::v_cmp);
    trace.k_sel_BGSD = column(Column::k_sel);
    trace.v_sel_BGSD = column(Column::v_sel);
    trace.k_win_BGSD = column(Column::k_win);
    trace.v_win_BGSD = column(Column::v_win);
    trace.k_cmp_BGCD = between.k_cmp;
    trace.v_cmp_BGCD = between.v_cmp;
    trace.p_grp_BGSN = between.p_grp;
    if (between.blocks.defined()) trace.blocks_BGSn = between.blocks.to(torch::kLong);
    trace.o_cmp_BHSD = between.o_cmp;
    trace.o_sel_BHSD = between.o_sel;
    trace.o_win_BHSD = between.o_win;
    trace.gate = gate;
    trace.y_BSE = y_BSE;
    return trace;
  }

  const BackEnd& back_end_;
  const SeamContext& context_;
  const ModelConfig& config_;
  const AttentionSeams& seams_;
  const AttentionWeights& weights_;
};

}  // namespace

AttentionTrace attention(const BackEnd& back_end,
                         const SeamContext& context,
                         const AttentionSeams& seams,
                         const AttentionWeights& weights,
                         reference::RopeTable& angles,
                         const Tensor& x_BSE) {
  return Layer(back_end, context, seams, weights).run(angles, x_BSE);
}

}  // namespace nsa::cuda
