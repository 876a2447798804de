#include "tests/kernels/judge/truth.h"

#include <cmath>
#include <memory>

#include "oracles/attention/attend.h"
#include "oracles/attention/compress.h"
#include "oracles/attention/keys.h"
#include "oracles/parallel.h"

namespace judge {
namespace {

using oracles::KeyBank;
using oracles::KeyList;

struct Shape {
  std::int64_t groups, heads, d_k, d_v, queries, keys, compressed, first;
};

Shape shape_of(const Case& one, const Sequence& s) {
  const auto& p = one.problem;
  const auto config = config_of(p);
  return {p.groups,
          p.heads,
          p.d_k,
          p.d_v,
          s.length,
          p.first + s.length,
          config.compressed_count(p.first + s.length),
          p.first};
}

struct BranchGradient {
  Numbers k, v;
};

oracles::Weights conv_weights(const Case& one, const CaseInputs& inputs) {
  const auto& p = one.problem;
  oracles::Weights weights;
  weights["phi_k_conv.weight"] = {{p.d_k, 1, p.l}, inputs.k_conv};
  weights["phi_v_conv.weight"] = {{p.d_v, 1, p.l}, inputs.v_conv};
  return weights;
}

std::vector<std::int64_t> rows_of(const Case& one, std::int64_t length) {
  std::vector<std::int64_t> rows;
  for (std::int64_t t = 0; t < length; ++t) {
    if (one.rows.empty()) rows.push_back(t);
  }
  for (const std::int64_t t : one.rows) {
    if (t < length) rows.push_back(t);
  }
  return rows;
}

double gate_of(const Case& one,
               const Sequence& s,
               std::int64_t g,
               std::int64_t i,
               std::int64_t t,
               int branch) {
  const bool per_head = one.problem.gate_form == nsa::kernels::GateForm::per_head;
  const std::int64_t owner = per_head ? g * one.problem.heads + i : g;
  return s.gates[(owner * s.length + t) * 3 + branch];
}

// One group of one sequence: forward and backward, query after query.
class GroupTruth {
 public:
  GroupTruth(
      const Case& one, const Sequence& s, const Outcome& tested, Outcome& out, std::int64_t g)
      : one_(one),
        s_(s),
        tested_(tested),
        out_(out),
        g_(g),
        n_(shape_of(one, s)),
        config_(config_of(one.problem)) {
    const auto bank = [&](const Numbers& k, const Numbers& v, std::int64_t count) {
      banks_.emplace_back(
          k.data() + g * count * n_.d_k, v.data() + g * count * n_.d_v, count, n_.d_k, n_.d_v);
    };
    banks_.reserve(3);
    bank(out.k_cmp, out.v_cmp, n_.compressed);
    bank(s.k_sel, s.v_sel, n_.keys);
    bank(s.k_win, s.v_win, n_.keys);
    for (int b = 0; b < 3; ++b) {
      const std::int64_t count = banks_[b].count();
      gradients_[b] = {Numbers(count * n_.d_k), Numbers(count * n_.d_v)};
    }
  }

  void query(std::int64_t t) {
    const std::int64_t position = n_.first + t;
    const std::int64_t* blocks = tested_.blocks.data() + (g_ * n_.queries + t) * config_.n_sel;
    const KeyList lists[3] = {
        oracles::visible_compressed(config_, position, n_.compressed),
        oracles::selected_tokens(
            config_, position, {blocks, static_cast<std::size_t>(config_.n_sel)}),
        oracles::window_tokens(config_, position)};
    Numbers* outputs[3] = {&out_.o_cmp, &out_.o_sel, &out_.o_win};
    Numbers* sums[3] = {&out_.lse_cmp, &out_.lse_sel, &out_.lse_win};
    Numbers q = gathered(s_.q, t, n_.d_k);
    Numbers d_o = gathered(s_.d_o, t, n_.d_v);
    Numbers d_q(n_.heads * n_.d_k);
    Numbers mixed(n_.heads * n_.d_v);
    for (int b = 0; b < 3; ++b) {
      Numbers o(n_.heads * n_.d_v);
      std::vector<double> p;
      oracles::scaled_logits(banks_[b], lists[b], view(q, n_.d_k), p);
      store_lse(p, *sums[b], t);
      oracles::softmax_rows(p, n_.heads);
      oracles::weighted_values(banks_[b], lists[b], p, mutable_view(o, n_.d_v));
      Numbers gated = d_o;
      for (std::int64_t i = 0; i < n_.heads; ++i) {
        const double gate = gate_of(one_, s_, g_, i, t, b);
        double product = 0;
        for (std::int64_t c = 0; c < n_.d_v; ++c) {
          const std::int64_t at = i * n_.d_v + c;
          product += d_o[at] * o[at];
          mixed[at] += gate * o[at];
          gated[at] *= gate;
        }
        add_gate(i, t, b, product);
      }
      scatter(o, *outputs[b], t, n_.d_v);
      if (one_.backward) {
        oracles::add_attend_gradients(
            banks_[b],
            lists[b],
            view(q, n_.d_k),
            view(gated, n_.d_v),
            {mutable_view(d_q, n_.d_k), gradients_[b].k.data(), gradients_[b].v.data()},
            work_);
      }
    }
    scatter(mixed, out_.o, t, n_.d_v);
    if (one_.backward) scatter(d_q, out_.d_q, t, n_.d_k);
  }

  [[nodiscard]] const BranchGradient& gradient(int branch) const { return gradients_[branch]; }

 private:
  [[nodiscard]] Numbers gathered(const Numbers& from, std::int64_t t, std::int64_t width) const {
    Numbers rows(n_.heads * width);
    for (std::int64_t i = 0; i < n_.heads; ++i) {
      std::copy_n(from.begin() + ((g_ * n_.heads + i) * n_.queries + t) * width,
                  width,
                  rows.begin() + i * width);
    }
    return rows;
  }
  void scatter(const Numbers& rows, Numbers& to, std::int64_t t, std::int64_t width) const {
    for (std::int64_t i = 0; i < n_.heads; ++i) {
      std::copy_n(rows.begin() + i * width,
                  width,
                  to.begin() + ((g_ * n_.heads + i) * n_.queries + t) * width);
    }
  }
  [[nodiscard]] oracles::View view(const Numbers& rows, std::int64_t width) const {
    return {rows.data(), n_.heads, width, width, 1};
  }
  [[nodiscard]] oracles::MutableView mutable_view(Numbers& rows, std::int64_t width) const {
    return {rows.data(), n_.heads, width, width};
  }
  void store_lse(const std::vector<double>& logits, Numbers& to, std::int64_t t) const {
    const std::int64_t count = static_cast<std::int64_t>(logits.size()) / n_.heads;
    for (std::int64_t i = 0; i < n_.heads; ++i) {
      double largest = -INFINITY;
      for (std::int64_t k = 0; k < count; ++k) largest = std::max(largest, logits[i * count + k]);
      double sum = 0;
      for (std::int64_t k = 0; k < count; ++k) sum += std::exp(logits[i * count + k] - largest);
      to[(g_ * n_.heads + i) * n_.queries + t] = count == 0 ? -INFINITY : largest + std::log(sum);
    }
  }
  void add_gate(std::int64_t i, std::int64_t t, int branch, double product) {
    const bool per_head = one_.problem.gate_form == nsa::kernels::GateForm::per_head;
    const std::int64_t owner = per_head ? g_ * n_.heads + i : g_;
    out_.d_gates[(owner * n_.queries + t) * 3 + branch] += product;
  }

  const Case& one_;
  const Sequence& s_;
  const Outcome& tested_;
  Outcome& out_;
  std::int64_t g_;
  Shape n_;
  oracles::AttentionConfig config_;
  std::vector<KeyBank> banks_;
  BranchGradient gradients_[3];
  oracles::AttendWork work_;
};

void resize(const Case& one, const Shape& n, const Sequence& s, Outcome& out) {
  const std::int64_t rows = n.groups * n.heads * n.queries;
  for (Numbers* x : {&out.o_cmp, &out.o_sel, &out.o_win, &out.o}) x->assign(rows * n.d_v, 0.0);
  for (Numbers* x : {&out.lse_cmp, &out.lse_sel, &out.lse_win}) x->assign(rows, 0.0);
  out.d_gates.assign(s.gates.size(), 0.0);
  if (!one.backward) return;
  out.d_q.assign(rows * n.d_k, 0.0);
  for (Numbers* x : {&out.d_k_raw, &out.d_k_sel, &out.d_k_win})
    x->assign(n.groups * n.keys * n.d_k, 0.0);
  for (Numbers* x : {&out.d_v_raw, &out.d_v_sel, &out.d_v_win})
    x->assign(n.groups * n.keys * n.d_v, 0.0);
}

oracles::Tensor tensor(const Numbers& values,
                       std::int64_t groups,
                       std::int64_t count,
                       std::int64_t width) {
  return {{1, groups, count, width}, values};
}

void add(const Numbers& from, Numbers& to) {
  to.resize(from.size(), 0.0);
  for (std::size_t i = 0; i < from.size(); ++i) to[i] += from[i];
}

}  // namespace

AllOutcomes truth(const Case& one, const CaseInputs& inputs, const AllOutcomes& tested) {
  const auto config = config_of(one.problem);
  const auto weights = conv_weights(one, inputs);
  const oracles::Layer layer{config, weights, 0};
  AllOutcomes all;
  all.sequences.resize(inputs.sequences.size());
  for (std::size_t b = 0; b < inputs.sequences.size(); ++b) {
    const Sequence& s = inputs.sequences[b];
    const Shape n = shape_of(one, s);
    Outcome& out = all.sequences[b];
    out.blocks = tested.sequences[b].blocks;
    resize(one, n, s, out);
    const auto raw_k = tensor(s.k_raw, n.groups, n.keys, n.d_k);
    const auto raw_v = tensor(s.v_raw, n.groups, n.keys, n.d_v);
    out.k_cmp = oracles::compress(layer, oracles::PhiOf::keys, raw_k).data;
    out.v_cmp = oracles::compress(layer, oracles::PhiOf::values, raw_v).data;
    const auto rows = rows_of(one, s.length);
    // A task for each group and part of its queries: their sums are added in order afterwards.
    constexpr std::int64_t kParts = 8;
    std::vector<std::unique_ptr<GroupTruth>> tasks(n.groups * kParts);
    oracles::parallel_for(n.groups * kParts, 1, 0, [&](std::int64_t from, std::int64_t to) {
      for (std::int64_t i = from; i < to; ++i) {
        tasks[i] = std::make_unique<GroupTruth>(one, s, tested.sequences[b], out, i / kParts);
        for (std::size_t r = i % kParts; r < rows.size(); r += kParts) tasks[i]->query(rows[r]);
      }
    });
    if (!one.backward) continue;
    Numbers d_k_cmp(n.groups * n.compressed * n.d_k);
    Numbers d_v_cmp(n.groups * n.compressed * n.d_v);
    for (std::int64_t i = 0; i < n.groups * kParts; ++i) {
      const std::int64_t g = i / kParts;
      const auto put = [&](const Numbers& from, Numbers& to) {
        for (std::size_t k = 0; k < from.size(); ++k) to[g * from.size() + k] += from[k];
      };
      put(tasks[i]->gradient(0).k, d_k_cmp);
      put(tasks[i]->gradient(0).v, d_v_cmp);
      put(tasks[i]->gradient(1).k, out.d_k_sel);
      put(tasks[i]->gradient(1).v, out.d_v_sel);
      put(tasks[i]->gradient(2).k, out.d_k_win);
      put(tasks[i]->gradient(2).v, out.d_v_win);
    }
    oracles::Weights d_weights;
    out.d_k_raw = oracles::compress_gradients(layer,
                                              oracles::PhiOf::keys,
                                              raw_k,
                                              tensor(d_k_cmp, n.groups, n.compressed, n.d_k),
                                              d_weights)
                      .data;
    out.d_v_raw = oracles::compress_gradients(layer,
                                              oracles::PhiOf::values,
                                              raw_v,
                                              tensor(d_v_cmp, n.groups, n.compressed, n.d_v),
                                              d_weights)
                      .data;
    if (one.problem.phi == nsa::kernels::Phi::conv) {
      add(d_weights.at("phi_k_conv.weight").data, all.d_k_conv);
      add(d_weights.at("phi_v_conv.weight").data, all.d_v_conv);
    }
  }
  return all;
}

}  // namespace judge
