#include "oracles/attention/score_bound.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "oracles/attention/block_scores.h"
#include "oracles/attention/layer.h"
#include "oracles/matmul.h"
#include "oracles/parallel.h"

namespace oracles {
namespace {

constexpr std::int64_t kGrainRows = 64;
// exp(kMostSlack) is still finite, and so are its products.
constexpr double kMostSlack = 300;
// The bounds are evaluated in float64 themselves, in far fewer than 10^9 operations each.
constexpr double kEvaluation = 1 + 1e-6;

// The logits of one head and their errors, [R,C].
struct HeadLogits {
  std::vector<double> value;
  std::vector<double> error;
};

// s = q.k / sqrt(D). With errors E of q and k, and n = D + 3 roundings (D products and sums, root
// and quotient): E_s sqrt(D) <= E_q.|k| + (|q| + E_q).(E_k + gamma_n (|k| + E_k)); kept twice,
// before and after the division by the root.
class LogitBounds {
 public:
  LogitBounds(const ScoreInputs& in, const Arithmetic& a, int threads)
      : q_(in.q.data),
        k_(in.k_cmp.data),
        q_error_(q_.size(), in.q_error),
        a_(a),
        threads_(threads),
        rows_(in.q.shape[3]),
        keys_(in.k_cmp.shape[2]),
        width_(in.k_cmp.shape[3]) {
    const double g = gamma(static_cast<double>(width_) + 3, a.summed);
    for (const double q : q_) {
      q_reach_.push_back(std::abs(q) + in.q_error);
    }
    for (const double k : k_) {
      k_size_.push_back(std::abs(k));
      k_error_.push_back(in.k_error + g * (std::abs(k) + in.k_error));
    }
  }

  // `head` counts over batch, groups and heads; `group` over batch and groups.
  [[nodiscard]] HeadLogits of(std::int64_t group, std::int64_t head) const {
    const auto count = static_cast<std::size_t>(rows_ * keys_);
    HeadLogits logits{std::vector<double>(count, 0.0), std::vector<double>(count, 0.0)};
    add(q_, head, k_, group, logits.value);
    add(q_error_, head, k_size_, group, logits.error);
    add(q_reach_, head, k_error_, group, logits.error);
    const double root = std::sqrt(static_cast<double>(width_));
    const double kept = gamma(2, a_.stored);
    for (std::size_t i = 0; i < count; ++i) {
      logits.value[i] /= root;
      logits.error[i] /= root;
      logits.error[i] += kept * (std::abs(logits.value[i]) + logits.error[i]);
    }
    return logits;
  }

 private:
  void add(const std::vector<double>& left,
           std::int64_t head,
           const std::vector<double>& right,
           std::int64_t group,
           std::vector<double>& sum) const {
    const View a{left.data() + head * rows_ * width_, rows_, width_, width_, 1};
    const View b{right.data() + group * keys_ * width_, keys_, width_, width_, 1};
    multiply_add_large(a, transposed(b), {sum.data(), rows_, keys_, keys_}, threads_);
  }

  const std::vector<double>& q_;
  const std::vector<double>& k_;
  std::vector<double> q_error_;
  const Arithmetic& a_;
  int threads_;
  std::int64_t rows_;
  std::int64_t keys_;
  std::int64_t width_;
  std::vector<double> q_reach_;
  std::vector<double> k_size_;
  std::vector<double> k_error_;
};

// One row of one head: the softmax p of n visible logits s with errors E, and how far a block's
// score can move. The computed probabilities are p_k e^{m_k} / sum_i p_i e^{m_i} with |m_k| <=
// slack_k,
//   slack_k = E_k + (6 + 6 z_k) u + 2 u (|max s| + max E + ln n + 1),
// but for roundings after it. The second term is exp (4 ulp) and its argument, one rounding each
// for the difference and for the product with log2 e, where z_k is the largest size of the
// argument; the third is the logarithm of the sum, where an implementation divides by way of that.
// So a probability rises by a share of at most e^{slack_k} / D- - 1 and falls by at most 1 -
// e^{-slack_k} / D+, with D+- = sum_i p_i e^{+-slack_i}. Both are written with expm1, so that
// nothing cancels.
class RowOfHead {
 public:
  RowOfHead(const double* s, const double* error, std::int64_t n, double u) : p_(s, s + n) {
    if (n == 0) {
      return;
    }
    const double largest = *std::max_element(s, s + n);
    const double most_error = *std::max_element(error, error + n);
    const double common =
        2 * u * (std::abs(largest) + most_error + std::log(static_cast<double>(n)) + 1);
    for (std::int64_t c = 0; c < n; ++c) {
      const double z = largest - s[c] + error[c] + most_error;
      slack_.push_back(std::min(kMostSlack, error[c] + (6 + 6 * z) * u + common));
    }
    softmax_rows(p_, 1);
    for (std::int64_t c = 0; c < n; ++c) {
      rise_ += p_[c] * std::expm1(slack_[c]);
      fall_ -= p_[c] * std::expm1(-slack_[c]);
      lowest_ += p_[c] * std::exp(-slack_[c]);
    }
  }

  // Adds p M to the scores, and what p^ M can be above and below to the other two.
  void add(const OverlapMap& map, double* score, double* above, double* below) const {
    for (std::size_t c = 0; c < p_.size(); ++c) {
      const double up = (std::expm1(slack_[c]) + fall_) / lowest_;
      const double down = (rise_ - std::expm1(-slack_[c])) / (1 + rise_);
      for (const OverlapMap::Entry& entry : map.of(static_cast<std::int64_t>(c))) {
        const double share = p_[c] * entry.weight;
        score[entry.block] += share;
        above[entry.block] += share * up;
        below[entry.block] += share * down;
      }
    }
  }

 private:
  std::vector<double> p_;
  std::vector<double> slack_;
  double rise_ = 0;    // D+ - 1
  double fall_ = 0;    // 1 - D-
  double lowest_ = 0;  // D-, which 1 - fall would lose where it is small
};

// What follows softmax, all of it positive, so that roundings only add up relatively: the sum of n
// terms and the quotient; p, M and p_grp kept, and the sum over h heads, which may be kept too; the
// products and sums of the at most `touching` tokens of a block in h heads.
double rounding_after(std::int64_t n,
                      std::int64_t heads,
                      std::int64_t touching,
                      const Arithmetic& a) {
  const auto terms = static_cast<double>(n + heads * touching + 8);
  const auto kept = static_cast<double>(heads + 3);
  const double sums = gamma(terms, a.summed);
  const double stores = gamma(kept, a.stored);
  return sums + stores + sums * stores;
}

// Bounds of one group: above and below are sums over the heads.
class GroupBounds {
 public:
  GroupBounds(const AttentionConfig& config,
              const ScoreInputs& in,
              const Arithmetic& a,
              int threads)
      : config_(config),
        in_(in),
        a_(a),
        threads_(threads),
        map_(config, in.length),
        rows_(static_cast<std::int64_t>(in.rows.size())),
        blocks_(config.block_count(in.length)) {}

  void run(const LogitBounds& logits, std::int64_t group, double* score, double* bound) {
    const std::int64_t heads = config_.heads_per_group();
    std::vector<double> below(static_cast<std::size_t>(rows_ * blocks_), 0.0);
    for (std::int64_t i = 0; i < heads; ++i) {
      const HeadLogits head = logits.of(group, group * heads + i);
      for_each_row([&](std::int64_t row, std::int64_t visible) {
        const std::int64_t at = row * map_.tokens();
        const RowOfHead values(head.value.data() + at, head.error.data() + at, visible, a_.summed);
        values.add(
            map_, score + row * blocks_, bound + row * blocks_, below.data() + row * blocks_);
      });
    }
    for_each_row([&](std::int64_t row, std::int64_t visible) {
      for (std::int64_t j = row * blocks_; j < (row + 1) * blocks_; ++j) {
        bound[j] = finished(score[j], std::max(bound[j], below[j]), visible);
      }
    });
  }

 private:
  // visit(row, number of visible compressed tokens)
  template <typename Visit>
  void for_each_row(Visit visit) const {
    parallel_for(rows_, kGrainRows, threads_, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        visit(row, key_count(visible_compressed(config_, in_.rows[row], map_.tokens())));
      }
    });
  }

  // With the roundings after softmax, and what flushing to zero can take away: in each of the h
  // heads and tokens that touch the block, an exp, a quotient and a product.
  [[nodiscard]] double finished(double score, double moved, std::int64_t visible) const {
    if (visible == 0) {
      return 0;
    }
    const std::int64_t heads = config_.heads_per_group();
    const std::int64_t touching = (config_.l_sel + config_.l) / config_.d;
    const double after = rounding_after(visible, heads, touching, a_);
    const double flushed =
        4 * std::max(1.0, map_.largest()) * static_cast<double>(heads * touching) * a_.underflow;
    return (moved * (1 + after) + score * after + flushed) * kEvaluation;
  }

  const AttentionConfig& config_;
  const ScoreInputs& in_;
  const Arithmetic& a_;
  int threads_;
  OverlapMap map_;
  std::int64_t rows_;
  std::int64_t blocks_;
};

BoundedScores bounded_scores(const AttentionConfig& config,
                             const ScoreInputs& in,
                             const Arithmetic& a,
                             int threads) {
  const Shape& shape = in.q.shape;
  const std::int64_t blocks = config.block_count(in.length);
  BoundedScores result{zeros({shape[0], shape[1], shape[3], blocks}),
                       zeros({shape[0], shape[1], shape[3], blocks})};
  if (in.k_cmp.data.empty()) {
    return result;  // no compressed token: the scores are zeros in any arithmetic
  }
  const LogitBounds logits(in, a, threads);
  GroupBounds bounds(config, in, a, threads);
  for (std::int64_t group = 0; group < shape[0] * shape[1]; ++group) {
    const std::int64_t at = group * shape[3] * blocks;
    bounds.run(logits, group, result.p_grp.data.data() + at, result.bound.data.data() + at);
  }
  return result;
}

Arithmetic with_float32_sums(double stored) {
  Arithmetic a = Arithmetic::float32();
  a.stored = stored;
  return a;
}

}  // namespace

Arithmetic Arithmetic::float64() {
  return {std::ldexp(1, -53), std::ldexp(1, -53), std::ldexp(1, -1022)};
}
Arithmetic Arithmetic::float32() {
  return {std::ldexp(1, -24), std::ldexp(1, -24), std::ldexp(1, -126)};
}
Arithmetic Arithmetic::bfloat16() {
  return with_float32_sums(std::ldexp(1, -8));
}
Arithmetic Arithmetic::float16() {
  Arithmetic a = with_float32_sums(std::ldexp(1, -11));
  a.underflow = std::ldexp(1, -14);  // probabilities are kept in it
  return a;
}

double gamma(double n, double u) {
  constexpr double kUseless = 1e30;
  return n * u < 1 ? std::min(kUseless, n * u / (1 - n * u)) : kUseless;
}

Arithmetic with_own_rounding(Arithmetic arithmetic) {
  const double own = Arithmetic::float64().stored;
  arithmetic.stored += own;
  arithmetic.summed += own;
  return arithmetic;
}

BoundedScores scores_from(const AttentionConfig& config,
                          const ScoreInputs& inputs,
                          const Arithmetic& arithmetic,
                          int threads) {
  validate(config);
  if (inputs.q.shape.size() != 5 || inputs.length < 1 || inputs.rows.empty()) {
    throw std::invalid_argument("scores_from: wanted q [B,G,h,R,D], a length and rows");
  }
  const std::vector<std::int64_t> rows = requested_rows(inputs.rows, inputs.length);
  const std::int64_t batch = inputs.q.shape[0];
  require_shape(inputs.q,
                {batch,
                 config.n_kv_groups,
                 config.heads_per_group(),
                 static_cast<std::int64_t>(rows.size()),
                 config.d_k},
                "q");
  require_shape(inputs.k_cmp,
                {batch, config.n_kv_groups, config.compressed_count(inputs.length), config.d_k},
                "k_cmp");
  require_finite(inputs.q, "q");
  require_finite(inputs.k_cmp, "k_cmp");
  return bounded_scores(config, inputs, with_own_rounding(arithmetic), threads);
}

}  // namespace oracles
