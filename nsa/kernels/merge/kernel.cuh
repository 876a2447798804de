// Kernels of merge/params.h. First four lanes a row look up its picks and make the factor of each part, then each thread sums
// up eight columns of a row at a time: parts are read once and in the order in which they lie.
#pragma once

#include "nsa/kernels/attend/gates.h"
#include "nsa/kernels/attend/row_tile.h"
#include "nsa/kernels/common/sums.cuh"
#include "nsa/kernels/merge/params.h"

namespace nsa::kernels {

inline constexpr int kMostPicks = 32;
inline constexpr int kMergeThreads = 4 * kMergeRows;
template <class As>
inline constexpr int kMergeAtOnce =
    As::kBits == 16 ? 4 : 7;  // parts whose loads are under way together

// In shared memory: factors of a row's picks, what else a row needs, and its sequence.
inline constexpr int kMergeWeightStep = kMostPicks + 1;
inline constexpr int kAtMergeNumbers = kMergeRows * kMergeWeightStep * 4;
inline constexpr int kAtMergeSequences = kAtMergeNumbers + kMergeRows * 16;
inline constexpr int kMergeSharedBytes = kAtMergeSequences + kMergeRows * 4;

// Of a row: the factor of its dense share and its gates.
struct MergeNumbers {
  float dense = 0.0F;
  Gates gates{0.0F, 1.0F, 0.0F};
};

struct MergeRow {
  int sequence;
  int token;  // of all sequences
  int query;  // within the sequence
  int head;
};

struct MergeBlock {
  const MergeRows& p;
  int group;
  int first;  // token
  int rows;
  std::uint32_t shared;

  NSA_DEVICE MergeRow row(int r) const {
    const Common& c = p.common;
    const int token = first + c.heads.quotient(r);
    const int b = static_cast<int>(load_shared(shared + kAtMergeSequences + 4 * r));
    return {b, token, token - c.sequences.begin(b), r - c.heads.quotient(r) * c.heads.divisor};
  }
  // Of the row that this thread and three others prepare.
  NSA_DEVICE MergeRow find_row() const {
    const Common& c = p.common;
    const int r = smaller(thread_index() / 4, rows - 1);
    const int token = first + c.heads.quotient(r);
    const int b = c.sequences.find(token, [&](int i) { return c.sequences.begin(i); });
    return {b, token, token - c.sequences.begin(b), r - c.heads.quotient(r) * c.heads.divisor};
  }
  [[nodiscard]] NSA_DEVICE std::int64_t number_of(const MergeRow& row) const {
    const Common& c = p.common;
    return (static_cast<std::int64_t>(group) * c.tokens + row.token) * c.heads.divisor + row.head;
  }
  // Runs `use(i, scale)` for this lane's picks 4 i + lane % 4: that of a part, or one that leaves it out.
  template <class Use>
  NSA_DEVICE void each_pick(const MergeRow& row, const Use& use) const {
    const Common& c = p.common;
    const int t = lane_index() & 3;
    const int n = c.geometry.n_sel;
    const int current = (c.sequences.first + row.query) / c.geometry.l_sel;
    const auto* blocks = reinterpret_cast<const std::int32_t*>(
        at_sequence(p.blocks, c.sequences, row.sequence) + group * p.blocks.head +
        row.query * p.blocks.position);
    const std::int64_t part = p.parts.row(c, group, row.token, 0, row.head);
    // All loads first: each waits for memory. Where there is no pick, any place will do.
    bool listed[kMostPicks / 4];
    NSA_UNROLL
    for (int i = 0; i < kMostPicks / 4; ++i) {
      if (4 * i >= n) break;
      const int pick = smaller(4 * i + t, n - 1);
      const int previous = blocks[larger(pick - 1, 0)];
      listed[i] =
          4 * i + t < n &&
          is_listed(c.geometry, p.forced_apart, current, blocks[pick], pick > 0 ? previous : -1);
    }
    PartScale scales[kMostPicks / 4];
    NSA_UNROLL
    for (int i = 0; i < kMostPicks / 4; ++i) {
      if (4 * i >= n) break;
      const std::int64_t at =
          listed[i] ? part + static_cast<std::int64_t>(4 * i + t) * c.heads.divisor : 0;
      scales[i] = {p.parts.scales[2 * at], p.parts.scales[2 * at + 1]};
    }
    NSA_UNROLL
    for (int i = 0; i < kMostPicks / 4; ++i) {
      const bool there = 4 * i < n && listed[i];
      use(i, there ? scales[i] : PartScale{minus_infinity(), 0.0F});
    }
  }
  NSA_DEVICE void keep(const MergeRow& row,
                       const float (&weights)[kMostPicks / 4],
                       const MergeNumbers& numbers) const {
    const int r = thread_index() / 4;
    const int t = thread_index() & 3;
    NSA_UNROLL
    for (int i = 0; i < kMostPicks / 4; ++i) {
      store_shared_float(shared + 4 * (r * kMergeWeightStep + 4 * i + t), weights[i]);
    }
    if (t != 0) return;
    const std::uint32_t to = shared + kAtMergeNumbers + 16 * r;
    store_shared_float(to, numbers.dense);
    store_shared_float(to + 4, numbers.gates.cmp);
    store_shared_float(to + 8, numbers.gates.sel);
    store_shared_float(to + 12, numbers.gates.win);
    store_shared(shared + kAtMergeSequences + 4 * r, static_cast<std::uint32_t>(row.sequence));
  }
  NSA_DEVICE MergeNumbers numbers(int r) const {
    const Words4 w = load_shared16(shared + kAtMergeNumbers + 16 * r);
    return {bits_to_float(w.x), {bits_to_float(w.y), bits_to_float(w.z), bits_to_float(w.w)}};
  }

  // Sum of the parts of row r, columns as parts have them.
  template <class As>
  NSA_DEVICE Eight sum_parts(int r, const MergeRow& row, int chunk) const {
    Eight sum{};
    if (p.parts.values == nullptr) return sum;
    const Common& c = p.common;
    const int begin = p.parts.skipped;
    const int end = begin + p.parts.picks;
    constexpr int kAtOnce = kMergeAtOnce<As>;
    const std::int64_t row_bytes = part_bytes<As>(p.columns);
    const PartReader<As> reader(p.columns, chunk);
    const char* from =
        p.parts.values + p.parts.row(c, group, row.token, begin, row.head) * row_bytes;
    const std::int64_t step = row_bytes * c.heads.divisor;
    NSA_NO_UNROLL
    for (int pick = begin; pick < end; pick += kAtOnce) {
      float weights[kAtOnce];
      typename PartReader<As>::Words words[kAtOnce];
      NSA_UNROLL
      for (int i = 0; i < kAtOnce; ++i) {
        weights[i] = pick + i < end
                         ? load_shared_float(shared + 4 * (r * kMergeWeightStep + pick + i))
                         : 0.0F;
        // Where nothing is to be added, any memory will do: integers times 0 are 0.
        words[i] = reader.load(weights[i] != 0.0F ? from + i * step : p.parts.values);
      }
      NSA_UNROLL
      for (int i = 0; i < kAtOnce; ++i) PartReader<As>::add(sum.x, weights[i], words[i]);
      from += kAtOnce * step;
    }
    return sum;
  }

  // Runs `use(r, row, chunk, sum)` for every eight columns of the block's rows, columns in their order; all lanes take part in what
  // comes before. Chunks that the tensors do not have are left out.
  template <class As, class Use>
  NSA_DEVICE void each_sum(int tensor_chunks, bool has_dense, const Use& use) const {
    const int chunks = p.columns / 8;
    const int all = rows * chunks;
    for (int first_item = 0; first_item < all; first_item += kMergeThreads) {
      const int item = smaller(first_item + thread_index(), all - 1);
      const int r = item / chunks;
      const int chunk = item - r * chunks;
      const MergeRow found = row(r);
      Eight sum = sum_parts<As>(r, found, chunk);
      exchange_words(
          sum.x);  // from the order of a part's 32 columns, which four lanes hold, to that of columns
      if (first_item + thread_index() >= all || chunk >= tensor_chunks) continue;
      if (has_dense) {
        const char* dense =
            pair_rows(p.common, p.dense, found.sequence, group).of(found.query, found.head);
        add_steps(sum.x, numbers(r).dense, load_global16(dense + chunk * 16));
      }
      use(r, found, chunk, sum);
    }
  }
};

NSA_DEVICE MergeBlock merge_block(const MergeRows& p, const void* memory) {
  const int first = p.from + block_x() * p.queries;
  const int queries = smaller(p.queries, p.to - first);
  return {p,
          p.parts.first_group + block_y(),
          first,
          queries * p.common.heads.divisor,
          shared_address(memory)};
}

// The factor of a share with this logarithm of its denominator and this step, relative to the largest one.
NSA_DEVICE float merge_weight(float& sum, const PartScale& scale, float base) {
  const float weight = exp2_fast(scale.x - base);
  sum += weight;
  return weight == 0.0F ? 0.0F : weight * scale.y;
}

template <class E, class As>
NSA_KERNEL(kMergeThreads, 4)
merge_outputs(NSA_PARAMETER MergeOutputsParams p) {
  NSA_SHARED(memory);
  const MergeBlock block = merge_block(p.rows, memory);
  const Common& c = p.rows.common;
  {
    const MergeRow row = block.find_row();
    const bool valid = thread_index() / 4 < block.rows;
    const std::int64_t number = block.number_of(row);
    PartScale dense{minus_infinity(), 0.0F};
    if (p.dense_scales != nullptr) {
      dense = {p.dense_scales[2 * number], p.dense_scales[2 * number + 1]};
    }
    float logs[kMostPicks / 4] = {};
    float weights[kMostPicks / 4] = {};
    float largest = dense.x;
    MergeNumbers numbers;
    if (p.mixed.data != nullptr) {
      numbers.gates = read_gates<E>(
          c, p.gates, row.sequence, block.group, row.query * c.heads.divisor + row.head);
    }
    if (p.rows.parts.values != nullptr) {
      block.each_pick(row, [&](int i, const PartScale& part) {
        logs[i] = part.x;
        weights[i] = part.y;
        largest = fmaxf(largest, part.x);
      });
    } else {
      NSA_UNROLL
      for (int i = 0; i < kMostPicks / 4; ++i) logs[i] = minus_infinity();
    }
    largest = fmaxf(largest, shuffle_xor(largest, 1));
    largest = fmaxf(largest, shuffle_xor(largest, 2));
    const float base = largest == minus_infinity() ? 0.0F : largest;
    float sum = 0.0F;
    NSA_UNROLL
    for (int i = 0; i < kMostPicks / 4; ++i) {
      weights[i] = merge_weight(sum, {logs[i], weights[i]}, base);
    }
    sum += shuffle_xor(sum, 1);
    sum += shuffle_xor(sum, 2);
    numbers.dense = merge_weight(sum, dense, base);
    // A row without keys gives zeros; a NaN stays one.
    const float inverse = sum == 0.0F ? 0.0F : 1.0F / sum;
    numbers.dense = numbers.dense == 0.0F ? 0.0F : numbers.dense * inverse;
    NSA_UNROLL
    for (int i = 0; i < kMostPicks / 4; ++i) {
      weights[i] = weights[i] == 0.0F ? 0.0F : weights[i] * inverse;
    }
    block.keep(row, weights, numbers);
    if (valid && p.lse != nullptr && (thread_index() & 3) == 0) {
      constexpr float kLn2 = 0.693147180559945309F;
      p.lse[number] = sum == 0.0F ? minus_infinity() : (base + log2_exact(sum)) * kLn2;
    }
  }
  block_sync();
  block.template each_sum<As>(
      c.v_chunks,
      p.dense_scales != nullptr,
      [&](int r, const MergeRow& row, int chunk, const Eight& o) {
        const auto at = [&](const TensorRef& x) {
          return const_cast<char*>(
                     pair_rows(c, x, row.sequence, block.group).of(row.query, row.head)) +
                 chunk * 16;
        };
        if (p.mixed.data == nullptr) {
          store_eight<E>(at(p.o), o);
          return;
        }
        const Eight cmp = load_eight<E>(at(p.o_cmp));
        const Eight win = load_eight<E>(at(p.o_win));
        if (p.o.data != nullptr) store_eight<E>(at(p.o), o);
        const Gates gates = block.numbers(r).gates;
        Eight mixed;
        NSA_UNROLL
        for (int i = 0; i < 8; ++i) {
          mixed.x[i] = gates.sel * o.x[i] + gates.cmp * cmp.x[i] + gates.win * win.x[i];
        }
        store_eight<E>(at(p.mixed), mixed);
      });
}

template <class E, class As>
NSA_KERNEL(kMergeThreads, 4)
merge_gradients(NSA_PARAMETER MergeGradientsParams p) {
  NSA_SHARED(memory);
  const MergeBlock block = merge_block(p.rows, memory);
  const Common& c = p.rows.common;
  {
    const MergeRow row = block.find_row();
    float weights[kMostPicks / 4] = {};
    MergeNumbers numbers;
    if (p.dense_steps != nullptr) numbers.dense = p.dense_steps[block.number_of(row)];
    block.each_pick(row, [&](int i, const PartScale& part) { weights[i] = part.y; });
    block.keep(row, weights, numbers);
  }
  block_sync();
  block.template each_sum<As>(
      c.k_chunks,
      p.dense_steps != nullptr,
      [&](int, const MergeRow& row, int chunk, const Eight& d_q) {
        const PairRows to = pair_rows(c, p.d_q, row.sequence, block.group);
        store_eight<E>(const_cast<char*>(to.of(row.query, row.head)) + chunk * 16, d_q);
      });
}

}  // namespace nsa::kernels
