#include "nsa/seams/flash/branches.h"

#include <algorithm>
#include <vector>

#include "nsa/seams/no_keys.h"

namespace nsa::flash {
namespace {

Tensor boundaries_of(const std::vector<std::int64_t>& lengths, torch::Device device) {
  std::vector<std::int32_t> ends = {0};
  for (const std::int64_t length : lengths) {
    ends.push_back(ends.back() + static_cast<std::int32_t>(length));
  }
  return torch::tensor(ends, torch::kInt).to(device);
}

// ---- the compressed branch as causal problems ---------------------------------------------------
//
// FlashAttention has no stepped mask. Row t sees floor((t-l+1)/d)+1 compressed tokens (arXiv 2502.11089 Eq. 7). Of the rows
// t = l-1 + i*d + j with one remainder j, the i-th sees exactly the first i+1: plain causal attention, in which query and key
// have the same number. So d such problems beside each other; rows before l-1 see nothing and are zeros.
class Compressed {
 public:
  Compressed(const ModelConfig& config, const Tensor& q_BHSD, const Tensor& k_BGCD)
      : batch_(q_BHSD.size(0)),
        stride_(config.d),
        keyless_(config.l - 1),
        rows_(q_BHSD.size(2) - keyless_),
        keys_(k_BGCD.size(2)) {}

  // Every problem has as many queries as there are keys; the last ones have no row of their own and are dropped again.
  [[nodiscard]] Tensor dense(const DenseKernel& kernel,
                             const Tensor& q_BHSD,
                             const Tensor& k_BGCD,
                             const Tensor& v_BGCD) const {
    const Tensor q_BHRD = torch::constant_pad_nd(q_BHSD.slice(2, keyless_), {0, 0, 0, slack()});
    // [B,H,C,d,D] -> [B,d,C,H,D]
    const Tensor q_NCHD =
        q_BHRD.unflatten(2, {keys_, stride_}).permute({0, 3, 2, 1, 4}).flatten(0, 1);
    const Tensor k_NCGD = repeated(k_BGCD).flatten(0, 1).contiguous();
    const Tensor v_NCGD = repeated(v_BGCD).flatten(0, 1).contiguous();
    const Tensor o_NCHD = kernel(q_NCHD, k_NCGD, v_NCGD, {});
    const Tensor o_BHRD =
        o_NCHD.unflatten(0, {batch_, stride_}).permute({0, 3, 2, 1, 4}).flatten(2, 3);
    return with_keyless_rows(o_BHRD.slice(2, 0, rows_));
  }

  // Problems of their own lengths, one after the other.
  [[nodiscard]] Tensor varlen(const VarlenKernel& kernel,
                              const Tensor& q_BHSD,
                              const Tensor& k_BGCD,
                              const Tensor& v_BGCD) const {
    const auto device = q_BHSD.device();
    const Tensor row_R = rows_by_problem().to(device);
    const Tensor key_R = keys_by_problem().to(device);
    const Tensor q_BRHD = q_BHSD.slice(2, keyless_).transpose(1, 2).index_select(1, row_R);
    const Tensor k_BRGD = repeated(k_BGCD).flatten(1, 2).index_select(1, key_R);
    const Tensor v_BRGD = repeated(v_BGCD).flatten(1, 2).index_select(1, key_R);
    const Tensor o_LHD = kernel(q_BRHD.flatten(0, 1),
                                k_BRGD.flatten(0, 1),
                                v_BRGD.flatten(0, 1),
                                boundaries_of(all_lengths(), device),
                                keys_,
                                {});
    const Tensor o_BRHD = o_LHD.unflatten(0, {batch_, rows_}).index_select(1, row_R.argsort());
    return with_keyless_rows(o_BRHD.transpose(1, 2));
  }

 private:
  [[nodiscard]] std::int64_t slack() const { return keys_ * stride_ - rows_; }

  // [B,d,C,G,D]: the same keys for every problem. Their gradients are summed over the problems by one sum.
  [[nodiscard]] Tensor repeated(const Tensor& x_BGCD) const {
    return x_BGCD.transpose(1, 2).unsqueeze(1).expand({-1, stride_, -1, -1, -1});
  }

  [[nodiscard]] Tensor with_keyless_rows(const Tensor& o_BHRD) const {
    return torch::constant_pad_nd(o_BHRD, {0, 0, keyless_, 0});
  }

  // Of one sequence: problems without a row are left out.
  [[nodiscard]] std::vector<std::int64_t> lengths() const {
    std::vector<std::int64_t> lengths;
    for (std::int64_t j = 0; j < std::min(stride_, rows_); ++j) {
      lengths.push_back((rows_ - j + stride_ - 1) / stride_);
    }
    return lengths;
  }

  [[nodiscard]] std::vector<std::int64_t> all_lengths() const {
    const auto one = lengths();
    std::vector<std::int64_t> all;
    for (std::int64_t b = 0; b < batch_; ++b) all.insert(all.end(), one.begin(), one.end());
    return all;
  }

  // Row of each place, counted from the first that sees a key.
  [[nodiscard]] Tensor rows_by_problem() const {
    std::vector<Tensor> parts;
    for (std::int64_t j = 0; j < std::min(stride_, rows_); ++j) {
      parts.push_back(torch::arange(j, rows_, stride_, torch::kLong));
    }
    return torch::cat(parts);
  }

  // Its key: the i-th of problem j among the d*C repeated ones. Each is taken once at most.
  [[nodiscard]] Tensor keys_by_problem() const {
    std::vector<Tensor> parts;
    const auto length_of = lengths();
    for (std::size_t j = 0; j < length_of.size(); ++j) {
      const auto first = static_cast<std::int64_t>(j) * keys_;
      parts.push_back(torch::arange(first, first + length_of[j], torch::kLong));
    }
    return torch::cat(parts);
  }

  std::int64_t batch_;
  std::int64_t stride_;
  std::int64_t keyless_;  // rows before the first compressed token is complete
  std::int64_t rows_;     // rows after them
  std::int64_t keys_;
};

}  // namespace

Tensor window_dense(const DenseKernel& kernel,
                    const ModelConfig& config,
                    const Tensor& q_BHSD,
                    const Tensor& k_BGSD,
                    const Tensor& v_BGSD) {
  return kernel(q_BHSD.transpose(1, 2), k_BGSD.transpose(1, 2), v_BGSD.transpose(1, 2), config.w)
      .transpose(1, 2);
}

Tensor window_varlen(const VarlenKernel& kernel,
                     const ModelConfig& config,
                     const Tensor& q_BHSD,
                     const Tensor& k_BGSD,
                     const Tensor& v_BGSD) {
  const auto batch = q_BHSD.size(0);
  const auto length = q_BHSD.size(2);
  const std::vector<std::int64_t> lengths(static_cast<std::size_t>(batch), length);
  const Tensor o_LHD = kernel(q_BHSD.transpose(1, 2).flatten(0, 1),
                              k_BGSD.transpose(1, 2).flatten(0, 1),
                              v_BGSD.transpose(1, 2).flatten(0, 1),
                              boundaries_of(lengths, q_BHSD.device()),
                              length,
                              config.w);
  return o_LHD.unflatten(0, {batch, length}).transpose(1, 2);
}

Tensor compressed_dense(const DenseKernel& kernel,
                        const ModelConfig& config,
                        const Tensor& q_BHSD,
                        const Tensor& k_BGCD,
                        const Tensor& v_BGCD) {
  if (k_BGCD.size(2) == 0) return over_no_keys(q_BHSD, k_BGCD, v_BGCD);
  return Compressed(config, q_BHSD, k_BGCD).dense(kernel, q_BHSD, k_BGCD, v_BGCD);
}

Tensor compressed_varlen(const VarlenKernel& kernel,
                         const ModelConfig& config,
                         const Tensor& q_BHSD,
                         const Tensor& k_BGCD,
                         const Tensor& v_BGCD) {
  if (k_BGCD.size(2) == 0) return over_no_keys(q_BHSD, k_BGCD, v_BGCD);
  return Compressed(config, q_BHSD, k_BGCD).varlen(kernel, q_BHSD, k_BGCD, v_BGCD);
}

}  // namespace nsa::flash
