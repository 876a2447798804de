#include "tests/kernels/judge/rounded.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "oracles/parallel.h"

namespace judge {
namespace {

using Keys = std::vector<std::int64_t>;

struct Dimensions {
  std::int64_t groups, heads, d_k, d_v, queries, keys, compressed, first;
};

double squared(double x) {
  return x * x;
}

// 16-bit integers times the largest magnitude / 32767. Narrow parts have 12 bits; that is not granted here.
void quantize(Numbers& row) {
  double largest = 1e-30;
  for (const double x : row) largest = std::max(largest, std::abs(x));
  const double step = largest / 32767;
  for (double& x : row) x = std::nearbyint(x / step) * step;
}

// Attention of one row over some keys: o = sum / weight.
struct Partial {
  double largest = -INFINITY;
  double weight = 0;
  Numbers sum;
  Numbers squares;  // of the terms
};

class Group {
 public:
  Group(const Case& one,
        const Sequence& s,
        const Dimensions& n,
        const Outcome& tested,
        bool forced_apart,
        std::int64_t g,
        Outcome& value,
        Outcome& spread)
      : one_(one),
        p_(one.problem),
        s_(s),
        n_(n),
        tested_(tested),
        apart_(forced_apart),
        g_(g),
        value_(value),
        spread_(spread),
        scale_(1 / std::sqrt(static_cast<double>(n.d_k))) {
    const std::int64_t counts[3] = {n.compressed, n.keys, n.keys};
    for (int b = 0; b < 3; ++b) {
      for (Numbers* x : {&d_k[b], &d_k2[b]}) x->assign(counts[b] * n.d_k, 0.0);
      for (Numbers* x : {&d_v[b], &d_v2[b]}) x->assign(counts[b] * n.d_v, 0.0);
    }
  }

  void query(std::int64_t t) {
    const std::int64_t position = n_.first + t;
    list_keys(position, t);
    Numbers gate_squares(3);
    for (std::int64_t i = 0; i < n_.heads; ++i) {
      row_ = (g_ * n_.heads + i) * n_.queries + t;
      q_ = s_.q.data() + row_ * n_.d_k;
      d_o_ = s_.d_o.data() + row_ * n_.d_v;
      forward(i, t);
      gates(i, t, gate_squares);
      if (one_.backward) backward(i, t);
    }
  }

  Numbers d_k[3], d_v[3], d_k2[3], d_v2[3];

 private:
  const double* key(int branch, std::int64_t u) const {
    const Numbers& k = branch == 0 ? value_.k_cmp : (branch == 1 ? s_.k_sel : s_.k_win);
    const std::int64_t count = branch == 0 ? n_.compressed : n_.keys;
    return k.data() + (g_ * count + u) * n_.d_k;
  }
  const double* val(int branch, std::int64_t u) const {
    const Numbers& v = branch == 0 ? value_.v_cmp : (branch == 1 ? s_.v_sel : s_.v_win);
    const std::int64_t count = branch == 0 ? n_.compressed : n_.keys;
    return v.data() + (g_ * count + u) * n_.d_v;
  }
  double logit(int branch, std::int64_t u) const {
    const double* k = key(branch, u);
    double sum = 0;
    for (std::int64_t c = 0; c < n_.d_k; ++c) sum += q_[c] * k[c];
    return sum * scale_;
  }

  // Lists of keys: [branch]; the selected ones as what is in one softmax from the start, and block by block.
  void list_keys(std::int64_t position, std::int64_t t) {
    for (auto& list : whole_) list.clear();
    parts_.clear();
    for (std::int64_t c = 0; c < n_.compressed && c * p_.d + p_.l - 1 <= position; ++c)
      whole_[0].push_back(c);
    for (std::int64_t u = std::max<std::int64_t>(0, position - p_.w + 1); u <= position; ++u)
      whole_[2].push_back(u);
    const std::int64_t current = position / p_.l_sel;
    for (std::int64_t pick = 0; pick < p_.n_sel; ++pick) {
      const std::int64_t block = tested_.blocks[(g_ * n_.queries + t) * p_.n_sel + pick];
      if (block < 0) break;
      Keys list;
      for (std::int64_t u = block * p_.l_sel; u < std::min((block + 1) * p_.l_sel, position + 1);
           ++u)
        list.push_back(u);
      const bool forced = block < p_.init_blocks || block > current - p_.local_blocks;
      if (apart_ && forced) {
        whole_[1].insert(whole_[1].end(), list.begin(), list.end());
      } else {
        parts_.push_back(list);
      }
    }
  }

  Partial attend(int branch, const Keys& keys) const {
    Partial r;
    r.sum.assign(n_.d_v, 0.0);
    r.squares.assign(n_.d_v, 0.0);
    Numbers logits;
    for (const std::int64_t u : keys) {
      logits.push_back(logit(branch, u));
      r.largest = std::max(r.largest, logits.back());
    }
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const double p = std::exp(logits[i] - r.largest);
      const double kept = rounded(p, p_.element);
      const double* v = val(branch, keys[i]);
      r.weight += p;
      for (std::int64_t c = 0; c < n_.d_v; ++c) {
        r.sum[c] += kept * v[c];
        r.squares[c] += squared(p * v[c]);
      }
    }
    return r;
  }

  static void join(Partial& into, const Partial& other) {
    if (other.weight == 0) return;
    const double largest = std::max(into.largest, other.largest);
    const double a = into.weight == 0 ? 0 : std::exp(into.largest - largest);
    const double b = std::exp(other.largest - largest);
    into.weight = into.weight * a + other.weight * b;
    for (std::size_t c = 0; c < into.sum.size(); ++c) {
      into.sum[c] = into.sum[c] * a + other.sum[c] * b;
      into.squares[c] = into.squares[c] * a * a + other.squares[c] * b * b;
    }
    into.largest = largest;
  }

  void forward(std::int64_t i, std::int64_t t) {
    Numbers* outputs[3] = {&value_.o_cmp, &value_.o_sel, &value_.o_win};
    Numbers* spreads[3] = {&spread_.o_cmp, &spread_.o_sel, &spread_.o_win};
    Numbers* sums[3] = {&value_.lse_cmp, &value_.lse_sel, &value_.lse_win};
    for (std::int64_t c = 0; c < n_.d_v; ++c) {
      value_.o[row_ * n_.d_v + c] = 0;
      spread_.o[row_ * n_.d_v + c] = 0;
    }
    for (int b = 0; b < 3; ++b) {
      Partial r = attend(b, whole_[b]);
      if (b == 1) {
        if (apart_) quantize(r.sum);
        for (const Keys& part : parts_) {
          Partial one = attend(b, part);
          quantize(one.sum);
          join(r, one);
        }
      }
      lse_[b] = r.weight == 0 ? -INFINITY : static_cast<float>(r.largest + std::log(r.weight));
      (*sums[b])[row_] = lse_[b];
      const double gate = gate_of(i, t, b);
      for (std::int64_t c = 0; c < n_.d_v; ++c) {
        const std::int64_t at = row_ * n_.d_v + c;
        const double o = r.weight == 0 ? 0 : r.sum[c] / r.weight;
        const double kept = rounded(o, p_.element);
        const double spread = r.weight == 0 ? 0 : std::sqrt(r.squares[c]) / r.weight;
        (*outputs[b])[at] = kept;
        (*spreads[b])[at] = spread;
        value_.o[at] += gate * (b == 1 && apart_ ? o : kept);
        spread_.o[at] += squared(gate * std::max(spread, std::abs(o)));
      }
    }
    for (std::int64_t c = 0; c < n_.d_v; ++c) {
      const std::int64_t at = row_ * n_.d_v + c;
      value_.o[at] = rounded(value_.o[at], p_.element);
      spread_.o[at] = std::sqrt(spread_.o[at]);
    }
  }

  std::int64_t gate_owner(std::int64_t i) const {
    return p_.gate_form == nsa::kernels::GateForm::per_head ? g_ * n_.heads + i : g_;
  }
  double gate_of(std::int64_t i, std::int64_t t, int b) const {
    return s_.gates[(gate_owner(i) * n_.queries + t) * 3 + b];
  }

  void gates(std::int64_t i, std::int64_t t, Numbers& squares) {
    const Numbers* outputs[3] = {&value_.o_cmp, &value_.o_sel, &value_.o_win};
    const bool per_head = p_.gate_form == nsa::kernels::GateForm::per_head;
    for (int b = 0; b < 3; ++b) {
      x_[b] = 0;
      double square = 0;
      for (std::int64_t c = 0; c < n_.d_v; ++c) {
        const double product = d_o_[c] * (*outputs[b])[row_ * n_.d_v + c];
        x_[b] += product;
        square += squared(product);
      }
      noise_[b] = std::sqrt(square);
      double& sum = value_.d_gates[(gate_owner(i) * n_.queries + t) * 3 + b];
      double& spread = spread_.d_gates[(gate_owner(i) * n_.queries + t) * 3 + b];
      sum += x_[b];
      squares[b] += square;
      spread = per_head ? noise_[b] : std::sqrt(squares[b]);
      const bool last = per_head || i == n_.heads - 1;
      if (last && p_.gate_type == nsa::kernels::GateType::element) sum = rounded(sum, p_.element);
    }
  }

  // Adds to dq what some keys give; its squares, and what an error of x does.
  void differentiate(
      int b, double gate, const Keys& keys, Numbers& dq, Numbers& squares, Numbers& of_x) {
    const double* d_o = apart_ ? d_o_ : gated_.data();
    for (const std::int64_t u : keys) {
      const double* k = key(b, u);
      const double* v = val(b, u);
      const double p = std::exp(logit(b, u) - lse_[b]);
      double dp = 0;
      for (std::int64_t c = 0; c < n_.d_v; ++c) dp += d_o[c] * v[c];
      const double ds = p * (gate * dp - gate * x_[b]);
      const double kept_ds = rounded(ds, p_.element);
      const double kept_p = rounded(gate * p, p_.element);
      for (std::int64_t c = 0; c < n_.d_k; ++c) {
        dq[c] += scale_ * kept_ds * k[c];
        squares[c] += squared(scale_ * ds * k[c]);
        of_x[c] += scale_ * p * gate * k[c];
        d_k[b][u * n_.d_k + c] += scale_ * kept_ds * q_[c];
        d_k2[b][u * n_.d_k + c] +=
            squared(scale_ * ds * q_[c]) + squared(scale_ * p * gate * noise_[b] * q_[c]);
      }
      for (std::int64_t c = 0; c < n_.d_v; ++c) {
        d_v[b][u * n_.d_v + c] += kept_p * d_o[c];
        d_v2[b][u * n_.d_v + c] += squared(gate * p * d_o[c]);
      }
    }
  }

  // A branch alone gets the gated gradient in the element type.
  void gate_branch(int b, double gate) {
    const Numbers* outputs[3] = {&value_.o_cmp, &value_.o_sel, &value_.o_win};
    gated_.resize(n_.d_v);
    x_[b] = 0;
    double square = 0;
    for (std::int64_t c = 0; c < n_.d_v; ++c) {
      gated_[c] = rounded(gate * d_o_[c], p_.element);
      const double product = gated_[c] * (*outputs[b])[row_ * n_.d_v + c];
      x_[b] += product;
      square += squared(product);
    }
    noise_[b] = std::sqrt(square);
  }

  void backward(std::int64_t i, std::int64_t t) {
    Numbers dq(n_.d_k);
    Numbers of_parts(n_.d_k);
    Numbers squares(n_.d_k);
    for (int b = 0; b < 3; ++b) {
      double gate = gate_of(i, t, b);
      if (!apart_) {
        gate_branch(b, gate);
        gate = 1;
      }
      Numbers of_x(n_.d_k);
      Numbers of_branch(n_.d_k);
      differentiate(b, gate, whole_[b], of_branch, squares, of_x);
      if (b == 1) {
        for (const Keys& part : parts_) {
          Numbers of_part(n_.d_k);
          differentiate(b, gate, part, of_part, squares, of_x);
          quantize(of_part);
          Numbers& to = apart_ ? of_parts : of_branch;
          for (std::int64_t c = 0; c < n_.d_k; ++c) to[c] += of_part[c];
        }
      }
      for (std::int64_t c = 0; c < n_.d_k; ++c)
        dq[c] += apart_ ? of_branch[c] : rounded(of_branch[c], p_.element);
      for (std::int64_t c = 0; c < n_.d_k; ++c) squares[c] += squared(of_x[c] * noise_[b]);
    }
    // The dense share waits as the parts do, where there can be parts.
    if (apart_ && p_.n_sel > p_.init_blocks + p_.local_blocks) quantize(dq);
    for (std::int64_t c = 0; c < n_.d_k; ++c) {
      value_.d_q[row_ * n_.d_k + c] = rounded(dq[c] + of_parts[c], p_.element);
      spread_.d_q[row_ * n_.d_k + c] = std::sqrt(squares[c]);
    }
  }

  const Case& one_;
  const nsa::kernels::Problem& p_;
  const Sequence& s_;
  const Dimensions n_;
  const Outcome& tested_;
  bool apart_;
  std::int64_t g_;
  Outcome& value_;
  Outcome& spread_;
  double scale_;
  Keys whole_[3];
  std::vector<Keys> parts_;
  std::int64_t row_ = 0;
  const double* q_ = nullptr;
  const double* d_o_ = nullptr;
  double lse_[3] = {};
  double x_[3] = {};
  double noise_[3] = {};
  Numbers gated_;
};

double weight(const Case& one, const Numbers& conv, std::int64_t c, std::int64_t j) {
  const bool is_conv = one.problem.phi == nsa::kernels::Phi::conv;
  return is_conv ? conv[c * one.problem.l + j] : 1.0 / one.problem.l;
}

void pool(const Case& one,
          const Dimensions& n,
          const Numbers& raw,
          const Numbers& conv,
          std::int64_t width,
          Numbers& out) {
  out.assign(n.groups * n.compressed * width, 0.0);
  for (std::int64_t g = 0; g < n.groups; ++g) {
    for (std::int64_t i = 0; i < n.compressed; ++i) {
      for (std::int64_t c = 0; c < width; ++c) {
        double sum = 0;
        for (std::int64_t j = 0; j < one.problem.l; ++j) {
          sum += weight(one, conv, c, j) * raw[(g * n.keys + i * one.problem.d + j) * width + c];
        }
        out[(g * n.compressed + i) * width + c] = rounded(sum, one.problem.element);
      }
    }
  }
}

struct Pooled {
  const Numbers& d_out;
  const Numbers& squares;
  const Numbers& raw;
  const Numbers& conv;
  std::int64_t width;
};

void pool_gradient(const Case& one,
                   const Dimensions& n,
                   const Pooled& in,
                   Numbers& d_raw,
                   Numbers& spread,
                   Numbers& d_conv,
                   Numbers& conv_spread) {
  d_raw.assign(n.groups * n.keys * in.width, 0.0);
  spread.assign(d_raw.size(), 0.0);
  d_conv.resize(in.width * one.problem.l, 0.0);
  conv_spread.resize(d_conv.size(), 0.0);
  for (std::int64_t g = 0; g < n.groups; ++g) {
    for (std::int64_t i = 0; i < n.compressed; ++i) {
      for (std::int64_t c = 0; c < in.width; ++c) {
        const std::int64_t from = (g * n.compressed + i) * in.width + c;
        for (std::int64_t j = 0; j < one.problem.l; ++j) {
          const std::int64_t to = (g * n.keys + i * one.problem.d + j) * in.width + c;
          const double w = weight(one, in.conv, c, j);
          d_raw[to] += w * in.d_out[from];
          spread[to] += squared(w) * in.squares[from];
          d_conv[c * one.problem.l + j] += in.raw[to] * in.d_out[from];
          conv_spread[c * one.problem.l + j] += squared(in.raw[to]) * in.squares[from];
        }
      }
    }
  }
  for (double& x : d_raw) x = rounded(x, one.problem.element);
  for (double& x : spread) x = std::sqrt(x);
}

void resize(const Case& one, const Dimensions& n, const Sequence& s, Outcome& out) {
  const std::int64_t rows = n.groups * n.heads * n.queries;
  for (Numbers* x : {&out.o_cmp, &out.o_sel, &out.o_win, &out.o}) x->assign(rows * n.d_v, 0.0);
  for (Numbers* x : {&out.lse_cmp, &out.lse_sel, &out.lse_win}) x->assign(rows, 0.0);
  out.d_gates.assign(s.gates.size(), 0.0);
  if (one.backward) out.d_q.assign(rows * n.d_k, 0.0);
}

void finish_keys(const Case& one, bool square_root, Numbers& x) {
  for (double& value : x)
    value = square_root ? std::sqrt(value) : rounded(value, one.problem.element);
}

}  // namespace

Rounded rounded_outcomes(const Case& one,
                         const CaseInputs& inputs,
                         const AllOutcomes& tested,
                         bool forced_apart) {
  const auto& p = one.problem;
  const auto config = config_of(p);
  Rounded result;
  result.value.sequences.resize(inputs.sequences.size());
  result.spread.sequences.resize(inputs.sequences.size());
  for (std::size_t b = 0; b < inputs.sequences.size(); ++b) {
    const Sequence& s = inputs.sequences[b];
    const Dimensions n{p.groups,
                       p.heads,
                       p.d_k,
                       p.d_v,
                       s.length,
                       p.first + s.length,
                       config.compressed_count(p.first + s.length),
                       p.first};
    Outcome& value = result.value.sequences[b];
    Outcome& spread = result.spread.sequences[b];
    value.blocks = tested.sequences[b].blocks;
    resize(one, n, s, value);
    resize(one, n, s, spread);
    pool(one, n, s.k_raw, inputs.k_conv, n.d_k, value.k_cmp);
    pool(one, n, s.v_raw, inputs.v_conv, n.d_v, value.v_cmp);
    constexpr std::int64_t kParts = 8;
    std::vector<std::unique_ptr<Group>> tasks(n.groups * kParts);
    oracles::parallel_for(n.groups * kParts, 1, 0, [&](std::int64_t from, std::int64_t to) {
      for (std::int64_t i = from; i < to; ++i) {
        tasks[i] = std::make_unique<Group>(
            one, s, n, tested.sequences[b], forced_apart, i / kParts, value, spread);
        const auto rows = one.rows.empty() ? s.length : static_cast<std::int64_t>(one.rows.size());
        for (std::int64_t r = i % kParts; r < rows; r += kParts) {
          const std::int64_t t = one.rows.empty() ? r : one.rows[r];
          if (t < s.length) tasks[i]->query(t);
        }
      }
    });
    if (!one.backward) continue;
    Numbers d_cmp[2];
    Numbers d_cmp2[2];
    const auto gather = [&](Numbers(Group::*field)[3], int branch, Numbers& to) {
      const std::size_t of_group = (tasks[0].get()->*field)[branch].size();
      to.assign(of_group * n.groups, 0.0);
      for (std::int64_t i = 0; i < n.groups * kParts; ++i) {
        const Numbers& from = (tasks[i].get()->*field)[branch];
        for (std::size_t k = 0; k < of_group; ++k) to[i / kParts * of_group + k] += from[k];
      }
    };
    gather(&Group::d_k, 0, d_cmp[0]);
    gather(&Group::d_v, 0, d_cmp[1]);
    gather(&Group::d_k2, 0, d_cmp2[0]);
    gather(&Group::d_v2, 0, d_cmp2[1]);
    gather(&Group::d_k, 1, value.d_k_sel);
    gather(&Group::d_v, 1, value.d_v_sel);
    gather(&Group::d_k, 2, value.d_k_win);
    gather(&Group::d_v, 2, value.d_v_win);
    gather(&Group::d_k2, 1, spread.d_k_sel);
    gather(&Group::d_v2, 1, spread.d_v_sel);
    gather(&Group::d_k2, 2, spread.d_k_win);
    gather(&Group::d_v2, 2, spread.d_v_win);
    for (Numbers* x : {&value.d_k_sel, &value.d_v_sel, &value.d_k_win, &value.d_v_win})
      finish_keys(one, false, *x);
    for (Numbers* x : {&spread.d_k_sel, &spread.d_v_sel, &spread.d_k_win, &spread.d_v_win})
      finish_keys(one, true, *x);
    if (!forced_apart) {
      for (Numbers& x : d_cmp) finish_keys(one, false, x);
    }
    pool_gradient(one,
                  n,
                  {d_cmp[0], d_cmp2[0], s.k_raw, inputs.k_conv, n.d_k},
                  value.d_k_raw,
                  spread.d_k_raw,
                  result.value.d_k_conv,
                  result.spread.d_k_conv);
    pool_gradient(one,
                  n,
                  {d_cmp[1], d_cmp2[1], s.v_raw, inputs.v_conv, n.d_v},
                  value.d_v_raw,
                  spread.d_v_raw,
                  result.value.d_v_conv,
                  result.spread.d_v_conv);
  }
  for (Numbers* x : {&result.spread.d_k_conv, &result.spread.d_v_conv}) {
    for (double& value : *x) value = std::sqrt(value);
  }
  return result;
}

}  // namespace judge
