// Wrong laws of the compression: k_cmp and v_cmp from right raw keys and values.
#include <algorithm>
#include <string>
#include <utility>

#include "oracles/attention/compress.h"
#include "oracles/attention/rope.h"
#include "oracles/laws/families.h"
#include "oracles/linear.h"
#include "oracles/silu.h"

namespace oracles {
namespace {

using enum Stage;

PhiOf phi_of(Stage stage) {
  return stage == k_cmp ? PhiOf::keys : PhiOf::values;
}
std::string phi_name(Stage stage) {
  return stage == k_cmp ? "phi_k" : "phi_v";
}
const Tensor& raw_of(const Stages& in, Stage stage) {
  return in.input(stage == k_cmp ? k_raw : v_raw);
}

Tensor compressed(const Stages& in, Stage stage, const Weights& weights, const Tensor& raw) {
  return compress({in.config(), weights, in.layer().threads}, phi_of(stage), raw);
}

// The weights with those of phi_k and phi_v exchanged.
Tensor phi_exchanged(const Stages& in, Stage stage) {
  Weights weights = in.weights();
  for (const auto& [name, weight] : in.weights()) {
    if (name.rfind("phi_k", 0) == 0) {
      std::swap(weights[name], weights["phi_v" + name.substr(5)]);
    }
  }
  return compressed(in, stage, weights, raw_of(in, stage));
}

Tensor taps_reversed(const Stages& in, Stage stage) {
  Weights weights = in.weights();
  Tensor& taps = weights.at(phi_name(stage) + "_conv.weight");
  for (auto row = taps.data.begin(); row != taps.data.end(); row += in.config().l) {
    std::reverse(row, row + in.config().l);
  }
  return compressed(in, stage, weights, raw_of(in, stage));
}

Tensor pe_missing(const Stages& in, Stage stage) {
  Weights weights = in.weights();
  Tensor& pe = weights.at(phi_name(stage) + ".pe");
  pe = zeros(pe.shape);
  return compressed(in, stage, weights, raw_of(in, stage));
}

// f[c*l + j] in place of f[j*W + c].
Tensor channel_major(const Stages& in, Stage stage) {
  const std::string phi = phi_name(stage);
  const std::int64_t l = in.config().l;
  const Tensor right =
      compression_windows(in.config(), in.weights().at(phi + ".pe"), raw_of(in, stage));
  const std::int64_t span = right.shape[1];
  const std::int64_t width = span / l;
  Tensor f = right;
  for (std::int64_t k = 0; k < static_cast<std::int64_t>(f.data.size()); ++k) {
    const std::int64_t c = k % span / l;
    const std::int64_t j = k % span % l;
    f.data[k] = right.data[k / span * span + j * width + c];
  }
  const Tensor z = linear(f, in.weights().at(phi + ".fc1.weight"), in.layer().threads);
  return reshaped(linear(silu(z), in.weights().at(phi + ".fc2.weight"), in.layer().threads),
                  in.shape_of(stage));
}

// The sum of the window over `count` in place of l.
StageLaw sum_over(std::string_view name,
                  std::string_view about,
                  std::int64_t (*count)(const AttentionConfig&)) {
  return {{name, about},
          {k_cmp, v_cmp},
          [count](const Stages& in, Stage stage) {
            Tensor out = in.right(stage);
            for (double& value : out.data) {
              value *= static_cast<double>(in.config().l) / static_cast<double>(count(in.config()));
            }
            return out;
          },
          [count](const Stages& in, Stage) {
            const AttentionConfig& c = in.config();
            return c.phi == Phi::avg && count(c) > 0 && count(c) != c.l;
          }};
}

// The first C windows of `length` tokens, i*d apart. Tokens after the last one count zero.
Tensor windows_of(const Stages& in, Stage stage, std::int64_t length) {
  const Tensor& raw = raw_of(in, stage);
  Tensor out = zeros(in.shape_of(stage));
  const std::int64_t width = raw.shape[3];
  const std::int64_t count = out.shape[2];
  for (std::int64_t row = 0; row < raw.shape[0] * raw.shape[1] * count; ++row) {
    const std::int64_t first = row % count * in.config().d;
    const std::int64_t last = std::min(first + length, raw.shape[2]);
    for (std::int64_t u = first; u < last; ++u) {
      const double* const token = raw.data.data() + (row / count * raw.shape[2] + u) * width;
      for (std::int64_t c = 0; c < width; ++c) {
        out.data[row * width + c] += token[c] / static_cast<double>(length);
      }
    }
  }
  return out;
}

// Window i from token i*d + 1 on; zeros after the last token.
Tensor one_late(const Stages& in, Stage stage) {
  const Tensor& raw = raw_of(in, stage);
  const std::int64_t size = raw.shape[2] * raw.shape[3];
  Tensor moved = zeros(raw.shape);
  for (std::int64_t group = 0; group < raw.shape[0] * raw.shape[1]; ++group) {
    const auto begin = raw.data.begin() + group * size;
    std::copy(begin + raw.shape[3], begin + size, moved.data.begin() + group * size);
  }
  return compressed(in, stage, in.weights(), moved);
}

Tensor rope_after(const Stages& in, Stage stage) {
  Tensor k = compressed(in, stage, in.weights(), unrotated_keys(in, stage));
  std::vector<std::int64_t> positions;
  for (std::int64_t i = 0; i < k.shape[2]; ++i) {
    positions.push_back(i * in.config().d);
  }
  rotate(k, in.config(), positions, Turn::forward);
  return k;
}

bool is_conv(const Stages& in, Stage) {
  return in.config().phi == Phi::conv;
}
bool is_mlp(const Stages& in, Stage) {
  return in.config().phi == Phi::mlp;
}

}  // namespace

std::vector<StageLaw> compression_laws() {
  using Config = AttentionConfig;
  return {
      {{"phi_exchanged", "keys through phi_v, values through phi_k"},
       {k_cmp, v_cmp},
       phi_exchanged,
       [](const Stages& in, Stage) {
         return in.config().phi != Phi::avg && in.config().d_k == in.config().d_v;
       }},
      {{"taps_reversed", "W[c, l-1-j] in place of W[c, j]"},
       {k_cmp, v_cmp},
       taps_reversed,
       is_conv},
      {{"pe_missing", "no position encoding in the windows"}, {k_cmp, v_cmp}, pe_missing, is_mlp},
      {{"channel_major", "f[c*l + j] in place of f[j*W + c]"},
       {k_cmp, v_cmp},
       channel_major,
       is_mlp},
      sum_over("sums", "sums in place of means", [](const Config&) { return std::int64_t{1}; }),
      sum_over("mean_over_stride",
               "sums of l tokens over d",
               [](const Config& c) { return c.d == 1 ? c.l : c.d; }),
      sum_over("mean_over_one_fewer",
               "sums of l tokens over l - 1",
               [](const Config& c) { return c.l == 2 ? c.l : c.l - 1; }),
      sum_over("mean_over_one_more",
               "sums of l tokens over l + 1",
               [](const Config& c) { return c.l + 1; }),
      {{"first_stride", "windows of d tokens in place of l"},
       {k_cmp, v_cmp},
       [](const Stages& in, Stage stage) { return windows_of(in, stage, in.config().d); },
       [](const Stages& in, Stage) {
         return in.config().phi == Phi::avg && in.config().d < in.config().l;
       }},
      {{"windows_of_l_sel", "windows of l_sel tokens in place of l"},
       {k_cmp, v_cmp},
       [](const Stages& in, Stage stage) { return windows_of(in, stage, in.config().l_sel); },
       [](const Stages& in, Stage) {
         const Config& c = in.config();
         return c.phi == Phi::avg && c.l_sel != c.l && c.l_sel != c.d;
       }},
      {{"one_late", "window i from token i*d + 1 on, zeros after the last token"},
       {k_cmp, v_cmp},
       one_late,
       {}},
      {{"rope_after", "of keys that are not rotated, then rotated at token i*d"},
       {k_cmp},
       rope_after,
       {}}};
}

}  // namespace oracles
