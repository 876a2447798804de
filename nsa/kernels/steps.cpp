#include "nsa/kernels/steps.h"

#include <algorithm>

namespace nsa::kernels {
namespace {

// Scores in memory at a time. More than the second-level cache holds: fewer launches are worth more.
constexpr std::int64_t kScoreBytes = std::int64_t{128} << 20;

SelectedParams selected_params(
    const Work& work, const Rows& q, const KeyTensors& keys, const ListPlan& plan, int chunk) {
  const ListParams& lists = plan.params;
  const std::int64_t first =
      static_cast<std::int64_t>(plan.chunk(chunk).range) * work.common.groups;
  SelectedParams p;
  p.common = work.common;
  p.q = element_rows(q, "q");
  p.k = element_rows(keys.k, "k");
  p.v = element_rows(keys.v, "v");
  p.picks = Divider::of(work.common.geometry.n_sel);
  p.entries = lists.entries;
  p.items = lists.items + first * lists.max_items;
  p.item_counts = lists.item_counts + first;
  p.max_items = lists.max_items;
  p.slots = lists.slots;
  return p;
}

// The parts of a chunk, in the memory of `all`.
PartBuffers chunk_parts(const ListPlan& plan, int i, PartBuffers all) {
  const ListChunk chunk = plan.chunk(i);
  all.from = chunk.from;
  all.first_group = chunk.first_group;
  all.groups = chunk.groups;
  return all;
}

// Items that a group can have in a chunk.
std::int64_t items_of(const ListPlan& plan, int i) {
  return static_cast<std::int64_t>(plan.chunk(i).ranges) * plan.params.max_items;
}

MergeRows merge_rows(const Work& work,
                     const ListPlan& plan,
                     int i,
                     const PartBuffers& parts,
                     const TensorRef& dense) {
  const ListChunk chunk = plan.chunk(i);
  MergeRows rows;
  rows.common = work.common;
  rows.from = chunk.from;
  rows.to = chunk.to;
  rows.queries = kMergeRows / work.common.heads.divisor;
  rows.parts = parts;
  rows.columns = plan.columns;
  rows.blocks = plan.params.blocks;
  rows.forced_apart = plan.params.forced_apart;
  rows.dense = dense;
  return rows;
}

}  // namespace

PoolTensor pool_tensor(const Work& work, Pooled what, const void* conv) {
  PoolTensor tensor;
  tensor.chunks = what == Pooled::keys ? work.common.k_chunks : work.common.v_chunks;
  if (work.problem.phi == Phi::conv) tensor.conv = static_cast<const char*>(conv);
  return tensor;
}

std::int64_t key_count(const Work& work, int stride) {
  if (work.problem.varlen) return work.common.tokens / stride;
  const std::int64_t of_one = stride == 1 ? work.key_positions() : work.problem.compressed_rows();
  return of_one * work.common.sequences.count;
}

KeySource key_source_of(const Work& work, RangeKind kind, const KeyTensors& keys) {
  return {element_rows(keys.k, "k"), element_rows(keys.v, "v"), work.range(kind)};
}

namespace {

// The first position whose candidates are more than its places: there are ever more of them, and never more places.
int first_deciding(const Geometry& g, int end) {
  int low = 0;
  int high = end;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (g.scores_decide(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// Selection blocks that no query of the tokens [from, to) has as a candidate begin here at the latest.
int candidates_end(const Common& c, int from, int to) {
  const Sequences& all = c.sequences;
  if (all.starts != nullptr)
    return c.max_blocks;  // which sequences these are is known on the card alone
  const bool wraps = from / all.length != (to - 1) / all.length;
  const int last = wraps ? all.length - 1 : (to - 1) % all.length;
  return std::clamp(c.geometry.candidates_end(all.first + last), 0, c.max_blocks);
}

}  // namespace

ScoreParams score_params(const Work& work, const Rows& q, const Rows& k_cmp, const float* lse) {
  const Geometry& g = work.common.geometry;
  ScoreParams p;
  p.common = work.common;
  p.q = element_rows(q, "q");
  p.k = element_rows(k_cmp, "k_cmp");
  p.lse = lse;
  p.share_unit = static_cast<float>(work.problem.overlap == Overlap::fractional ? g.l : g.d);
  p.by_d = Divider::of(g.d);
  p.by_block = Divider::of(g.l_sel);
  p.stride = g.l_sel / g.d;
  p.touching = g.touching();
  p.by_lanes = p.stride == 4 && p.touching == 5;
  for (int r = 0; p.by_lanes && r < p.touching; ++r) {
    p.shares[r] = static_cast<float>(g.shared_tokens(r)) / p.share_unit;
  }
  p.blocks_end = work.common.max_blocks;
  p.first_deciding = first_deciding(g, work.key_positions());
  return p;
}

SelectParams select_params(
    const Work& work, const TensorRef& scores, const Rows& blocks, int from, int to) {
  SelectParams p;
  p.common = work.common;
  p.by_block = Divider::of(work.common.geometry.l_sel);
  p.from = from;
  p.to = to;
  p.scores = scores;
  p.blocks = number_rows(blocks, 4);
  return p;
}

ChooseBuffers take_scores(const Work& work, Carver& carver) {
  const Common& c = work.common;
  const std::int64_t of_token = static_cast<std::int64_t>(c.groups) * std::max(c.max_blocks, 1) * 4;
  const std::int64_t queries = work.matrix.score_queries;
  const std::int64_t wanted =
      std::max(kScoreBytes / of_token / queries * queries, std::int64_t{8} * queries);
  ChooseBuffers buffers;
  buffers.chunk_tokens = static_cast<int>(std::min<std::int64_t>(wanted, c.tokens));
  buffers.scores = carver.take<float>(of_token / 4 * buffers.chunk_tokens);
  return buffers;
}

void run_choose(const Work& work,
                const Rows& q,
                const Rows& k_cmp,
                const float* lse,
                const MutableRows& blocks,
                const ChooseBuffers& buffers) {
  const Common& c = work.common;
  const std::int64_t step = static_cast<std::int64_t>(c.max_blocks) * 4;
  for (int from = 0; from < c.tokens; from += buffers.chunk_tokens) {
    const int to = smaller(c.tokens, from + buffers.chunk_tokens);
    // Query T of group g has its scores at row (T - from) * G + g, whatever its sequence.
    const std::int64_t position = step * c.groups;
    TensorRef scores{reinterpret_cast<char*>(buffers.scores) - from * position,
                     position * c.sequences.length,
                     step,
                     position};
    ScoreParams score = score_params(work, q, k_cmp, lse);
    score.tiles = work.tiles(work.matrix.score_queries, from, to, 1);
    score.scores = scores;
    score.blocks_end = candidates_end(c, from, to);
    work.matrix.score(score, work.slots(score.tiles), work.stream);
    select_best_blocks(select_params(work, scores, blocks, from, to), work.stream);
  }
}

void run_forward(const Work& work, const Rows& q, const BranchWork* branches, int count) {
  ForwardParams p;
  p.common = work.common;
  p.tiles = work.tiles(work.matrix.forward_rows, 0, work.common.tokens, work.common.heads.divisor);
  p.q = element_rows(q, "q");
  int sources = 0;
  for (int b = 0; b < count; ++b) {
    ForwardBranch& to = p.branches[b];
    to = branches[b].to;
    to.sources_begin = sources;
    std::copy_n(branches[b].sources, branches[b].source_count, p.sources + sources);
    sources += branches[b].source_count;
    to.sources_end = sources;
  }
  p.branch_count = count;
  const std::int64_t slots = work.slots(p.tiles);
  p.together = slots * work.common.groups >= work.problem.least_joined_tiles ? count : 1;
  work.matrix.forward(p, slots, work.stream);
}

void run_selected(const Work& work,
                  const Rows& q,
                  const KeyTensors& keys,
                  const ListPlan& plan,
                  const PartBuffers& parts,
                  const TensorRef& dense,
                  MergeOutputsParams finish) {
  if (!plan.empty()) invert_lists(plan.params, work.stream);
  for (int i = 0; i < plan.chunks(); ++i) {
    const PartBuffers of_chunk = chunk_parts(plan, i, parts);
    if (!plan.empty()) {
      SelectedParams p = selected_params(work, q, keys, plan, i);
      p.parts = of_chunk;
      work.matrix.selected_forward(p, items_of(plan, i), work.stream);
    }
    finish.rows = merge_rows(work, plan, i, of_chunk, dense);
    work.element.merge_outputs(finish, work.stream);
  }
}

TurnBuffers take_turns(const Work& work, const ListPlan& plan, Carver& carver) {
  if (plan.empty()) return {};
  const std::int64_t count =
      static_cast<std::int64_t>(work.common.groups) * (plan.params.slots + 1);
  return {carver.take<int>(count), count};
}

void run_query_gradient(const Work& work,
                        QueryGradientParams p,
                        const ListPlan& plan,
                        const PartBuffers& parts,
                        const SelectedGradient& selected,
                        const TurnBuffers& turns) {
  const bool has_dense = p.source_count > 0;
  if (!plan.empty()) p.steps = selected.steps;
  if (has_dense) {
    const int heads = work.common.heads.divisor;
    p.tiles = work.tiles(work.matrix.gradient_rows, 0, work.common.tokens, heads);
    work.matrix.query_gradient(p, work.slots(p.tiles), work.stream);
  }
  if (plan.empty()) return;
  invert_lists(plan.params, work.stream);
  for (int i = 0; i < plan.chunks(); ++i) {
    const Rows q{p.q.data, p.q.sequence / 2, p.q.head / 2, p.q.position / 2};
    SelectedParams list = selected_params(work, q, selected.keys, plan, i);
    list.parts = chunk_parts(plan, i, parts);
    list.d_o = p.d_o;
    list.lse = selected.lse;
    list.gate_delta = selected.gate_delta;
    list.sums = selected.sums;
    list.key_rows = work.common.tokens;
    list.tickets = turns.tickets;
    list.turns = turns.tickets + work.common.groups;
    fill_zero(turns.tickets, static_cast<std::size_t>(turns.count) * sizeof(int), work.stream);
    work.matrix.selected_backward(list, items_of(plan, i), work.stream);
    MergeGradientsParams merge;
    merge.rows = merge_rows(work, plan, i, list.parts, p.d_q);
    merge.dense_steps = has_dense ? p.steps : nullptr;
    merge.d_q = p.d_q;
    work.element.merge_gradients(merge, work.stream);
  }
}

}  // namespace nsa::kernels
