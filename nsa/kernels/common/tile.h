// Tiles of 16-bit elements in shared memory. Columns lie in panels of 64 (or 32) elements; within a panel each row is one
// line of 128 (or 64) bytes whose 16-byte chunks are permuted by the row, so that eight rows of one chunk column meet no bank
// twice. It is also the layout that sm_90's matrix instructions call 128-byte swizzle, K-major and MN-major alike.
#pragma once

#include "nsa/kernels/common/device.h"

namespace nsa::kernels {

template <int kRows_, int kColumns_>
struct Tile {
  static constexpr int kRows = kRows_;
  static constexpr int kColumns = kColumns_;
  static constexpr int kChunks = kColumns / 8;  // 16-byte chunks of a row
  static constexpr int kPanel = kColumns % 64 == 0 ? 64 : 32;
  static constexpr int kLineBytes = kPanel * 2;
  static constexpr int kPanelBytes = kRows * kLineBytes;
  static constexpr int kBytes = kRows * kColumns * 2;

  // Byte offset of a chunk.
  NSA_DEVICE static std::uint32_t at(int row, int chunk) {
    constexpr int kPanelChunks = kPanel / 8;
    const int panel = chunk / kPanelChunks;
    const int permuted = (chunk % kPanelChunks) ^ (kPanel == 64 ? row & 7 : (row >> 1) & 3);
    return static_cast<std::uint32_t>(panel * kPanelBytes + row * kLineBytes + permuted * 16);
  }
};

// A view of the rows of one sequence and head, addressed in bytes.
struct ByteRows {
  const char* data;
  std::int64_t step;  // from one position to the next
};

// Rows first .. first + kRows - 1 into the tile; zeros before row 0, from row `end` on, and from chunk `chunks` on.
template <class T, int kThreads>
NSA_DEVICE void copy_rows(
    std::uint32_t tile, const ByteRows& from, int first, int end, int chunks, int thread) {
  NSA_UNROLL
  for (int i = 0; i < (T::kRows * T::kChunks + kThreads - 1) / kThreads; ++i) {
    const int index = thread + i * kThreads;
    if (T::kRows * T::kChunks % kThreads != 0 && index >= T::kRows * T::kChunks) break;
    const int row = index / T::kChunks;
    const int chunk = index % T::kChunks;
    const bool valid = first + row >= 0 && first + row < end && chunk < chunks;
    const char* source = valid ? from.data + (first + row) * from.step + chunk * 16 : from.data;
    copy16(tile + T::at(row, chunk), source, valid);
  }
}

// Rows of (query, head) pairs of one sequence and group.
struct PairRows {
  const char* data;  // of query 0, head 0 of the group
  std::int64_t query_step;
  std::int64_t head_step;
  Divider heads;

  NSA_DEVICE const char* row(int r) const {
    const int query = heads.quotient(r);
    return data + query * query_step + (r - query * heads.divisor) * head_step;
  }
};

template <class T, int kThreads>
NSA_DEVICE void copy_pairs(
    std::uint32_t tile, const PairRows& from, int first, int end, int chunks, int thread) {
  NSA_UNROLL
  for (int i = 0; i < (T::kRows * T::kChunks + kThreads - 1) / kThreads; ++i) {
    const int index = thread + i * kThreads;
    if (T::kRows * T::kChunks % kThreads != 0 && index >= T::kRows * T::kChunks) break;
    const int row = index / T::kChunks;
    const int chunk = index % T::kChunks;
    const bool valid = first + row < end && chunk < chunks;
    const char* source = valid ? from.row(first + row) + chunk * 16 : from.data;
    copy16(tile + T::at(row, chunk), source, valid);
  }
}

}  // namespace nsa::kernels
