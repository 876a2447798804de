#include "oracles/attention/attend.h"

#include <algorithm>
#include <cmath>

#include "oracles/attention/float_sums.h"

namespace oracles {
namespace {

// Keys worked on at a time: 64 keys of width 64 are 32 KB, within an L1 cache.
constexpr std::int64_t kKeysPerPiece = 64;

// An odd number of cache lines, so that columns do not fall into the same few cache sets.
std::int64_t padded_step(std::int64_t count) {
  constexpr std::int64_t kLine = 8;
  const std::int64_t lines = (count + kLine - 1) / kLine;
  return (lines + (lines % 2 == 0 ? 1 : 0)) * kLine;
}

std::vector<double> transposed_copy(const double* rows,
                                    std::int64_t count,
                                    std::int64_t width,
                                    std::int64_t step) {
  std::vector<double> copy(static_cast<std::size_t>(width * step), 0.0);
  for (std::int64_t n = 0; n < count; ++n) {
    for (std::int64_t c = 0; c < width; ++c) {
      copy[c * step + n] = rows[n * width + c];
    }
  }
  return copy;
}

// Calls visit(range, offset in the list) for pieces of the list.
template <typename Visit>
void for_each_piece(const KeyList& keys, Visit visit) {
  std::int64_t offset = 0;
  for (const KeyRange& range : keys) {
    for (std::int64_t begin = range.begin; begin < range.end; begin += kKeysPerPiece) {
      const KeyRange piece{begin, std::min(begin + kKeysPerPiece, range.end)};
      visit(piece, offset);
      offset += piece.end - piece.begin;
    }
  }
}

// Columns [offset, offset + width) of a row-major [rows, count] matrix.
MutableView columns_of(std::vector<double>& matrix,
                       std::int64_t rows,
                       std::int64_t count,
                       std::int64_t offset,
                       std::int64_t width) {
  return {matrix.data() + offset, rows, width, count};
}

// Rows [range] of a row-major [N, width] matrix.
MutableView rows_of(double* matrix, const KeyRange& range, std::int64_t width) {
  return {matrix + range.begin * width, range.end - range.begin, width, width};
}

std::int64_t width(const KeyRange& range) {
  return range.end - range.begin;
}

// ds = p (dp - sum p dp) / root, in place of dp: the softmax, and the factor 1 / sqrt(d_k) of the
// logits. With a draw the sum over several keys is one in float32.
void softmax_gradient_rows(const std::vector<double>& p_hK,
                           std::vector<double>& dp_hK,
                           std::int64_t heads,
                           double root,
                           std::uint64_t draw) {
  const std::size_t count = p_hK.size() / static_cast<std::size_t>(heads);
  for (std::size_t row = 0; count > 0 && row < p_hK.size(); row += count) {
    double mean = 0;
    for (std::size_t k = row; k < row + count; ++k) {
      mean += p_hK[k] * dp_hK[k];
    }
    if (draw != 0 && count > 1) {
      const double magnitudes =
          magnitudes_of_products(&p_hK[row], &dp_hK[row], static_cast<std::int64_t>(count));
      mean = sum_in_float32(mean, magnitudes, mean_draw(draw));
    }
    for (std::size_t k = row; k < row + count; ++k) {
      dp_hK[k] = p_hK[k] * (dp_hK[k] - mean) / root;
    }
  }
}

// to_NX += the transpose of weights_hK times x_hX.
void add_products_of_keys(const KeyList& keys,
                          const std::vector<double>& weights_hK,
                          const View& x_hX,
                          std::int64_t columns,
                          double* to_NX) {
  const std::int64_t count = key_count(keys);
  for_each_piece(keys, [&](const KeyRange& piece, std::int64_t offset) {
    const View weights{weights_hK.data() + offset, x_hX.rows, width(piece), count, 1};
    multiply_add(transposed(weights), x_hX, rows_of(to_NX, piece, columns));
  });
}

}  // namespace

KeyBank::KeyBank(
    const double* k_ND, const double* v_NV, std::int64_t count, std::int64_t d_k, std::int64_t d_v)
    : k_ND_(k_ND),
      v_NV_(v_NV),
      count_(count),
      d_k_(d_k),
      d_v_(d_v),
      transposed_step_(padded_step(count)),
      k_DN_(transposed_copy(k_ND, count, d_k, transposed_step_)),
      v_VN_(transposed_copy(v_NV, count, d_v, transposed_step_)) {}

View KeyBank::keys(KeyRange range) const {
  return {k_ND_ + range.begin * d_k_, width(range), d_k_, d_k_, 1};
}
View KeyBank::values(KeyRange range) const {
  return {v_NV_ + range.begin * d_v_, width(range), d_v_, d_v_, 1};
}
View KeyBank::keys_transposed(KeyRange range) const {
  return {k_DN_.data() + range.begin, d_k_, width(range), transposed_step_, 1};
}
View KeyBank::values_transposed(KeyRange range) const {
  return {v_VN_.data() + range.begin, d_v_, width(range), transposed_step_, 1};
}

void scaled_logits(const KeyBank& bank,
                   const KeyList& keys,
                   const View& q_hD,
                   std::vector<double>& s_hK) {
  const std::int64_t count = key_count(keys);
  s_hK.assign(static_cast<std::size_t>(q_hD.rows * count), 0.0);
  for_each_piece(keys, [&](const KeyRange& piece, std::int64_t offset) {
    multiply_add(q_hD,
                 bank.keys_transposed(piece),
                 columns_of(s_hK, q_hD.rows, count, offset, width(piece)));
  });
  const double root = std::sqrt(static_cast<double>(bank.d_k()));
  for (double& logit : s_hK) {
    logit /= root;
  }
}

void softmax_rows(std::vector<double>& s_hK, std::int64_t heads) {
  const auto count = static_cast<std::int64_t>(s_hK.size()) / heads;
  for (auto row = s_hK.begin(); count > 0 && row != s_hK.end(); row += count) {
    const double largest = *std::max_element(row, row + count);
    double sum = 0;
    for (auto p = row; p != row + count; ++p) {
      *p = std::exp(*p - largest);
      sum += *p;
    }
    for (auto p = row; p != row + count; ++p) {
      *p /= sum;
    }
  }
}

void weighted_values(const KeyBank& bank,
                     const KeyList& keys,
                     const std::vector<double>& p_hK,
                     const MutableView& o_hV) {
  const std::int64_t count = key_count(keys);
  for_each_piece(keys, [&](const KeyRange& piece, std::int64_t offset) {
    const View p_part{p_hK.data() + offset, o_hV.rows, width(piece), count, 1};
    multiply_add(p_part, bank.values(piece), o_hV);
  });
}

void attend(const KeyBank& bank,
            const KeyList& keys,
            const View& q_hD,
            std::vector<double>& p_hK,
            const MutableView& o_hV) {
  scaled_logits(bank, keys, q_hD, p_hK);
  softmax_rows(p_hK, q_hD.rows);
  weighted_values(bank, keys, p_hK, o_hV);
}

void value_products(const KeyBank& bank,
                    const KeyList& keys,
                    const View& do_hV,
                    std::vector<double>& dp_hK) {
  const std::int64_t count = key_count(keys);
  dp_hK.assign(static_cast<std::size_t>(do_hV.rows * count), 0.0);
  for_each_piece(keys, [&](const KeyRange& piece, std::int64_t offset) {
    multiply_add(do_hV,
                 bank.values_transposed(piece),
                 columns_of(dp_hK, do_hV.rows, count, offset, width(piece)));
  });
}

void add_value_gradients(const KeyBank& bank,
                         const KeyList& keys,
                         const std::vector<double>& p_hK,
                         const View& do_hV,
                         double* dv_NV) {
  add_products_of_keys(keys, p_hK, do_hV, bank.d_v(), dv_NV);
}

void add_query_gradients(const KeyBank& bank,
                         const KeyList& keys,
                         const std::vector<double>& ds_hK,
                         const MutableView& dq_hD) {
  const std::int64_t count = key_count(keys);
  for_each_piece(keys, [&](const KeyRange& piece, std::int64_t offset) {
    multiply_add(
        {ds_hK.data() + offset, dq_hD.rows, width(piece), count, 1}, bank.keys(piece), dq_hD);
  });
}

void add_key_gradients(const KeyBank& bank,
                       const KeyList& keys,
                       const std::vector<double>& ds_hK,
                       const View& q_hD,
                       double* dk_ND) {
  add_products_of_keys(keys, ds_hK, q_hD, bank.d_k(), dk_ND);
}

void add_attend_gradients(const KeyBank& bank,
                          const KeyList& keys,
                          const View& q_hD,
                          const View& do_hV,
                          const AttendGradients& gradients,
                          AttendWork& work,
                          std::uint64_t draw) {
  scaled_logits(bank, keys, q_hD, work.p_hK);
  softmax_rows(work.p_hK, q_hD.rows);
  add_value_gradients(bank, keys, work.p_hK, do_hV, gradients.dv_NV);
  value_products(bank, keys, do_hV, work.ds_hK);
  if (draw != 0) {
    draw_value_products(bank, keys, do_hV, draw, work.ds_hK);
  }
  softmax_gradient_rows(
      work.p_hK, work.ds_hK, q_hD.rows, std::sqrt(static_cast<double>(bank.d_k())), draw);
  add_query_gradients(bank, keys, work.ds_hK, gradients.dq_hD);
  add_key_gradients(bank, keys, work.ds_hK, q_hD, gradients.dk_ND);
}

}  // namespace oracles
