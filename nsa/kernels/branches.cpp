#include "nsa/kernels/branches.h"

#include <stdexcept>

#include "nsa/kernels/steps.h"

namespace nsa::kernels {
namespace {

constexpr int kConvParts = 64;

RangeKind kind_of(Branch branch) {
  return branch == Branch::compressed ? RangeKind::compressed : RangeKind::window;
}

int stride_of(const Work& work, Branch branch) {
  return branch == Branch::compressed ? work.common.geometry.d : 1;
}

void no_later_first(const Problem& problem) {
  if (problem.first != 0) {
    throw std::invalid_argument("nsa kernels: no backward pass from a later first position");
  }
}

// Throws std::invalid_argument where there is no law to pool by.
void pooled_here(const Problem& problem) {
  if (problem.phi == Phi::caller) {
    throw std::invalid_argument("nsa kernels: phi caller: the caller pools");
  }
}

}  // namespace

void compress(const Problem& problem,
              Pooled what,
              const Rows& raw,
              const void* conv,
              const std::int32_t* cu_seqlens,
              const MutableRows& out,
              Stream stream) {
  const Work work(problem, cu_seqlens, stream);
  pooled_here(problem);
  PoolParams p;
  p.common = work.common;
  p.tensors[0] = pool_tensor(work, what, conv);
  p.tensors[0].raw = element_rows(raw, "raw");
  p.tensors[0].pooled = element_rows(out, "out");
  work.element.pool(p, 1, key_count(work, problem.d), stream);
}

std::size_t compress_backward_workspace(const Problem& problem) {
  if (problem.phi != Phi::conv) return 0;
  const std::int64_t width = problem.d_k > problem.d_v ? problem.d_k : problem.d_v;
  return static_cast<std::size_t>(kConvParts * width * problem.l) * sizeof(float);
}

void compress_backward(const Problem& problem,
                       Pooled what,
                       const Rows& raw,
                       const void* conv,
                       const Rows& d_out,
                       const std::int32_t* cu_seqlens,
                       const MutableRows& d_raw,
                       float* d_conv,
                       void* workspace,
                       Stream stream) {
  const Work work(problem, cu_seqlens, stream);
  no_later_first(problem);
  pooled_here(problem);
  PoolParams p;
  p.common = work.common;
  p.parts = kConvParts;
  PoolTensor& x = p.tensors[0];
  x = pool_tensor(work, what, conv);
  x.raw = element_rows(raw, "raw");
  x.pooled = element_rows(d_out, "d_out");
  x.d_raw = element_rows(d_raw, "d_raw");
  x.conv_parts = static_cast<float*>(workspace);
  x.d_conv = d_conv;
  work.element.pool_gradient(p, 1, key_count(work, 1), stream);
  if (problem.phi == Phi::conv && d_conv != nullptr) work.element.conv_gradient(p, 1, stream);
}

void score(const Problem& problem,
           const Rows& q,
           const Rows& k_cmp,
           const float* lse_cmp,
           const std::int32_t* cu_seqlens,
           const MutableRows& p_grp,
           Stream stream) {
  const Work work(problem, cu_seqlens, stream);
  ScoreParams p = score_params(work, q, k_cmp, lse_cmp);
  p.tiles = work.tiles(work.matrix.score_queries, 0, work.common.tokens, 1);
  p.scores = number_rows(p_grp, 4);
  p.every_block = true;
  work.matrix.score(p, work.slots(p.tiles), stream);
}

void select(const Problem& problem,
            const Rows& p_grp,
            const std::int32_t* cu_seqlens,
            const MutableRows& blocks,
            Stream stream) {
  const Work work(problem, cu_seqlens, stream);
  select_best_blocks(select_params(work, number_rows(p_grp, 4), blocks, 0, work.common.tokens),
                     stream);
}

std::size_t choose_workspace(const Problem& problem) {
  const Work work(problem, nullptr, nullptr);
  Carver carver(nullptr);
  take_scores(work, carver);
  return carver.used();
}

void choose(const Problem& problem,
            const Rows& q,
            const Rows& k_cmp,
            const float* lse_cmp,
            const std::int32_t* cu_seqlens,
            const MutableRows& blocks,
            void* workspace,
            Stream stream) {
  const Work work(problem, cu_seqlens, stream);
  Carver carver(workspace);
  run_choose(work, q, k_cmp, lse_cmp, blocks, take_scores(work, carver));
}

std::size_t attend_workspace(const Problem& problem, Branch branch) {
  if (branch != Branch::selected) return 0;
  const Work work(problem, nullptr, nullptr);
  Carver carver(nullptr);
  take_parts(work, plan_lists(work, {}, /*forced_apart=*/false, Pass::forward, carver), carver);
  return carver.used();
}

void attend(const Problem& problem,
            Branch branch,
            const AttendInputs& in,
            const MutableRows& o,
            float* lse,
            void* workspace,
            Stream stream) {
  const Work work(problem, in.cu_seqlens, stream);
  if (work.common.tokens == 0) return;
  check_queries(work, in.q);
  if (branch != Branch::selected) {
    BranchWork out;
    out.to.o = element_rows(o, "o");
    out.to.lse = lse;
    out.sources[0] = key_source_of(work, kind_of(branch), {in.k, in.v});
    run_forward(work, in.q, &out, 1);
    return;
  }
  Carver carver(workspace);
  const ListPlan plan = plan_lists(work, in.blocks, /*forced_apart=*/false, Pass::forward, carver);
  MergeOutputsParams finish;
  finish.o = element_rows(o, "o");
  finish.lse = lse;
  run_selected(work, in.q, {in.k, in.v}, plan, take_parts(work, plan, carver), {}, finish);
}

namespace {

struct BranchBuffers {
  BranchBuffers(const Work& work, Branch branch, const Rows& blocks, Carver& carver) {
    gate_delta = carver.take<float>(2 * work.rows());
    if (branch != Branch::selected) {
      keys = plan_keys(work, kind_of(branch), Sums::when_cut, carver);
      return;
    }
    const std::int64_t columns = work.matrix.k_columns + work.matrix.v_columns;
    sum_count = static_cast<std::int64_t>(work.common.groups) * work.common.tokens * columns;
    keys.key_rows = work.common.tokens;
    keys.sums = carver.take<float>(sum_count);
    lists = plan_lists(work, blocks, /*forced_apart=*/false, Pass::backward, carver);
    parts = take_parts(work, lists, carver);
    turns = take_turns(work, lists, carver);
  }

  float* gate_delta = nullptr;
  KeyPlan keys;
  std::int64_t sum_count = 0;
  ListPlan lists;
  PartBuffers parts;
  TurnBuffers turns;
};

}  // namespace

std::size_t attend_backward_workspace(const Problem& problem, Branch branch) {
  const Work work(problem, nullptr, nullptr);
  Carver carver(nullptr);
  BranchBuffers(work, branch, {}, carver);
  return carver.used();
}

void attend_backward(const Problem& problem,
                     Branch branch,
                     const AttendInputs& in,
                     const Rows& o,
                     const float* lse,
                     const Rows& d_o,
                     const MutableRows& d_q,
                     const MutableRows& d_k,
                     const MutableRows& d_v,
                     void* workspace,
                     Stream stream) {
  const Work work(problem, in.cu_seqlens, stream);
  no_later_first(problem);
  if (work.common.tokens == 0) return;
  check_queries(work, in.q);
  Carver carver(workspace);
  const BranchBuffers buffers(work, branch, in.blocks, carver);
  CombineGradientParams rows;
  rows.common = work.common;
  rows.branch_count = 1;
  rows.branches[0] = element_rows(o, "o");
  rows.d_o = element_rows(d_o, "d_o");
  rows.gate_delta[0] = buffers.gate_delta;
  work.element.combine_gradient(rows, stream);

  QueryGradientParams query;
  query.common = work.common;
  query.q = element_rows(in.q, "q");
  query.d_o = rows.d_o;
  query.d_q = element_rows(d_q, "d_q");
  SelectedGradient selected;
  if (branch == Branch::selected) {
    selected = {{in.k, in.v}, lse, buffers.gate_delta, buffers.keys.sums};
    fill_zero(
        buffers.keys.sums, static_cast<std::size_t>(buffers.sum_count) * sizeof(float), stream);
  } else {
    const GradientSource source{
        key_source_of(work, kind_of(branch), {in.k, in.v}), lse, buffers.gate_delta};
    query.sources[query.source_count++] = source;
    KeyGradientParams key;
    key.common = work.common;
    key.q = query.q;
    key.d_o = query.d_o;
    key.sources[0] = key_source(buffers.keys, source);
    key.sources[0].d_k = element_rows(d_k, "d_k");
    key.sources[0].d_v = element_rows(d_v, "d_v");
    key.source_count = 1;
    work.matrix.key_gradient(
        key, static_cast<std::int64_t>(buffers.keys.slots) * buffers.keys.segments, stream);
  }
  run_query_gradient(work, query, buffers.lists, buffers.parts, selected, buffers.turns);
  if (buffers.keys.sums == nullptr) return;
  const int stride = stride_of(work, branch);
  KeyResultParams results;
  results.common = work.common;
  results.stride = stride;
  results.k_columns = work.matrix.k_columns;
  results.v_columns = work.matrix.v_columns;
  results.first[0] = buffers.keys.ref();
  results.d_k[0] = element_rows(d_k, "d_k");
  results.d_v[0] = element_rows(d_v, "d_v");
  work.element.key_results(results, 1, key_count(work, stride), stream);
}

void combine(const Problem& problem,
             const Rows& gates,
             const Rows (&branches)[3],
             const std::int32_t* cu_seqlens,
             const MutableRows& o,
             Stream stream) {
  const Work work(problem, cu_seqlens, stream);
  CombineParams p;
  p.common = work.common;
  p.gates = gate_rows(problem, gates);
  for (int i = 0; i < 3; ++i) p.branches[i] = element_rows(branches[i], "o of a branch");
  p.o = element_rows(o, "o");
  work.element.combine(p, stream);
}

void combine_backward(const Problem& problem,
                      const Rows& gates,
                      const Rows (&branches)[3],
                      const Rows& d_o,
                      const std::int32_t* cu_seqlens,
                      const MutableRows& d_gates,
                      const MutableRows (&d_branches)[3],
                      Stream stream) {
  const Work work(problem, cu_seqlens, stream);
  CombineGradientParams p;
  p.common = work.common;
  p.gates = gate_rows(problem, gates);
  for (int i = 0; i < 3; ++i) {
    p.branches[i] = element_rows(branches[i], "o of a branch");
    p.d_branches[i] = element_rows(d_branches[i], "d_o of a branch");
  }
  p.d_o = element_rows(d_o, "d_o");
  if (d_gates.data != nullptr) p.d_gates = gate_rows(problem, d_gates);
  work.element.combine_gradient(p, stream);
}

}  // namespace nsa::kernels
