// Wrong laws of the compression: k_cmp and v_cmp from right raw keys and values.
#include <algorithm>
#include <string>
#include <utility>

#include "oracles/attention/compress.h"
#include "oracles/attention/rope.h"
#include "oracles/laws/stage_rules.h"
#include "oracles/linear.h"
#include "oracles/silu.h"

namespace oracles {
namespace {

PhiOf phi_of(Stage stage) {
  return stage == Stage::k_cmp ? PhiOf::keys : PhiOf::values;
}
std::string phi_name(Stage stage) {
  return stage == Stage::k_cmp ? "phi_k" : "phi_v";
}
const Tensor& raw_of(const StageInputs& in, Stage stage) {
  return right_tensor(in, stage == Stage::k_cmp ? Stage::k_cmp_raw : Stage::v_cmp_raw);
}

Tensor compressed(const StageInputs& in, Stage stage, const Weights& weights, const Tensor& raw) {
  return compress({in.config, weights, in.threads}, phi_of(stage), raw);
}

// The weights with those of phi_k and phi_v exchanged.
Tensor phi_exchanged(const StageInputs& in, Stage stage) {
  Weights weights = in.weights;
  for (const auto& [name, weight] : in.weights) {
    if (name.rfind("phi_k", 0) == 0) {
      std::swap(weights[name], weights["phi_v" + name.substr(5)]);
    }
  }
  return compressed(in, stage, weights, raw_of(in, stage));
}

Tensor taps_reversed(const StageInputs& in, Stage stage) {
  Weights weights = in.weights;
  Tensor& taps = weights.at(phi_name(stage) + "_conv.weight");
  for (auto row = taps.data.begin(); row != taps.data.end(); row += in.config.l) {
    std::reverse(row, row + in.config.l);
  }
  return compressed(in, stage, weights, raw_of(in, stage));
}

Tensor pe_missing(const StageInputs& in, Stage stage) {
  Weights weights = in.weights;
  Tensor& pe = weights.at(phi_name(stage) + ".pe");
  pe = zeros(pe.shape);
  return compressed(in, stage, weights, raw_of(in, stage));
}

// f[c*l + j] in place of f[j*W + c].
Tensor channel_major(const StageInputs& in, Stage stage) {
  const std::string phi = phi_name(stage);
  const Tensor right =
      compression_windows(in.config, in.weights.at(phi + ".pe"), raw_of(in, stage));
  const std::int64_t span = right.shape[1];
  const std::int64_t width = span / in.config.l;
  Tensor f = right;
  for (std::int64_t k = 0; k < static_cast<std::int64_t>(f.data.size()); ++k) {
    const std::int64_t c = k % span / in.config.l;
    const std::int64_t j = k % span % in.config.l;
    f.data[k] = right.data[k / span * span + j * width + c];
  }
  const Tensor z = linear(f, in.weights.at(phi + ".fc1.weight"), in.threads);
  return reshaped(linear(silu(z), in.weights.at(phi + ".fc2.weight"), in.threads),
                  right_tensor(in, stage).shape);
}

Tensor sums(const StageInputs& in, Stage stage) {
  Tensor out = right_tensor(in, stage);
  for (double& value : out.data) {
    value *= static_cast<double>(in.config.l);
  }
  return out;
}

// Windows of d tokens.
Tensor first_stride(const StageInputs& in, Stage stage) {
  AttentionConfig config = in.config;
  config.l = config.d;
  const Tensor all = compress({config, in.weights, in.threads}, phi_of(stage), raw_of(in, stage));
  Tensor out = zeros(right_tensor(in, stage).shape);
  const std::int64_t size = out.shape[2] * out.shape[3];
  for (std::int64_t group = 0; group < out.shape[0] * out.shape[1]; ++group) {
    std::copy_n(all.data.begin() + group * all.shape[2] * all.shape[3],
                size,
                out.data.begin() + group * size);
  }
  return out;
}

// Window i from token i*d + 1 on; zeros after the last token.
Tensor one_late(const StageInputs& in, Stage stage) {
  const Tensor& raw = raw_of(in, stage);
  const std::int64_t size = raw.shape[2] * raw.shape[3];
  Tensor moved = zeros(raw.shape);
  for (std::int64_t group = 0; group < raw.shape[0] * raw.shape[1]; ++group) {
    const auto begin = raw.data.begin() + group * size;
    std::copy(begin + raw.shape[3], begin + size, moved.data.begin() + group * size);
  }
  return compressed(in, stage, in.weights, moved);
}

Tensor rope_missing(const StageInputs& in, Stage stage) {
  return compressed(in, stage, in.weights, unrotated_keys(in, Branch::cmp));
}

Tensor rope_after(const StageInputs& in, Stage stage) {
  Tensor k = rope_missing(in, stage);
  std::vector<std::int64_t> positions;
  for (std::int64_t i = 0; i < k.shape[2]; ++i) {
    positions.push_back(i * in.config.d);
  }
  rotate(k, in.config, positions, Turn::forward);
  return k;
}

bool is_avg(const StageInputs& in, Stage) {
  return in.config.phi == Phi::avg;
}
bool is_conv(const StageInputs& in, Stage) {
  return in.config.phi == Phi::conv;
}
bool is_mlp(const StageInputs& in, Stage) {
  return in.config.phi == Phi::mlp;
}
bool can_exchange(const StageInputs& in, Stage) {
  return in.config.phi != Phi::avg && in.config.d_k == in.config.d_v;
}
bool strides_overlap(const StageInputs& in, Stage stage) {
  return is_avg(in, stage) && in.config.d < in.config.l;
}

}  // namespace

std::vector<StageRule> compression_rules() {
  using enum Stage;
  return {
      {{"phi_exchanged", {k_cmp, v_cmp}, "keys through phi_v, values through phi_k"},
       phi_exchanged,
       can_exchange},
      {{"taps_reversed", {k_cmp, v_cmp}, "W[c, l-1-j] in place of W[c, j]"},
       taps_reversed,
       is_conv},
      {{"pe_missing", {k_cmp, v_cmp}, "no position encoding in the windows"}, pe_missing, is_mlp},
      {{"channel_major", {k_cmp, v_cmp}, "f[c*l + j] in place of f[j*W + c]"},
       channel_major,
       is_mlp},
      {{"sums", {k_cmp, v_cmp}, "sums in place of means"}, sums, is_avg},
      {{"first_stride", {k_cmp, v_cmp}, "windows of d tokens in place of l"},
       first_stride,
       strides_overlap},
      {{"one_late", {k_cmp, v_cmp}, "window i from token i*d + 1 on, zeros after the last token"},
       one_late,
       {}},
      {{"rope_missing", {k_cmp}, "of keys that are not rotated"}, rope_missing, {}},
      {{"rope_after", {k_cmp}, "of keys that are not rotated, then rotated at token i*d"},
       rope_after,
       {}}};
}

}  // namespace oracles
