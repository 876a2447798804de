// Attention of the heads of one group at one position over a list of keys (golden README,
// "Attend"): p = softmax over the listed keys of q.k / sqrt(d_k), o = sum p v, zeros if no key is
// listed.
// Legend: h heads of a group, K keys listed, D = d_k, V = d_v, N keys of a bank.
#pragma once

#include <cstdint>
#include <vector>

#include "oracles/attention/keys.h"
#include "oracles/matmul.h"

namespace oracles {

// Keys k_ND and values v_NV of one group, with transposed copies that make the inner loops run over
// keys. Points to the caller's arrays, which must outlive it.
class KeyBank {
 public:
  KeyBank(const double* k_ND,
          const double* v_NV,
          std::int64_t count,
          std::int64_t d_k,
          std::int64_t d_v);

  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] std::int64_t d_k() const { return d_k_; }
  [[nodiscard]] std::int64_t d_v() const { return d_v_; }
  [[nodiscard]] View keys(KeyRange range) const;               // [range, D]
  [[nodiscard]] View values(KeyRange range) const;             // [range, V]
  [[nodiscard]] View keys_transposed(KeyRange range) const;    // [D, range]
  [[nodiscard]] View values_transposed(KeyRange range) const;  // [V, range]

 private:
  const double* k_ND_;
  const double* v_NV_;
  std::int64_t count_;
  std::int64_t d_k_;
  std::int64_t d_v_;
  std::int64_t transposed_step_;
  std::vector<double> k_DN_;
  std::vector<double> v_VN_;
};

// s_hK = q.k / sqrt(d_k) of the keys listed, in their order.
void scaled_logits(const KeyBank& bank,
                   const KeyList& keys,
                   const View& q_hD,
                   std::vector<double>& s_hK);
// Softmax of every row, in place. Rows without elements are left alone.
void softmax_rows(std::vector<double>& s_hK, std::int64_t heads);
// o_hV = p v. REQUIRES: o_hV starts as zeros.
void weighted_values(const KeyBank& bank,
                     const KeyList& keys,
                     const std::vector<double>& p_hK,
                     const MutableView& o_hV);

// The three together. p_hK is left with the probabilities.
void attend(const KeyBank& bank,
            const KeyList& keys,
            const View& q_hD,
            std::vector<double>& p_hK,
            const MutableView& o_hV);

// dp_hK = do v^T
void value_products(const KeyBank& bank,
                    const KeyList& keys,
                    const View& do_hV,
                    std::vector<double>& dp_hK);
// dv += p^T do
void add_value_gradients(const KeyBank& bank,
                         const KeyList& keys,
                         const std::vector<double>& p_hK,
                         const View& do_hV,
                         double* dv_NV);
// s = q k^T: dq += ds k
void add_query_gradients(const KeyBank& bank,
                         const KeyList& keys,
                         const std::vector<double>& ds_hK,
                         const MutableView& dq_hD);
// and dk += ds^T q
void add_key_gradients(const KeyBank& bank,
                       const KeyList& keys,
                       const std::vector<double>& ds_hK,
                       const View& q_hD,
                       double* dk_ND);

struct AttendGradients {
  MutableView dq_hD;
  double* dk_ND = nullptr;
  double* dv_NV = nullptr;
};

// Memory that calls use one after the other.
struct AttendWork {
  std::vector<double> p_hK;
  std::vector<double> ds_hK;
};

// Adds the gradients for do_hV. With a draw, sums are as float32 might have taken them (float_sums.h).
void add_attend_gradients(const KeyBank& bank,
                          const KeyList& keys,
                          const View& q_hD,
                          const View& do_hV,
                          const AttendGradients& gradients,
                          AttendWork& work,
                          std::uint64_t draw = 0);

}  // namespace oracles
