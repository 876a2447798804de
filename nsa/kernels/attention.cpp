#include "nsa/kernels/attention.h"

#include <stdexcept>

#include "nsa/kernels/steps.h"

namespace nsa::kernels {
namespace {

// Branch outputs that nobody keeps: [T,H,D] in the workspace.
MutableRows take_output(const Work& work, Carver& carver) {
  const Common& c = work.common;
  const std::int64_t width = work.problem.d_v;
  const std::int64_t position = width * c.groups * c.heads.divisor;
  return {carver.take<std::uint16_t>(position * c.tokens),
          position * c.sequences.length,
          width,
          position};
}

struct ForwardBuffers {
  ForwardBuffers(const Work& work, const Rows& blocks, bool saves_outputs, Carver& carver) {
    if (!saves_outputs) {
      o_cmp = take_output(work, carver);
      o_win = take_output(work, carver);
    }
    forced_scales = carver.take<float>(2 * work.rows());
    // Scores are used up before there are lists and parts.
    const std::size_t mark = carver.used();
    scores = take_scores(work, carver);
    const std::size_t with_scores = carver.used();
    carver.reuse(mark);
    const Pass pass = saves_outputs ? Pass::forward_saving : Pass::forward;
    lists = plan_lists(work, blocks, /*forced_apart=*/true, pass, carver);
    parts = take_parts(work, lists, carver);
    bytes = with_scores > carver.used() ? with_scores : carver.used();
  }

  MutableRows o_cmp;
  MutableRows o_win;
  float* forced_scales = nullptr;  // of the forced blocks' share, PartScale [G,T,h]
  ChooseBuffers scores;
  ListPlan lists;
  PartBuffers parts;
  std::size_t bytes = 0;
};

BranchWork branch_of(
    const Work& work, RangeKind kind, const KeyTensors& keys, const MutableRows& o, float* lse) {
  BranchWork branch;
  branch.sources[0] = key_source_of(work, kind, keys);
  branch.to.o = element_rows(o, "o");
  branch.to.lse = lse;
  return branch;
}

void pool_keys(const Work& work, const Inputs& in, const Saved& saved) {
  PoolParams p;
  p.common = work.common;
  p.tensors[0] = pool_tensor(work, Pooled::keys, in.k_conv);
  p.tensors[1] = pool_tensor(work, Pooled::values, in.v_conv);
  p.tensors[0].raw = element_rows(in.k_raw, "k_raw");
  p.tensors[1].raw = element_rows(in.v_raw, "v_raw");
  p.tensors[0].pooled = element_rows(saved.k_cmp, "k_cmp");
  p.tensors[1].pooled = element_rows(saved.v_cmp, "v_cmp");
  work.element.pool(p, 2, key_count(work, work.common.geometry.d), work.stream);
}

}  // namespace

std::size_t forward_workspace(const Problem& problem, bool saves_outputs) {
  const Work work(problem, nullptr, nullptr);
  Carver carver(nullptr);
  return ForwardBuffers(work, {}, saves_outputs, carver).bytes;
}

void forward(const Problem& problem,
             const Inputs& in,
             const Saved& saved,
             const MutableRows& o,
             void* workspace,
             Stream stream) {
  const Work work(problem, in.cu_seqlens, stream);
  if (work.common.tokens == 0) return;
  check_queries(work, in.q);
  const bool saves_outputs = saved.o_cmp.data != nullptr;
  Carver carver(workspace);
  const ForwardBuffers buffers(work, saved.blocks, saves_outputs, carver);
  const MutableRows o_cmp = saves_outputs ? saved.o_cmp : buffers.o_cmp;
  const MutableRows o_win = saves_outputs ? saved.o_win : buffers.o_win;
  if (problem.phi != Phi::caller) pool_keys(work, in, saved);
  const KeyTensors selected{in.k_sel, in.v_sel};
  // The forced blocks' share waits where the result will be.
  const MutableRows forced_rows = saves_outputs ? saved.o_sel : o;
  BranchWork forced = branch_of(work, RangeKind::initial, selected, forced_rows, nullptr);
  forced.sources[1] = key_source_of(work, RangeKind::local, selected);
  forced.source_count = 2;
  forced.to.scales = buffers.forced_scales;
  const BranchWork dense[3] = {
      branch_of(work, RangeKind::compressed, {saved.k_cmp, saved.v_cmp}, o_cmp, saved.lse_cmp),
      branch_of(work, RangeKind::window, {in.k_win, in.v_win}, o_win, saved.lse_win),
      forced};
  run_forward(work, in.q, dense, 3);
  run_choose(work, in.q, saved.k_cmp, saved.lse_cmp, saved.blocks, buffers.scores);
  MergeOutputsParams finish;
  finish.dense_scales = forced.to.scales;
  finish.o = element_rows(saved.o_sel, "o_sel");
  finish.lse = saved.lse_sel;
  finish.mixed = element_rows(o, "o");
  finish.o_cmp = dense[0].to.o;
  finish.o_win = dense[1].to.o;
  finish.gates = gate_rows(problem, in.gates);
  run_selected(work, in.q, selected, buffers.lists, buffers.parts, forced.to.o, finish);
}

namespace {

struct BackwardBuffers {
  BackwardBuffers(const Work& work, const Rows& blocks, Carver& carver) {
    for (auto& pairs : gate_delta) pairs = carver.take<float>(2 * work.rows());
    compressed = plan_keys(work, RangeKind::compressed, Sums::always, carver);
    window = plan_keys(work, RangeKind::window, Sums::when_cut, carver);
    initial = plan_keys(work, RangeKind::initial, Sums::always, carver);
    local = plan_keys(work, RangeKind::local, Sums::always, carver);
    lists = plan_lists(work, blocks, /*forced_apart=*/true, Pass::backward, carver);
    parts = take_parts(work, lists, carver);
    turns = take_turns(work, lists, carver);
    steps = carver.take<float>(work.rows());
    if (work.problem.phi == Phi::conv) {
      for (int i = 0; i < 2; ++i) {
        const std::int64_t width = i == 0 ? work.problem.d_k : work.problem.d_v;
        conv_parts[i] = carver.take<float>(kConvParts * width * work.problem.l);
      }
    }
  }

  static constexpr int kConvParts = 64;
  float* gate_delta[3] = {};
  KeyPlan compressed;
  KeyPlan window;
  KeyPlan initial;
  KeyPlan local;
  ListPlan lists;
  PartBuffers parts;
  TurnBuffers turns;
  float* steps = nullptr;  // of the dense share of dq, [G,T,h]
  float* conv_parts[2] = {};
};

// One backward pass: what its steps share.
class Backward {
 public:
  Backward(const Work& work,
           const Inputs& in,
           const Saved& saved,
           const Rows& d_o,
           const Gradients& gradients,
           const BackwardBuffers& buffers)
      : work_(work), in_(in), saved_(saved), d_o_(d_o), gradients_(gradients), buffers_(buffers) {}

  void run() {
    rows_of_branches();
    keys_of_ranges();
    queries();
    key_results();
    if (work_.problem.phi == Phi::caller) {
      compressed();
    } else {
      pooled();
    }
  }

 private:
  void rows_of_branches() const {
    CombineGradientParams p;
    p.common = work_.common;
    p.gates = gate_rows(work_.problem, in_.gates);
    const Rows outputs[3] = {saved_.o_cmp, saved_.o_sel, saved_.o_win};
    for (int i = 0; i < 3; ++i) {
      p.branches[i] = element_rows(outputs[i], "o of a branch");
      p.gate_delta[i] = buffers_.gate_delta[i];
    }
    p.d_o = element_rows(d_o_, "d_o");
    if (gradients_.gates.data != nullptr) p.d_gates = gate_rows(work_.problem, gradients_.gates);
    work_.element.combine_gradient(p, work_.stream);
  }

  [[nodiscard]] GradientSource source(RangeKind kind) const {
    switch (kind) {
      case RangeKind::compressed:
        return {key_source_of(work_, kind, {saved_.k_cmp, saved_.v_cmp}),
                saved_.lse_cmp,
                buffers_.gate_delta[0]};
      case RangeKind::window:
        return {key_source_of(work_, kind, {in_.k_win, in_.v_win}),
                saved_.lse_win,
                buffers_.gate_delta[2]};
      default:
        return {key_source_of(work_, kind, {in_.k_sel, in_.v_sel}),
                saved_.lse_sel,
                buffers_.gate_delta[1]};
    }
  }

  void keys_of_ranges() const {
    KeyGradientParams p;
    p.common = work_.common;
    p.q = element_rows(in_.q, "q");
    p.d_o = element_rows(d_o_, "d_o");
    std::int64_t tiles = 0;
    const auto add = [&](const KeyPlan& plan) {
      if (plan.slots == 0) return;
      KeyGradientSource& to = p.sources[p.source_count++];
      to = key_source(plan, source(plan.tiles.range.kind));
      if (plan.tiles.range.kind == RangeKind::window) {
        to.d_k = element_rows(gradients_.k_win, "d_k_win");
        to.d_v = element_rows(gradients_.v_win, "d_v_win");
      }
      tiles += static_cast<std::int64_t>(plan.slots) * plan.segments;
    };
    // Long segments first.
    add(buffers_.compressed);
    add(buffers_.initial);
    add(buffers_.window);
    add(buffers_.local);
    work_.matrix.key_gradient(p, tiles, work_.stream);
  }

  void queries() const {
    QueryGradientParams p;
    p.common = work_.common;
    p.q = element_rows(in_.q, "q");
    p.d_o = element_rows(d_o_, "d_o");
    p.d_q = element_rows(gradients_.q, "d_q");
    for (const RangeKind kind :
         {RangeKind::compressed, RangeKind::window, RangeKind::initial, RangeKind::local}) {
      p.sources[p.source_count++] = source(kind);
    }
    const SelectedGradient selected{{in_.k_sel, in_.v_sel},
                                    saved_.lse_sel,
                                    buffers_.gate_delta[1],
                                    buffers_.local.sums,
                                    buffers_.steps};
    run_query_gradient(work_, p, buffers_.lists, buffers_.parts, selected, buffers_.turns);
  }

  void key_results() const {
    KeyResultParams p;
    p.common = work_.common;
    p.k_columns = work_.matrix.k_columns;
    p.v_columns = work_.matrix.v_columns;
    p.first[0] = buffers_.local.ref();
    p.second[0] = buffers_.initial.ref();
    p.d_k[0] = element_rows(gradients_.k_sel, "d_k_sel");
    p.d_v[0] = element_rows(gradients_.v_sel, "d_v_sel");
    p.first[1] = buffers_.window.ref();
    p.d_k[1] = element_rows(gradients_.k_win, "d_k_win");
    p.d_v[1] = element_rows(gradients_.v_win, "d_v_win");
    const int branches = buffers_.window.sums != nullptr ? 2 : 1;
    work_.element.key_results(p, branches, key_count(work_, 1), work_.stream);
  }

  void compressed() const {
    KeyResultParams p;
    p.common = work_.common;
    p.stride = work_.common.geometry.d;
    p.k_columns = work_.matrix.k_columns;
    p.v_columns = work_.matrix.v_columns;
    p.first[0] = buffers_.compressed.ref();
    p.d_k[0] = element_rows(gradients_.k_raw, "d_k_cmp");
    p.d_v[0] = element_rows(gradients_.v_raw, "d_v_cmp");
    work_.element.key_results(p, 1, key_count(work_, p.stride), work_.stream);
  }

  void pooled() const {
    PoolParams p;
    p.common = work_.common;
    p.parts = BackwardBuffers::kConvParts;
    const Rows raw[2] = {in_.k_raw, in_.v_raw};
    const MutableRows d_raw[2] = {gradients_.k_raw, gradients_.v_raw};
    float* d_conv[2] = {gradients_.k_conv, gradients_.v_conv};
    for (int i = 0; i < 2; ++i) {
      PoolTensor& x = p.tensors[i];
      x = pool_tensor(
          work_, i == 0 ? Pooled::keys : Pooled::values, i == 0 ? in_.k_conv : in_.v_conv);
      x.raw = element_rows(raw[i], "raw");
      x.d_raw = element_rows(d_raw[i], "d_raw");
      x.sums = buffers_.compressed.ref();
      x.columns = work_.matrix.k_columns + work_.matrix.v_columns;
      x.column = i == 0 ? 0 : work_.matrix.k_columns;
      x.conv_parts = buffers_.conv_parts[i];
      x.d_conv = d_conv[i];
    }
    if (buffers_.compressed.segments > 1) {
      work_.element.sum_segments(p, key_count(work_, work_.common.geometry.d), work_.stream);
    }
    work_.element.pool_gradient(p, 2, key_count(work_, 1), work_.stream);
    if (work_.problem.phi == Phi::conv && gradients_.k_conv != nullptr) {
      work_.element.conv_gradient(p, 2, work_.stream);
    }
  }

  const Work& work_;
  const Inputs& in_;
  const Saved& saved_;
  const Rows& d_o_;
  const Gradients& gradients_;
  const BackwardBuffers& buffers_;
};

}  // namespace

std::size_t backward_workspace(const Problem& problem) {
  const Work work(problem, nullptr, nullptr);
  Carver carver(nullptr);
  BackwardBuffers(work, {}, carver);
  return carver.used();
}

void backward(const Problem& problem,
              const Inputs& in,
              const Saved& saved,
              const Rows& d_o,
              const Gradients& gradients,
              void* workspace,
              Stream stream) {
  const Work work(problem, in.cu_seqlens, stream);
  if (problem.first != 0) {
    throw std::invalid_argument("nsa kernels: no backward pass from a later first position");
  }
  if (work.common.tokens == 0) return;
  check_queries(work, in.q);
  Carver carver(workspace);
  const BackwardBuffers buffers(work, saved.blocks, carver);
  Backward(work, in, saved, d_o, gradients, buffers).run();
}

}  // namespace nsa::kernels
