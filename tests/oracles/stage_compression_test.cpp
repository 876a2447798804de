// Wrong laws of k_cmp and v_cmp against the laws said in plain words.
#include "tests/oracles/stage_case.h"

namespace oracles::testing {
namespace {

bool of_keys(Stage stage) {
  return stage == Stage::k_cmp;
}
Index pooled_width(const Case& s, Stage stage) {
  return of_keys(stage) ? s.c().d_k : s.c().d_v;
}

// Raw key or value of token t, zeros outside the sequence.
using RawOf = std::function<Vector(const Case&, Stage, Index b, Index g, Index t)>;

Vector unrotated(const Case& s, Stage stage, Index b, Index g, Index t) {
  const Index width = pooled_width(s, stage);
  return t < s.length()
             ? projected(
                   s, of_keys(stage) ? "W_K_cmp.weight" : "W_V_cmp.weight", g * width, width, b, t)
             : Vector(static_cast<std::size_t>(width), 0.0);
}
Vector right_raw(const Case& s, Stage stage, Index b, Index g, Index t) {
  const Vector z = unrotated(s, stage, b, g, t);
  return of_keys(stage) ? turned(z, usual_angle(s, t)) : z;
}

// How the l vectors of a window become one: the README's three ways, with what laws change in them.
struct Way {
  bool other_phi = false;
  bool reversed = false;
  bool without_pe = false;
  bool channel_major = false;
};

Vector mlp(const Case& s, const std::string& phi, const Vector& f, Index width) {
  Vector out(static_cast<std::size_t>(width), 0.0);
  for (Index u = 0; u < 2 * width; ++u) {
    const double z = dot(row_of(s.w(phi + ".fc1.weight"), u), f);
    for (Index c = 0; c < width; ++c) {
      out[c] += s.w(phi + ".fc2.weight").data[c * 2 * width + u] * z / (1 + std::exp(-z));
    }
  }
  return out;
}

Vector compressed_window(const Case& s,
                         Stage stage,
                         const std::vector<Vector>& window,
                         const Way& way) {
  const Index width = pooled_width(s, stage);
  const auto l = static_cast<Index>(window.size());
  const std::string phi = of_keys(stage) != way.other_phi ? "phi_k" : "phi_v";
  Vector sums(static_cast<std::size_t>(width), 0.0);
  Vector f(static_cast<std::size_t>(l * width), 0.0);
  for (Index j = 0; j < l; ++j) {
    for (Index c = 0; c < width; ++c) {
      const Index tap = way.reversed ? l - 1 - j : j;
      const bool conv = s.c().phi == Phi::conv;
      const double weight =
          conv ? s.w(phi + "_conv.weight").data[c * l + tap] : 1 / static_cast<double>(l);
      sums[c] += weight * window[j][c];
      const bool pe = s.c().phi == Phi::mlp && !way.without_pe;
      f[way.channel_major ? c * l + j : j * width + c] =
          window[j][c] + (pe ? s.w(phi + ".pe").data[j * width + c] : 0);
    }
  }
  return s.c().phi == Phi::mlp ? mlp(s, phi, f, width) : sums;
}

// Windows of `length` tokens from token i*d + late on.
Tensor windows(
    const Case& s, Stage stage, const RawOf& raw, const Way& way, Index length, Index late) {
  return built({s.batch(), s.c().n_kv_groups, s.tokens(), pooled_width(s, stage)},
               [&](const std::vector<Index>& at) {
                 std::vector<Vector> window;
                 for (Index j = 0; j < length; ++j) {
                   window.push_back(raw(s, stage, at[0], at[1], at[2] * s.c().d + late + j));
                 }
                 return compressed_window(s, stage, window, way);
               });
}

Restatement in_way(const Way& way) {
  return
      [way](const Case& s, Stage stage) { return windows(s, stage, right_raw, way, s.c().l, 0); };
}

// Sums of the windows over another number than l.
Restatement sums_over(const std::function<Index(const Case&)>& count) {
  return [count](const Case& s, Stage stage) {
    Tensor out = in_way({})(s, stage);
    for (double& value : out.data) {
      value = value * static_cast<double>(s.c().l) / static_cast<double>(count(s));
    }
    return out;
  };
}

Tensor windows_of_l_sel(const Case& s, Stage stage) {
  return windows(s, stage, right_raw, {}, s.c().l_sel, 0);
}

// Of keys that a wrong law rotated before they were compressed.
Restatement of_turned(const Turning& turning) {
  return [turning](const Case& s, Stage stage) {
    const RawOf raw = [&](const Case&, Stage, Index b, Index g, Index t) {
      const Vector z = unrotated(s, stage, b, g, t);
      return t < s.length() ? turning(s, z, s.c().n_kv_groups, g, t) : z;
    };
    return windows(s, stage, raw, {}, s.c().l, 0);
  };
}

// Raw rows are at i*d + j there, so what moves is the window: the row after keeps its rotation.
Tensor one_late(const Case& s, Stage stage) {
  return windows(s, stage, right_raw, {}, s.c().l, 1);
}

Tensor first_stride(const Case& s, Stage stage) {
  return windows(s, stage, right_raw, {}, s.c().d, 0);
}

Tensor rope_missing(const Case& s, Stage stage) {
  return windows(s, stage, unrotated, {}, s.c().l, 0);
}

Tensor rope_after(const Case& s, Stage stage) {
  const Tensor k = rope_missing(s, stage);
  return built(k.shape, [&](const std::vector<Index>& at) {
    const Index row = (at[0] * k.shape[1] + at[1]) * k.shape[2] + at[2];
    return turned(row_of(k, row), usual_angle(s, at[2] * s.c().d));
  });
}

Restatements restated_compression() {
  Restatements all = layouts();
  for (const auto& [name, turning] : wrong_turns()) {
    all[name] = of_turned(turning);
  }
  all.merge(
      Restatements{{"phi_exchanged", in_way({.other_phi = true})},
                   {"taps_reversed", in_way({.reversed = true})},
                   {"pe_missing", in_way({.without_pe = true})},
                   {"channel_major", in_way({.channel_major = true})},
                   {"sums", sums_over([](const Case&) { return Index{1}; })},
                   {"mean_over_stride", sums_over([](const Case& s) { return s.c().d; })},
                   {"mean_over_one_fewer", sums_over([](const Case& s) { return s.c().l - 1; })},
                   {"mean_over_one_more", sums_over([](const Case& s) { return s.c().l + 1; })},
                   {"first_stride", first_stride},
                   {"windows_of_l_sel", windows_of_l_sel},
                   {"one_late", one_late},
                   {"rope_after", rope_after}});
  return all;
}

TEST(StageCompression, EveryLawIsWhatItSays) {
  expect_all_restated({Stage::k_cmp, Stage::v_cmp}, restated_compression());
}

TEST(StageCompression, TheRestatementWithoutALawIsTheRightOne) {
  for (const Case& s : cases()) {
    for (const Stage stage : {Stage::k_cmp, Stage::v_cmp}) {
      EXPECT_LT(largest_difference(in_way({})(s, stage), s.stages.right(stage)), 1e-12);
    }
  }
}

}  // namespace
}  // namespace oracles::testing
