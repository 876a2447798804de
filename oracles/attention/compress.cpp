#include "oracles/attention/compress.h"

#include <algorithm>

#include "oracles/silu.h"

namespace oracles {
namespace {

struct Extent {
  std::int64_t sequences;   // B * G
  std::int64_t tokens;      // S
  std::int64_t compressed;  // C
  std::int64_t width;       // W
};

Extent extent_of(const AttentionConfig& config, const Tensor& raw) {
  return {raw.shape[0] * raw.shape[1],
          raw.shape[2],
          config.compressed_count(raw.shape[2]),
          raw.shape[3]};
}

std::string phi_name(PhiOf which) {
  return which == PhiOf::keys ? "phi_k" : "phi_v";
}

// Calls visit(first element of the window, first element of its compressed token).
template <typename Visit>
void for_each_window(const AttentionConfig& config, const Extent& n, Visit visit) {
  for (std::int64_t sequence = 0; sequence < n.sequences; ++sequence) {
    for (std::int64_t i = 0; i < n.compressed; ++i) {
      visit((sequence * n.tokens + i * config.d) * n.width,
            (sequence * n.compressed + i) * n.width);
    }
  }
}

// avg and conv are both out[i,c] = sum_j W[c,j] raw[i*d + j, c]; avg has no weights, and W = 1/l is
// applied to the sum.
void pool(const AttentionConfig& config, const Tensor* conv, const Tensor& raw, Tensor& out) {
  const Extent n = extent_of(config, raw);
  for_each_window(config, n, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t c = 0; c < n.width; ++c) {
      double sum = 0;
      for (std::int64_t j = 0; j < config.l; ++j) {
        const double value = raw.data[from + j * n.width + c];
        sum += conv != nullptr ? conv->data[c * config.l + j] * value : value;
      }
      out.data[to + c] = conv != nullptr ? sum : sum / static_cast<double>(config.l);
    }
  });
}

// draw[i*d + j, c] += W[c,j] dout[i,c] and dW[c,j] += raw[i*d + j, c] dout[i,c].
void pool_gradients(const AttentionConfig& config,
                    const Tensor* conv,
                    const Tensor& raw,
                    const Tensor& dout,
                    Tensor& draw,
                    Tensor* dconv) {
  const Extent n = extent_of(config, raw);
  const double share = 1 / static_cast<double>(config.l);
  for_each_window(config, n, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t j = 0; j < config.l; ++j) {
      for (std::int64_t c = 0; c < n.width; ++c) {
        const std::int64_t at = from + j * n.width + c;
        const double weight = conv != nullptr ? conv->data[c * config.l + j] : share;
        draw.data[at] += weight * dout.data[to + c];
        if (dconv != nullptr) {
          dconv->data[c * config.l + j] += raw.data[at] * dout.data[to + c];
        }
      }
    }
  });
}

// The inverse way for gradients: df is added to draw and, summed over tokens, to dpe.
void add_window_gradients(const AttentionConfig& config,
                          const Tensor& df,
                          Tensor& draw,
                          Tensor& dpe) {
  const Extent n = extent_of(config, draw);
  const std::int64_t span = config.l * n.width;
  for_each_window(config, n, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t k = 0; k < span; ++k) {
      draw.data[from + k] += df.data[to * config.l + k];
      dpe.data[k] += df.data[to * config.l + k];
    }
  });
}

void mlp_gradients(const Layer& layer,
                   const std::string& phi,
                   const Tensor& raw,
                   const Tensor& dout,
                   Tensor& draw,
                   Weights& gradients) {
  const Tensor& fc1 = layer.weight(phi + ".fc1.weight");
  const Tensor& fc2 = layer.weight(phi + ".fc2.weight");
  const Kept& kept = layer.kept;
  const Tensor f = kept.of(compression_windows(layer.config, layer.weight(phi + ".pe"), raw));
  const Tensor z = kept_linear(layer, f, fc1);
  const Tensor flat = reshaped(dout, {f.shape[0], dout.shape[3]});
  Tensor da = zeros(z.shape);
  add_kept_input_gradient(layer, flat, fc2, da);
  const Tensor dz = kept.of(through_silu(std::move(da), z));
  Tensor df = zeros(f.shape);
  add_kept_input_gradient(layer, dz, fc1, df);
  gradients[phi + ".fc2.weight"] = kept_weight_gradient(layer, flat, kept.of(silu(z)));
  gradients[phi + ".fc1.weight"] = kept_weight_gradient(layer, dz, f);
  Tensor& dpe = gradients[phi + ".pe"] = zeros(layer.weight(phi + ".pe").shape);
  add_window_gradients(layer.config, df, draw, dpe);
  kept.round(dpe.data);
}

}  // namespace

Tensor compression_windows(const AttentionConfig& config, const Tensor& pe, const Tensor& raw) {
  const Extent n = extent_of(config, raw);
  const std::int64_t span = config.l * n.width;
  Tensor f = zeros({n.sequences * n.compressed, span});
  for_each_window(config, n, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t k = 0; k < span; ++k) {
      f.data[to * config.l + k] = raw.data[from + k] + pe.data[k];
    }
  });
  return f;
}

Tensor compress(const Layer& layer, PhiOf which, const Tensor& raw_BGSW) {
  const Extent n = extent_of(layer.config, raw_BGSW);
  const Shape shape{raw_BGSW.shape[0], raw_BGSW.shape[1], n.compressed, n.width};
  const std::string phi = phi_name(which);
  if (layer.config.phi == Phi::mlp) {
    const Tensor f =
        layer.kept.of(compression_windows(layer.config, layer.weight(phi + ".pe"), raw_BGSW));
    const Tensor z = kept_linear(layer, f, layer.weight(phi + ".fc1.weight"));
    const Tensor a = layer.kept.of(silu(z));
    return reshaped(kept_linear(layer, a, layer.weight(phi + ".fc2.weight")), shape);
  }
  Tensor out = zeros(shape);
  pool(layer.config,
       layer.config.phi == Phi::conv ? &layer.weight(phi + "_conv.weight") : nullptr,
       raw_BGSW,
       out);
  return layer.kept.of(std::move(out));
}

Tensor compress_gradients(const Layer& layer,
                          PhiOf which,
                          const Tensor& raw_BGSW,
                          const Tensor& dout_BGCW,
                          Weights& gradients) {
  const std::string phi = phi_name(which);
  Tensor draw = zeros(raw_BGSW.shape);
  if (layer.config.phi == Phi::mlp) {
    mlp_gradients(layer, phi, raw_BGSW, dout_BGCW, draw, gradients);
  } else if (layer.config.phi == Phi::conv) {
    const Tensor& conv = layer.weight(phi + "_conv.weight");
    Tensor& dconv = gradients[phi + "_conv.weight"] = zeros(conv.shape);
    pool_gradients(layer.config, &conv, raw_BGSW, dout_BGCW, draw, &dconv);
    layer.kept.round(dconv.data);
  } else {
    pool_gradients(layer.config, nullptr, raw_BGSW, dout_BGCW, draw, nullptr);
  }
  return layer.kept.of(std::move(draw));
}

}  // namespace oracles
