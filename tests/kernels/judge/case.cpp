#include "tests/kernels/judge/case.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace judge {
namespace {

using nsa::kernels::Element;
using nsa::kernels::Problem;

struct Source {
  std::mt19937_64 random;
  Element element;

  double normal(double scale) {
    return rounded(std::normal_distribution<double>(0, scale)(random), element);
  }
  std::int64_t whole(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  }
};

Numbers normals(Source& source, std::int64_t count, double scale) {
  Numbers values(count);
  for (double& value : values) value = source.normal(scale);
  return values;
}

// Keys [G,S,D] with the pattern's difficulty.
Numbers keys(Source& source, const Case& one, std::int64_t length, std::int64_t width) {
  const std::int64_t groups = one.problem.groups;
  Numbers k = normals(source, groups * length * width, 1.0);
  for (std::int64_t g = 0; g < groups; ++g) {
    double* rows = k.data() + g * length * width;
    for (std::int64_t t = 0; t < length; ++t) {
      double* row = rows + t * width;
      switch (one.pattern) {
        case Pattern::ties:
          // Blocks repeat in pairs: their scores are bit-equal.
          if (t / one.problem.l_sel % 2 == 1) {
            std::copy_n(row - one.problem.l_sel * width, width, row);
          }
          break;
        case Pattern::integers:
          for (std::int64_t c = 0; c < width; ++c)
            row[c] = static_cast<double>(source.whole(-2, 2));
          break;
        case Pattern::one_hot:
          std::fill_n(row, width, 0.0);
          row[t % width] = 8.0;
          break;
        case Pattern::equal_keys:
          if (t > 0) std::copy_n(rows, width, row);
          break;
        default: break;
      }
    }
  }
  return k;
}

Sequence make_sequence(Source& source, const Case& one, std::int64_t length) {
  const Problem& p = one.problem;
  const std::int64_t heads = std::int64_t{p.groups} * p.heads;
  Sequence s;
  s.length = length;
  s.q = normals(source, heads * length * p.d_k, one.pattern == Pattern::sharp ? 5.0 : 1.0);
  if (one.pattern == Pattern::integers) {
    for (double& value : s.q) value = static_cast<double>(source.whole(-2, 2));
  }
  s.d_o = normals(source, heads * length * p.d_v, 1.0);
  if (!one.rows.empty()) {
    for (std::int64_t t = 0; t < length; ++t) {
      if (std::binary_search(one.rows.begin(), one.rows.end(), t)) continue;
      for (std::int64_t head = 0; head < heads; ++head) {
        std::fill_n(s.d_o.begin() + (head * length + t) * p.d_v, p.d_v, 0.0);
      }
    }
  }
  const std::int64_t positions = p.first + length;
  for (Numbers* k : {&s.k_raw, &s.k_sel, &s.k_win}) *k = keys(source, one, positions, p.d_k);
  for (Numbers* v : {&s.v_raw, &s.v_sel, &s.v_win}) {
    *v = normals(source, p.groups * positions * p.d_v, 1.0);
  }
  const bool per_head = p.gate_form == nsa::kernels::GateForm::per_head;
  s.gates.resize((per_head ? heads : p.groups) * length * 3);
  const bool is_float = p.gate_type == nsa::kernels::GateType::float32;
  for (double& gate : s.gates) {
    const double value = std::uniform_real_distribution<double>(0, 1)(source.random);
    gate = is_float ? static_cast<double>(static_cast<float>(value)) : rounded(value, p.element);
  }
  // Some branches are switched off, as a gate's override does.
  for (std::size_t i = 0; i + 2 < s.gates.size(); i += 3 * 7) s.gates[i + i / 21 % 3] = 0.0;
  return s;
}

}  // namespace

void settle(Case& one) {
  Problem& p = one.problem;
  p.batch = static_cast<std::int64_t>(one.lengths.size());
  p.length = *std::max_element(one.lengths.begin(), one.lengths.end());
  p.tokens = 0;
  for (const std::int64_t length : one.lengths) p.tokens += length;
}

double rounded(double value, Element element) {
  if (value == 0 || !std::isfinite(value)) return value;
  const int bits = element == Element::bf16 ? 8 : 11;
  const int least = element == Element::bf16 ? -133 : -24;  // exponent of the smallest subnormal
  int exponent = 0;
  std::frexp(value, &exponent);
  const int last = std::max(exponent - bits, least);
  const double result = std::ldexp(std::nearbyint(std::ldexp(value, -last)), last);
  const double largest = element == Element::bf16 ? 3.3895313892515355e38 : 65504.0;
  return std::abs(result) > largest ? std::copysign(INFINITY, value) : result;
}

CaseInputs make_inputs(const Case& one) {
  Source source{std::mt19937_64(one.seed), one.problem.element};
  CaseInputs inputs;
  for (const std::int64_t length : one.lengths) {
    inputs.sequences.push_back(make_sequence(source, one, length));
  }
  const Problem& p = one.problem;
  inputs.k_conv = normals(source, std::int64_t{p.d_k} * p.l, 1.0 / p.l);
  inputs.v_conv = normals(source, std::int64_t{p.d_v} * p.l, 1.0 / p.l);
  return inputs;
}

oracles::AttentionConfig config_of(const Problem& p) {
  oracles::AttentionConfig config;
  config.dim = 1;
  config.n_heads = std::int64_t{p.groups} * p.heads;
  config.n_kv_groups = p.groups;
  config.d_k = p.d_k;
  config.d_v = p.d_v;
  config.l = p.l;
  config.d = p.d;
  config.l_sel = p.l_sel;
  config.n_sel = p.n_sel;
  config.w = p.w;
  config.init_blocks = p.init_blocks;
  config.local_blocks = p.local_blocks;
  config.gate = p.gate_form == nsa::kernels::GateForm::per_head ? oracles::Gate::head_sigmoid
                                                                : oracles::Gate::group_softmax;
  config.phi = p.phi == nsa::kernels::Phi::conv ? oracles::Phi::conv : oracles::Phi::avg;
  config.eq9 = p.overlap == nsa::kernels::Overlap::fractional ? oracles::Eq9::fractional
                                                              : oracles::Eq9::overlap;
  return config;
}

}  // namespace judge
