#include "nsa/kernels/plan.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace nsa::kernels {
namespace {

constexpr int kMostHeads = 16;        // of a group: a row of the score kernel's shared memory
constexpr int kMostPicks = 32;        // a lane for each
constexpr int kMostBlockTokens = 64;  // a tile of keys
constexpr int kScoreKeys = 128;       // compressed tokens of a score tile
// A segment of rows is long enough that its sums cost little beside it, and there are enough of them for every card.
constexpr std::int64_t kLeastSegmentRows = 512;
constexpr std::int64_t kWantedKeyBlocks = 792;
constexpr std::int64_t kMostSegments = 64;
// Warps of a thread block that places picks, and their counters, in shared memory.
constexpr int kMostPlacers = 8;
constexpr std::int64_t kPlacerCounters = 12 * 1024;
// Strips that lists are made by, and rows of one item: the backward pass writes sums at the end of each.
constexpr std::int64_t kStrips = 256;
constexpr std::int64_t kLeastStrip = 32;
constexpr std::int64_t kForwardItemRows = 1024;
constexpr std::int64_t kBackwardItemRows = 2048;
// Fewer rows where there would be fewer items than these, which fill a large card. Backward items of one block wait for each other
// when they write their sums: not so many.
constexpr std::int64_t kLeastItemRows = 256;
constexpr std::int64_t kForwardItems = 832;
constexpr std::int64_t kBackwardItems = 396;
// Rows of a list of one range in the mean: so many that keys are loaded (and sums written) for enough of them, and so few less than
// an item's that most lists are one item.
constexpr std::int64_t kForwardListRows = 512;
constexpr std::int64_t kBackwardListRows = 1024;
// Rows of a range's queries, all of them, that stay in the second-level cache in any case.
constexpr std::int64_t kRangeBytes = std::int64_t{8} << 20;
constexpr int kMostItemEntries = 256;
constexpr std::int64_t kMostParts = std::int64_t{1} << 31;
// Chunks of the selected branch grow until lists have that many rows in the mean and there are that many rows in all.
constexpr std::int64_t kWantedListRows = 512;
constexpr std::int64_t kWantedTileRows = 100000;
constexpr std::int64_t kMostGrowth = 4;
// A chunk in training, in chunks of a forward pass alone: what is saved for the backward pass is much more than a chunk, and each
// launch leaves a part of the card idle at its end.
constexpr std::int64_t kTrainingChunk = 4;

std::string number(std::int64_t value) {
  return std::to_string(value);
}

Common make_common(const Problem& p, const std::int32_t* cu_seqlens) {
  Common c;
  c.sequences = {
      cu_seqlens, static_cast<int>(p.batch), static_cast<int>(p.length), static_cast<int>(p.first)};
  c.geometry = {p.l, p.d, p.l_sel, p.n_sel, p.w, p.init_blocks, p.local_blocks};
  c.heads = Divider::of(p.heads);
  c.groups = p.groups;
  c.tokens = static_cast<int>(p.all_tokens());
  c.max_blocks = static_cast<int>(p.block_count());
  c.k_chunks = p.d_k / 8;
  c.v_chunks = p.d_v / 8;
  c.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(p.d_k)));
  c.scale_log2 = static_cast<float>(1.4426950408889634 / std::sqrt(static_cast<double>(p.d_k)));
  return c;
}

std::string bad_shape(const Problem& p) {
  if (p.batch < 1 || p.length < 0 || p.first < 0) return "batch, length or first position";
  if (p.varlen && (p.first != 0 || p.tokens < 0)) return "varlen with a first position, or tokens";
  if (p.groups < 1 || p.groups > 65535) return "groups " + number(p.groups);
  if (p.heads < 1 || p.heads > kMostHeads)
    return "heads of a group: 1 to 16, not " + number(p.heads);
  if (p.d_k < 8 || p.d_k % 8 != 0 || p.d_v < 8 || p.d_v % 8 != 0) return "widths: multiples of 8";
  return "";
}

std::string bad_blocks(const Problem& p) {
  if (p.d < 1 || p.l < p.d || p.l % p.d != 0) return "l: a multiple of d";
  if (p.l_sel < 1 || p.l_sel > kMostBlockTokens) {
    return "l_sel: 1 to 64, not " + number(p.l_sel);
  }
  if (p.l_sel % p.d != 0) return "l_sel: a multiple of d";
  if (p.l_sel / p.d + p.l / p.d - 1 > kScoreKeys)
    return "more than 128 compressed tokens on a block";
  if (p.init_blocks < 0 || p.local_blocks < 1) return "forced blocks";
  if (p.n_sel < p.init_blocks + p.local_blocks) return "n_sel: at least the forced blocks";
  if (p.n_sel > kMostPicks) return "n_sel: at most 32, not " + number(p.n_sel);
  if (p.w < 1) return "w: at least 1";
  return "";
}

// Indices that are 32 bits wide.
std::string too_large(const Problem& p) {
  constexpr std::int64_t kLimit = std::int64_t{1} << 30;
  if (p.all_tokens() * p.n_sel > kLimit) return "more than 2^30 chosen blocks in a group";
  if ((p.first + p.length) * p.heads > kLimit) return "more than 2^30 rows in a sequence";
  if (p.batch * (p.first + p.length) > kLimit && !p.varlen) return "more than 2^30 positions";
  if (p.init_blocks * static_cast<std::int64_t>(p.l_sel) > kLimit || p.w > kLimit) return "w";
  return "";
}

}  // namespace

std::int64_t Problem::compressed_rows() const {
  if (varlen) return tokens / d;
  const std::int64_t keys = first + length;
  return keys < l ? 0 : (keys - l) / d + 1;
}

std::int64_t Problem::block_count() const {
  return (first + length + l_sel - 1) / l_sel;
}

std::string refusal(const Problem& problem, int compute_capability) {
  if (compute_capability < 80) return "a card of compute capability 8.0 or newer is needed";
  for (const auto& reason : {bad_shape(problem), bad_blocks(problem)}) {
    if (!reason.empty()) return reason;
  }
  if (const auto reason = too_large(problem); !reason.empty()) return reason;
  if (problem.family == Family::wgmma && compute_capability != 90) {
    return "family wgmma needs compute capability 9.0";
  }
  const Family family = chosen_family(problem, compute_capability);
  if (find_matrix_kernels(problem.element, problem.d_k, problem.d_v, family) == nullptr) {
    return std::string("no kernels were built for ") +
           (problem.element == Element::bf16 ? "bf16" : "fp16") + ", d_k " + number(problem.d_k) +
           ", d_v " + number(problem.d_v) + (family == Family::wgmma ? ", wgmma" : "");
  }
  return "";
}

Family chosen_family(const Problem& problem, int compute_capability) {
  if (problem.family != Family::automatic) return problem.family;
  const bool wgmma =
      compute_capability == 90 &&
      find_matrix_kernels(problem.element, problem.d_k, problem.d_v, Family::wgmma) != nullptr;
  return wgmma ? Family::wgmma : Family::mma;
}

namespace {

const MatrixKernels& matrix_kernels(const Problem& problem) {
  const int capability = device_capability();
  const std::string reason = refusal(problem, capability);
  if (!reason.empty()) throw std::invalid_argument("nsa kernels: " + reason);
  return *find_matrix_kernels(
      problem.element, problem.d_k, problem.d_v, chosen_family(problem, capability));
}

}  // namespace

Work::Work(const Problem& of, const std::int32_t* cu_seqlens, Stream on)
    : problem(of),
      common(make_common(of, cu_seqlens)),
      matrix(matrix_kernels(of)),
      element(*find_element_kernels(of.element)),
      stream(on) {}

TensorRef element_rows(const Rows& rows, const char* name) {
  const auto address = reinterpret_cast<std::uintptr_t>(rows.data);
  if (address % 16 != 0 || rows.batch % 8 != 0 || rows.head % 8 != 0 || rows.position % 8 != 0) {
    throw std::invalid_argument(std::string("nsa kernels: ") + name +
                                ": data and strides must be divisible by 16 bytes");
  }
  return number_rows(rows, 2);
}

void check_queries(const Work& work, const Rows& q) {
  const TensorRef rows = element_rows(q, "q");
  const Common& c = work.common;
  const std::int64_t span = c.sequences.length * rows.position + c.heads.divisor * rows.head;
  if (span >= std::int64_t{16} << 32) {
    throw std::invalid_argument("nsa kernels: q: rows of a sequence span 64 GiB or more");
  }
}

TensorRef number_rows(const Rows& rows, int bytes) {
  return {static_cast<char*>(const_cast<void*>(rows.data)),
          rows.batch * bytes,
          rows.head * bytes,
          rows.position * bytes};
}

GateRef gate_rows(const Problem& problem, const Rows& gates) {
  const bool is_float = problem.gate_type == GateType::float32;
  const int bytes = is_float ? 4 : 2;
  return {number_rows(gates, bytes), bytes, is_float, problem.gate_form == GateForm::per_head};
}

namespace {

std::int64_t list_slots(const Work& work) {
  const Common& c = work.common;
  const std::int64_t blocks = c.geometry.blocks(work.key_positions());
  return work.problem.varlen ? c.tokens / c.geometry.l_sel + c.sequences.count
                             : blocks * c.sequences.count;
}

// Most slots of blocks that `tokens` consecutive queries reach over.
std::int64_t slots_over(const Work& work, std::int64_t tokens) {
  const Common& c = work.common;
  const std::int64_t blocks = c.geometry.blocks(work.key_positions());
  const std::int64_t all = list_slots(work);
  if (work.problem.varlen) {
    const std::int64_t reach = tokens + 2 * static_cast<std::int64_t>(c.sequences.length);
    return std::min(all, reach / c.geometry.l_sel + c.sequences.count + 2);
  }
  return std::min(all, (tokens / std::max(c.sequences.length, 1) + 2) * blocks);
}

// Queries of one group whose parts are to be in memory together.
std::int64_t chunk_aim(const Work& work, const ListPlan& plan, Pass pass) {
  const Common& c = work.common;
  const std::int64_t of_token =
      static_cast<std::int64_t>(plan.picks) * c.heads.divisor * (plan.part_bytes() + 8);
  const std::int64_t bytes = static_cast<std::int64_t>(work.problem.chunk_bytes) *
                             (pass == Pass::forward ? 1 : kTrainingChunk);
  const std::int64_t aim = bytes / of_token;
  // More where lists would be too short for the keys that are loaded for each, or there would be too few tiles of rows.
  const std::int64_t blocks = std::max(c.max_blocks, 1);
  const std::int64_t of_lists =
      kWantedListRows * blocks / (static_cast<std::int64_t>(plan.picks) * c.heads.divisor);
  const std::int64_t of_tiles = kWantedTileRows / c.heads.divisor;
  const std::int64_t wanted = std::min(std::max(of_lists, of_tiles), kMostGrowth * aim);
  // Parts have numbers of 32 bits.
  const std::int64_t most = kMostParts / (static_cast<std::int64_t>(plan.picks) * c.heads.divisor);
  return std::clamp<std::int64_t>(std::max(aim, wanted), 1, most);
}

// Queries of a range: its lists are as long as they should be, or the rows of all of them are few.
std::int64_t range_aim(const Work& work, const ListPlan& plan, Pass pass) {
  const Common& c = work.common;
  const bool backward = pass == Pass::backward;
  const std::int64_t of_lists = (backward ? kBackwardListRows : kForwardListRows) *
                                std::max(c.max_blocks, 1) /
                                (static_cast<std::int64_t>(plan.picks) * c.heads.divisor);
  const std::int64_t width = backward ? work.problem.d_k + work.problem.d_v : work.problem.d_k;
  return std::max(of_lists, kRangeBytes / (c.heads.divisor * width * 2));
}

// Most rows of an item.
std::int64_t rows_of_item(const Work& work, const ListPlan& plan, Pass pass) {
  const bool backward = pass == Pass::backward;
  const std::int64_t rows = static_cast<std::int64_t>(plan.chunk_tokens) * plan.chunk_groups *
                            plan.picks * work.common.heads.divisor;
  return std::clamp(rows / (backward ? kBackwardItems : kForwardItems),
                    kLeastItemRows,
                    backward ? kBackwardItemRows : kForwardItemRows);
}

// Each warp that places has a counter for every slot of the window: as many warps as have room.
int placers_of(const ListParams& p) {
  int placers = kMostPlacers;
  while (placers > 1 && static_cast<std::int64_t>(placers) * p.window > kPlacerCounters)
    placers /= 2;
  return placers;
}

// Chunks of one size, then ranges of one size.
void cut_chunks(ListParams& p, std::int64_t chunk_strips, std::int64_t range_queries) {
  const std::int64_t chunks = ceil_div(p.strips, chunk_strips);
  const std::int64_t of_chunk = ceil_div(p.strips, chunks);
  p.together = static_cast<int>(std::clamp<std::int64_t>(
      of_chunk * p.strip / std::max<std::int64_t>(range_queries, 1), 1, of_chunk));
  p.range_strips = static_cast<int>(ceil_div(of_chunk, p.together));
  p.together = static_cast<int>(ceil_div(of_chunk, p.range_strips));
  p.ranges = static_cast<int>(ceil_div(p.strips, p.range_strips));
}

}  // namespace

ListPlan plan_lists(
    const Work& work, const Rows& blocks, bool forced_apart, Pass pass, Carver& carver) {
  const Common& c = work.common;
  const Geometry& g = c.geometry;
  ListPlan plan;
  plan.columns = pass == Pass::backward ? work.matrix.k_columns : work.matrix.v_columns;
  // The branch alone is judged by its own output; within the operation a part is one share of a gated sum.
  plan.bits = forced_apart && work.problem.element == Element::bf16 ? kNarrowPartBits : 16;
  plan.skipped = forced_apart ? g.init_blocks : 0;
  plan.picks = forced_apart ? g.n_sel - g.init_blocks - g.local_blocks : g.n_sel;
  ListParams& p = plan.params;
  p.common = c;
  p.blocks = number_rows(blocks, 4);
  p.forced_apart = forced_apart;
  p.by_picks = Divider::of(g.n_sel);
  p.by_block = Divider::of(g.l_sel);
  if (plan.empty()) return plan;
  p.strip = static_cast<int>(std::max(kLeastStrip, ceil_div(c.tokens, kStrips)));
  p.strips = static_cast<int>(ceil_div(c.tokens, p.strip));
  const std::int64_t aim = chunk_aim(work, plan, pass);
  cut_chunks(p, std::clamp<std::int64_t>(aim / p.strip, 1, p.strips), range_aim(work, plan, pass));
  plan.chunk_tokens = p.together * p.range_strips * p.strip;
  // Groups in turns of one size, several where each has all of its queries.
  const std::int64_t group_turns =
      ceil_div(c.groups, std::clamp<std::int64_t>(aim / c.tokens, 1, c.groups));
  plan.chunk_groups = static_cast<int>(ceil_div(c.groups, group_turns));
  p.slots = static_cast<int>(list_slots(work));
  p.window = static_cast<int>(slots_over(work, p.strip));
  p.placers = placers_of(p);
  const std::int64_t item_rows = rows_of_item(work, plan, pass);
  p.item_entries = static_cast<int>(
      std::min<std::int64_t>(kMostItemEntries, ceil_div(item_rows, c.heads.divisor)));
  p.by_item = Divider::of(p.item_entries);
  const std::int64_t range_tokens = static_cast<std::int64_t>(p.range_strips) * p.strip;
  const std::int64_t range_picks = range_tokens * plan.picks;
  p.max_items = static_cast<int>(std::min(slots_over(work, range_tokens), range_picks) +
                                 range_picks / p.item_entries);
  p.counts = carver.take<int>(static_cast<std::int64_t>(c.groups) * (p.strips + 1) * p.slots);
  p.entries = carver.take<std::int32_t>(static_cast<std::int64_t>(c.groups) * c.tokens * g.n_sel);
  p.items = carver.take<ListItem>(static_cast<std::int64_t>(p.ranges) * c.groups * p.max_items);
  p.item_counts = carver.take<int>(static_cast<std::int64_t>(p.ranges) * c.groups);
  return plan;
}

PartBuffers take_parts(const Work& work, const ListPlan& plan, Carver& carver) {
  if (plan.empty()) return {};
  const Common& c = work.common;
  const std::int64_t parts = static_cast<std::int64_t>(smaller(plan.chunk_tokens, c.tokens)) *
                             plan.chunk_groups * plan.picks * c.heads.divisor;
  PartBuffers buffers;
  buffers.values = carver.take<char>(parts * plan.part_bytes());
  buffers.bits = plan.bits;
  buffers.scales = carver.take<float>(parts * 2);
  buffers.picks = plan.picks;
  buffers.skipped = plan.skipped;
  return buffers;
}

KeyPlan plan_keys(const Work& work, RangeKind kind, Sums sums, Carver& carver) {
  const Common& c = work.common;
  const std::int64_t sequences = c.sequences.count;
  const std::int64_t length = c.sequences.length;
  KeyPlan plan;
  plan.tiles = {work.range(kind), work.matrix.gradient_keys};
  const std::int64_t keys = plan.tiles.keys;
  const std::int64_t h = c.heads.divisor;
  std::int64_t rows = length * h;  // most that see a key tile
  switch (kind) {
    case RangeKind::compressed:
      plan.key_rows =
          static_cast<int>(work.problem.compressed_rows() * (work.problem.varlen ? 1 : sequences));
      break;
    case RangeKind::initial:
      plan.key_rows = static_cast<int>(sequences) * plan.tiles.range.initial_end();
      break;
    case RangeKind::window: rows = std::min(rows, (c.geometry.w + keys - 1) * h); [[fallthrough]];
    default: plan.key_rows = c.tokens;
  }
  plan.slots = static_cast<int>(plan.tiles.slots(sequences, c.tokens));
  plan.segment = static_cast<int>(std::max<std::int64_t>(rows, 1));
  if (kind != RangeKind::local) {
    // As many segments as fill a card; half of the rows see a compressed token.
    const std::int64_t tiles = static_cast<std::int64_t>(plan.slots) * c.groups;
    const std::int64_t all = kind == RangeKind::compressed ? tiles * rows / 2 : tiles * rows;
    std::int64_t segment =
        std::max({kLeastSegmentRows, all / kWantedKeyBlocks, ceil_div(rows, kMostSegments)});
    segment = ceil_div(segment, 64) * 64;
    if (segment < rows) plan.segment = static_cast<int>(segment);
    plan.segments = static_cast<int>(std::max<std::int64_t>(1, ceil_div(rows, plan.segment)));
  }
  if (sums == Sums::always || plan.segments > 1) {
    const std::int64_t columns = work.matrix.k_columns + work.matrix.v_columns;
    plan.sums = carver.take<float>(static_cast<std::int64_t>(plan.segments) * c.groups *
                                   plan.key_rows * columns);
  }
  return plan;
}

KeyGradientSource key_source(const KeyPlan& plan, const GradientSource& in) {
  KeyGradientSource source;
  source.in = in;
  source.tiles = plan.tiles;
  source.sums = plan.sums;
  source.key_rows = plan.key_rows;
  source.slots = plan.slots;
  source.segments = plan.segments;
  source.segment = plan.segment;
  return source;
}

}  // namespace nsa::kernels
