// Host side: from a problem to parameters, sizes of buffers and launches. Internal to nsa/kernels.
#pragma once

#include "nsa/kernels/branches.h"
#include "nsa/kernels/common/kernels.h"

namespace nsa::kernels {

// Hands out pieces of a workspace, or only adds them up where there is none.
class Carver {
 public:
  explicit Carver(void* base) : base_(static_cast<char*>(base)) {}
  template <class T>
  T* take(std::int64_t count) {
    const std::size_t at = used_;
    used_ += (static_cast<std::size_t>(count) * sizeof(T) + 255) / 256 * 256;
    return base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + at);
  }
  [[nodiscard]] std::size_t used() const { return used_; }
  // What comes next takes the place of what came after `mark`.
  void reuse(std::size_t mark) { used_ = mark; }

 private:
  char* base_;
  std::size_t used_ = 0;
};

// A problem with its kernels; throws std::invalid_argument where there are none.
struct Work {
  Work(const Problem& problem, const std::int32_t* cu_seqlens, Stream stream);

  const Problem& problem;
  Common common;
  const MatrixKernels& matrix;
  const ElementKernels& element;
  Stream stream;

  [[nodiscard]] std::int64_t rows() const {  // (query, head) pairs of all groups
    return static_cast<std::int64_t>(common.groups) * common.tokens * common.heads.divisor;
  }
  [[nodiscard]] int key_positions() const {
    return common.sequences.first + common.sequences.length;
  }
  [[nodiscard]] KeyRange range(RangeKind kind) const { return {kind, common.geometry}; }
  [[nodiscard]] RowTiles tiles(int rows, int from, int to, int heads) const {
    return {from, to, heads, rows};
  }
  [[nodiscard]] std::int64_t slots(const RowTiles& tiles) const {
    return tiles.slots(common.sequences.count);
  }
};

// Throws std::invalid_argument that names the tensor where it cannot be copied 16 bytes at a time.
TensorRef element_rows(const Rows& rows, const char* name);
// Throws std::invalid_argument where q has rows that a list cannot name: it has 32 bits for a place in units of 16 bytes.
void check_queries(const Work& work, const Rows& q);
// A tensor whose elements have `bytes` bytes.
TensorRef number_rows(const Rows& rows, int bytes);
GateRef gate_rows(const Problem& problem, const Rows& gates);

// Queries [from, to) of all sequences and some groups, whose parts are in memory together.
struct ListChunk {
  int range = 0;  // the first one
  int ranges = 0;
  int from = 0;
  int to = 0;
  int first_group = 0;
  int groups = 0;
};

// The inverted lists of all queries, and the chunks they are worked on in: few groups and many queries each, so that lists are
// long.
struct ListPlan {
  ListParams params;
  int chunk_tokens = 0;
  int chunk_groups = 1;
  int picks = 0;    // of a query that can have parts
  int skipped = 0;  // first of them
  int columns = 0;  // of a part
  int bits = 16;    // of a value of a part

  [[nodiscard]] std::int64_t part_bytes() const { return columns / 8 * bits; }

  [[nodiscard]] int chunks_of_group() const {
    return static_cast<int>(ceil_div(params.ranges, params.together));
  }
  [[nodiscard]] int chunks() const {
    if (empty()) return 1;
    return chunks_of_group() * static_cast<int>(ceil_div(params.common.groups, chunk_groups));
  }
  [[nodiscard]] ListChunk chunk(int i) const {
    const Common& c = params.common;
    if (empty()) return {0, 0, 0, c.tokens, 0, c.groups};
    const int index = i % chunks_of_group();
    const int first_group = i / chunks_of_group() * chunk_groups;
    const int range = index * params.together;
    return {range,
            smaller(params.together, params.ranges - range),
            index * chunk_tokens,
            smaller(c.tokens, (index + 1) * chunk_tokens),
            first_group,
            smaller(chunk_groups, c.groups - first_group)};
  }
  // No query can have parts: all its blocks are forced.
  [[nodiscard]] bool empty() const { return picks == 0 || params.common.tokens == 0; }
};
// Takes what the lists need from the workspace.
enum class Pass { forward, forward_saving, backward };
ListPlan plan_lists(
    const Work& work, const Rows& blocks, bool forced_apart, Pass pass, Carver& carver);
PartBuffers take_parts(const Work& work, const ListPlan& plan, Carver& carver);

// Key tiles of one source of the key-gradient kernel; takes its sums from the workspace unless `d_k` and `d_v` are to be
// written at once and one segment is enough.
struct KeyPlan {
  KeyTiles tiles;
  int key_rows = 0;
  int slots = 0;
  int segments = 1;
  int segment = 1;
  float* sums = nullptr;

  [[nodiscard]] SumRef ref() const { return {sums, tiles, key_rows, segment}; }
};
enum class Sums { always, when_cut };
KeyPlan plan_keys(const Work& work, RangeKind kind, Sums sums, Carver& carver);
KeyGradientSource key_source(const KeyPlan& plan, const GradientSource& in);

}  // namespace nsa::kernels
