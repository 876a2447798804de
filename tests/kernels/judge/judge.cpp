#include "tests/kernels/judge/judge.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "oracles/attention/score_bound.h"
#include "oracles/attention/selection.h"

namespace judge {
namespace {

struct TensorShape {
  std::int64_t heads, rows, width;
};

struct Region {
  std::int64_t begin, end;
  const char* kind;
  std::int64_t head, row;
};

class Comparison {
 public:
  Comparison(const Case& one, Verdict& verdict) : one_(one), verdict_(verdict) {
    ulp_ = one.problem.element == nsa::kernels::Element::bf16 ? 0x1p-7 : 0x1p-10;
  }

  struct Tensors {
    const Numbers& x;
    const Numbers& r;
    const Numbers& l;
    const Numbers& spread;
  };

  void tensor(const std::string& name, const Tensors& t, const TensorShape& shape, bool gradient) {
    const auto count = static_cast<std::size_t>(shape.heads * shape.rows * shape.width);
    if (t.x.size() != count || t.r.size() != count || t.l.size() != count ||
        t.spread.size() != count) {
      std::ostringstream text;
      text << name << ": sizes " << t.x.size() << ", " << t.r.size() << ", " << t.l.size() << ", "
           << t.spread.size() << " where " << count << " are wanted";
      fail(text.str());
      return;
    }
    Measure measure{name, 0, 0, 0};
    const std::size_t before = verdict_.failures.size();
    const auto all = static_cast<std::int64_t>(count);
    region(name, t, shape, {0, all, "tensor", -1, -1}, gradient, measure);
    for (std::int64_t head = 0; head < shape.heads; ++head) {
      const std::int64_t begin = head * shape.rows * shape.width;
      region(name,
             t,
             shape,
             {begin, begin + shape.rows * shape.width, "head", head, -1},
             gradient,
             measure);
      for (std::int64_t row = 0; row < shape.rows && verdict_.failures.size() < before + 3; ++row) {
        const std::int64_t from = begin + row * shape.width;
        region(name, t, shape, {from, from + shape.width, "row", head, row}, gradient, measure);
      }
    }
    verdict_.measures.push_back(measure);
  }

 private:
  void fail(const std::string& what) { verdict_.failures.push_back(one_.name + ": " + what); }

  void region(const std::string& name,
              const Tensors& t,
              const TensorShape& shape,
              const Region& region,
              bool gradient,
              Measure& measure) {
    double worst = 0, budget = 0, scale = 0, spread = 0;
    double x2 = 0, l2 = 0, s2 = 0;
    std::int64_t at = region.begin;
    bool is_nan = false;
    for (std::int64_t i = region.begin; i < region.end; ++i) {
      const double error = std::abs(t.x[i] - t.r[i]);
      if (!(error <= worst) && !is_nan) {
        worst = error;
        at = i;
        is_nan = std::isnan(error);
      }
      budget = std::max(budget, std::abs(t.l[i] - t.r[i]));
      scale = std::max(scale, std::abs(t.r[i]));
      spread = std::max(spread, t.spread[i]);
      x2 += error * error;
      l2 += (t.l[i] - t.r[i]) * (t.l[i] - t.r[i]);
      const double size = std::max(std::abs(t.r[i]), t.spread[i]);
      s2 += size * size;
    }
    const double limit = (gradient ? 3 : 2) * budget + 4 * ulp_ * std::max(scale, spread);
    if (region.row < 0 && region.head < 0 && scale > 0) {
      measure.error = worst / scale;
      measure.budget = budget / scale;
    }
    if (limit > 0) measure.worst = std::max(measure.worst, worst / limit);
    if (!(worst <= limit)) say(name, t, shape, region, at, worst, limit, "max");
    if (region.row >= 0) return;
    const auto n = static_cast<double>(std::max<std::int64_t>(1, region.end - region.begin));
    const double rms_limit = 1.5 * std::sqrt(l2 / n) + ulp_ / 64 * std::sqrt(s2 / n);
    if (rms_limit > 0) measure.worst = std::max(measure.worst, std::sqrt(x2 / n) / rms_limit);
    if (!(std::sqrt(x2 / n) <= rms_limit))
      say(name, t, shape, region, at, std::sqrt(x2 / n), rms_limit, "rms");
  }

  // Enough to find the place without the card: where, what, and how the wrong rows are spread.
  void say(const std::string& name,
           const Tensors& t,
           const TensorShape& shape,
           const Region& region,
           std::int64_t at,
           double error,
           double limit,
           const char* what) {
    std::ostringstream text;
    text << name << " " << what << " over " << region.kind;
    if (region.head >= 0) text << " head " << region.head;
    if (region.row >= 0) text << " row " << region.row;
    text << ": error " << error << " limit " << limit << "; worst at head "
         << at / (shape.rows * shape.width) << " row " << at / shape.width % shape.rows
         << " column " << at % shape.width << " got " << t.x[at] << " true " << t.r[at]
         << " rounded " << t.l[at];
    std::int64_t wrong = 0;
    std::int64_t first = -1;
    std::int64_t last = -1;
    for (std::int64_t row = 0; row < shape.heads * shape.rows; ++row) {
      bool bad = false;
      for (std::int64_t c = 0; c < shape.width; ++c) {
        const std::int64_t i = row * shape.width + c;
        bad = bad || !(std::abs(t.x[i] - t.r[i]) <= 0.25 * std::abs(t.r[i]) + limit);
      }
      if (!bad) continue;
      ++wrong;
      first = first < 0 ? row : first;
      last = row;
    }
    text << "; rows far off: " << wrong << " of " << shape.heads * shape.rows;
    if (wrong > 0) {
      text << ", head " << first / shape.rows << " row " << first % shape.rows << " to head "
           << last / shape.rows << " row " << last % shape.rows;
    }
    fail(text.str());
  }

  const Case& one_;
  Verdict& verdict_;
  double ulp_;
};

// Logarithms of sums are float32: their error is that of the logits.
void judge_sums(const Case& one,
                const char* name,
                const Numbers& x,
                const Numbers& r,
                Verdict& verdict,
                double slack) {
  for (std::size_t i = 0; i < r.size(); ++i) {
    const bool same_infinity = std::isinf(r[i]) && x[i] == r[i];
    const double limit = slack * (1 + std::abs(r[i]));
    if (same_infinity || std::abs(x[i] - r[i]) <= limit) continue;
    std::ostringstream text;
    text << one.name << ": " << name << " at " << i << " got " << x[i] << " true " << r[i]
         << " limit " << limit;
    verdict.failures.push_back(text.str());
    return;
  }
}

void judge_choice(const Case& one, const Sequence& s, const Outcome& x, Verdict& verdict) {
  const auto& p = one.problem;
  const auto config = config_of(p);
  std::vector<std::int64_t> rows;
  for (std::int64_t t = 0; t < s.length; ++t) {
    if (one.rows.empty() || std::binary_search(one.rows.begin(), one.rows.end(), t))
      rows.push_back(t);
  }
  if (rows.empty()) return;
  const std::int64_t positions = p.first + s.length;
  oracles::ScoreInputs in;
  in.length = positions;
  in.q = {{1, p.groups, p.heads, static_cast<std::int64_t>(rows.size()), p.d_k}, {}};
  for (std::int64_t head = 0; head < std::int64_t{p.groups} * p.heads; ++head) {
    for (const std::int64_t t : rows) {
      const auto from = s.q.begin() + (head * s.length + t) * p.d_k;
      in.q.data.insert(in.q.data.end(), from, from + p.d_k);
    }
  }
  in.k_cmp = {{1, p.groups, config.compressed_count(positions), p.d_k}, x.k_cmp};
  for (const std::int64_t t : rows) in.rows.push_back(p.first + t);
  const auto scores = oracles::scores_from(config, in, oracles::Arithmetic::float32());
  const std::int64_t n_blocks = config.block_count(positions);
  const std::int64_t recorded =
      x.p_grp.empty() ? 0 : static_cast<std::int64_t>(x.p_grp.size()) / (p.groups * s.length);
  for (std::int64_t g = 0; g < p.groups; ++g) {
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const std::int64_t at =
          (g * static_cast<std::int64_t>(rows.size()) + static_cast<std::int64_t>(r)) * n_blocks;
      const std::span<const double> row(scores.p_grp.data.data() + at, n_blocks);
      const std::span<const double> bound(scores.bound.data.data() + at, n_blocks);
      const std::span<const std::int64_t> taken(
          x.blocks.data() + (g * s.length + rows[r]) * p.n_sel, p.n_sel);
      const auto comparison =
          oracles::compare_selection(config, p.first + rows[r], row, bound, taken);
      if (comparison.agreement == oracles::Agreement::tied) ++verdict.tied_rows;
      if (comparison.agreement == oracles::Agreement::wrong) {
        std::ostringstream text;
        text << one.name << ": blocks of group " << g << " query " << rows[r] << " got";
        for (const auto block : taken) text << " " << block;
        text << " wanted";
        for (const auto block : oracles::select_blocks(config, p.first + rows[r], row).blocks)
          text << " " << block;
        text << " gap " << comparison.gap << " bound " << comparison.bound;
        verdict.failures.push_back(text.str());
        return;
      }
      for (std::int64_t j = 0; j < std::min(n_blocks, recorded); ++j) {
        const double got = x.p_grp[(g * s.length + rows[r]) * recorded + j];
        if (std::abs(got - row[j]) <= bound[j]) continue;
        std::ostringstream text;
        text << one.name << ": score of group " << g << " query " << rows[r] << " block " << j
             << " got " << got << " true " << row[j] << " bound " << bound[j];
        verdict.failures.push_back(text.str());
        return;
      }
    }
  }
}

}  // namespace

Verdict judge(const Case& one, const CaseInputs& inputs, const Compared& c) {
  Verdict verdict;
  const auto& p = one.problem;
  Comparison comparison(one, verdict);
  const std::int64_t heads = std::int64_t{p.groups} * p.heads;
  const std::int64_t owners = p.gate_form == nsa::kernels::GateForm::per_head ? heads : p.groups;
  for (std::size_t b = 0; b < inputs.sequences.size(); ++b) {
    const Sequence& s = inputs.sequences[b];
    const Outcome& x = c.tested.sequences[b];
    const Outcome& r = c.truth.sequences[b];
    const Outcome& l = c.rounded.value.sequences[b];
    const Outcome& spread = c.rounded.spread.sequences[b];
    const std::int64_t keys = p.first + s.length;
    const std::int64_t compressed = config_of(p).compressed_count(keys);
    const std::string of = inputs.sequences.size() > 1 ? " of sequence " + std::to_string(b) : "";
    // Rows nobody asked about are zero in the truth.
    const auto asked = [&](const Numbers& values, std::int64_t width) {
      Numbers kept = values;
      if (one.rows.empty()) return kept;
      for (std::size_t i = 0; i < kept.size(); ++i) {
        const std::int64_t t = static_cast<std::int64_t>(i) / width % s.length;
        if (!std::binary_search(one.rows.begin(), one.rows.end(), t)) kept[i] = 0;
      }
      return kept;
    };
    const auto rows =
        [&](const char* name, Numbers Outcome::*field, std::int64_t width, bool gradient) {
          comparison.tensor(name + of,
                            {asked(x.*field, width), r.*field, l.*field, spread.*field},
                            {heads, s.length, width},
                            gradient);
        };
    const auto key_rows = [&](const char* name,
                              Numbers Outcome::*field,
                              std::int64_t count,
                              std::int64_t width,
                              bool gradient) {
      comparison.tensor(name + of,
                        {x.*field, r.*field, l.*field, spread.*field},
                        {p.groups, count, width},
                        gradient);
    };
    if (s.length == 0) continue;
    const Numbers none_k(x.k_cmp.size(), 0.0);
    const Numbers none_v(x.v_cmp.size(), 0.0);
    comparison.tensor(
        "k_cmp" + of, {x.k_cmp, r.k_cmp, l.k_cmp, none_k}, {p.groups, compressed, p.d_k}, false);
    comparison.tensor(
        "v_cmp" + of, {x.v_cmp, r.v_cmp, l.v_cmp, none_v}, {p.groups, compressed, p.d_v}, false);
    judge_choice(one, s, x, verdict);
    if (!x.o_cmp.empty()) {
      rows("o_cmp", &Outcome::o_cmp, p.d_v, false);
      rows("o_sel", &Outcome::o_sel, p.d_v, false);
      rows("o_win", &Outcome::o_win, p.d_v, false);
    }
    rows("o", &Outcome::o, p.d_v, false);
    // The compressed logits have the rounding of k_cmp in them: compared with the rounded computation, and a k_cmp that
    // lies between two numbers may have become the other one.
    const double flip = p.element == nsa::kernels::Element::bf16 ? 0x1p-11 : 0x1p-14;
    judge_sums(one, "lse_cmp", asked(x.lse_cmp, 1), l.lse_cmp, verdict, flip);
    judge_sums(one, "lse_sel", asked(x.lse_sel, 1), r.lse_sel, verdict, 1e-5);
    judge_sums(one, "lse_win", asked(x.lse_win, 1), r.lse_win, verdict, 1e-5);
    if (x.d_q.empty()) continue;
    rows("d_q", &Outcome::d_q, p.d_k, true);
    comparison.tensor("d_gates" + of,
                      {asked(x.d_gates, 3), r.d_gates, l.d_gates, spread.d_gates},
                      {owners, s.length, 3},
                      true);
    key_rows("d_k_raw", &Outcome::d_k_raw, keys, p.d_k, true);
    key_rows("d_v_raw", &Outcome::d_v_raw, keys, p.d_v, true);
    key_rows("d_k_sel", &Outcome::d_k_sel, keys, p.d_k, true);
    key_rows("d_v_sel", &Outcome::d_v_sel, keys, p.d_v, true);
    key_rows("d_k_win", &Outcome::d_k_win, keys, p.d_k, true);
    key_rows("d_v_win", &Outcome::d_v_win, keys, p.d_v, true);
  }
  if (!c.tested.d_k_conv.empty()) {
    comparison.tensor(
        "d_k_conv",
        {c.tested.d_k_conv, c.truth.d_k_conv, c.rounded.value.d_k_conv, c.rounded.spread.d_k_conv},
        {1, p.d_k, p.l},
        true);
    comparison.tensor(
        "d_v_conv",
        {c.tested.d_v_conv, c.truth.d_v_conv, c.rounded.value.d_v_conv, c.rounded.spread.d_v_conv},
        {1, p.d_v, p.l},
        true);
  }
  return verdict;
}

}  // namespace judge
