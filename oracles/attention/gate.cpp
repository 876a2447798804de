#include "oracles/attention/gate.h"

#include <algorithm>
#include <cmath>

#include "oracles/linear.h"
#include "oracles/silu.h"

namespace oracles {
namespace {

Shape gate_shape(const AttentionConfig& config, const GateInputs& in) {
  const Shape& q = in.q_BGhRD.shape;
  return config.gate == Gate::group_softmax ? Shape{q[0], q[1], q[3], 3}
                                            : Shape{q[0], q[1], q[2], q[3], 3};
}

// Adds the bias to every row.
Tensor with_bias(Tensor rows, const Tensor& bias) {
  for (std::size_t i = 0; i < rows.data.size(); ++i) {
    rows.data[i] += bias.data[i % bias.data.size()];
  }
  return rows;
}

Tensor column_sums(const Tensor& rows) {
  Tensor sums = zeros({rows.shape.back()});
  for (std::size_t i = 0; i < rows.data.size(); ++i) {
    sums.data[i % sums.data.size()] += rows.data[i];
  }
  return sums;
}

// qbar [B,G,R,D]: mean over the group's heads.
Tensor mean_over_heads(const Tensor& q_BGhRD) {
  const Shape& shape = q_BGhRD.shape;
  const std::int64_t heads = shape[2];
  const std::int64_t size = shape[3] * shape[4];
  Tensor mean = zeros({shape[0], shape[1], shape[3], shape[4]});
  for (std::int64_t group = 0; group < shape[0] * shape[1]; ++group) {
    for (std::int64_t head = 0; head < heads; ++head) {
      for (std::int64_t k = 0; k < size; ++k) {
        mean.data[group * size + k] += q_BGhRD.data[(group * heads + head) * size + k];
      }
    }
  }
  for (double& value : mean.data) {
    value /= static_cast<double>(heads);
  }
  return mean;
}

void add_mean_gradient(const Kept& kept, const Tensor& dmean_BGRD, Tensor& dq_BGhRD) {
  const Shape& shape = dq_BGhRD.shape;
  const std::int64_t heads = shape[2];
  const std::int64_t size = shape[3] * shape[4];
  for (std::int64_t group = 0; group < shape[0] * shape[1]; ++group) {
    for (std::int64_t head = 0; head < heads; ++head) {
      for (std::int64_t k = 0; k < size; ++k) {
        dq_BGhRD.data[(group * heads + head) * size + k] +=
            kept.of(dmean_BGRD.data[group * size + k] / static_cast<double>(heads), kept.results);
      }
    }
  }
}

// W x + b, rounded once.
Tensor biased(const Layer& layer, const Tensor& x, const std::string& name) {
  const Kept& kept = layer.kept;
  return kept.of(
      with_bias(linear(kept.of(x), kept.of(layer.weight(name + ".weight")), layer.threads),
                kept.of(layer.weight(name + ".bias"))));
}

// fc1 qbar + b1
Tensor hidden(const Layer& layer, const Tensor& mean) {
  return biased(layer, mean, "gate.fc1");
}

// softmax(z / temperature) of each three numbers.
void softmax_of_three(Tensor& z, double temperature) {
  for (auto row = z.data.begin(); row != z.data.end(); row += 3) {
    const double largest = *std::max_element(row, row + 3);
    double sum = 0;
    for (auto value = row; value != row + 3; ++value) {
      *value = std::exp((*value - largest) / temperature);
      sum += *value;
    }
    for (auto value = row; value != row + 3; ++value) {
      *value /= sum;
    }
  }
}

// dz = g (dg - sum g dg) / temperature
Tensor softmax_gradient(const Tensor& gate_value, const Tensor& dgate, double temperature) {
  Tensor dz = zeros(dgate.shape);
  for (std::size_t i = 0; i < dz.data.size(); i += 3) {
    double mean = 0;
    for (std::size_t k = i; k < i + 3; ++k) {
      mean += gate_value.data[k] * dgate.data[k];
    }
    for (std::size_t k = i; k < i + 3; ++k) {
      dz.data[k] = gate_value.data[k] * (dgate.data[k] - mean) / temperature;
    }
  }
  return dz;
}

// Row 3*hq + k of the projection is number k of head hq: [B,R,3H] <-> [B,G,h,R,3].
Tensor head_sigmoid(const Layer& layer, const GateInputs& in, const Shape& shape) {
  const Tensor projected = kept_linear(layer, in.x_BRE, layer.weight("gate.proj.weight"));
  Tensor value = reshaped(split_heads(projected, shape[1] * shape[2]), shape);
  for (double& g : value.data) {
    g = 1 / (1 + std::exp(-g));
  }
  return value;
}

void add_head_sigmoid_gradients(const Layer& layer,
                                const GateInputs& in,
                                const Tensor& gate_value,
                                Tensor dz,
                                Tensor& dx_BRE,
                                Weights& gradients) {
  for (std::size_t i = 0; i < dz.data.size(); ++i) {
    dz.data[i] *= gate_value.data[i] * (1 - gate_value.data[i]);
  }
  layer.kept.round(dz.data);
  const Shape shape = dz.shape;
  const Tensor projected =
      merge_heads(reshaped(std::move(dz), {shape[0], shape[1] * shape[2], shape[3], 3}));
  add_kept_input_gradient(layer, projected, layer.weight("gate.proj.weight"), dx_BRE);
  gradients["gate.proj.weight"] = kept_weight_gradient(layer, projected, in.x_BRE);
}

void add_group_softmax_gradients(const Layer& layer,
                                 const GateInputs& in,
                                 const Tensor& dz,
                                 Tensor& dq_BGhRD,
                                 Weights& gradients) {
  const Kept& kept = layer.kept;
  const Tensor mean = kept.of(mean_over_heads(in.q_BGhRD));
  const Tensor u = hidden(layer, mean);
  Shape hidden_shape = dz.shape;
  hidden_shape.back() = layer.config.gate_width();
  Tensor da = zeros(hidden_shape);
  add_kept_input_gradient(layer, dz, layer.weight("gate.fc2.weight"), da);
  const Tensor du = kept.of(through_silu(std::move(da), u));
  Tensor dmean = zeros(mean.shape);
  add_kept_input_gradient(layer, du, layer.weight("gate.fc1.weight"), dmean);
  add_mean_gradient(kept, dmean, dq_BGhRD);
  gradients["gate.fc2.weight"] = kept_weight_gradient(layer, dz, kept.of(silu(u)));
  gradients["gate.fc2.bias"] = kept.of(column_sums(dz));
  gradients["gate.fc1.weight"] = kept_weight_gradient(layer, du, mean);
  gradients["gate.fc1.bias"] = kept.of(column_sums(du));
}

}  // namespace

Tensor gate(const Layer& layer, const GateInputs& in) {
  if (layer.config.gate == Gate::head_sigmoid) {
    return head_sigmoid(layer, in, gate_shape(layer.config, in));
  }
  const Tensor u = hidden(layer, layer.kept.of(mean_over_heads(in.q_BGhRD)));
  Tensor z = biased(layer, silu(u), "gate.fc2");
  softmax_of_three(z, layer.config.gate_temp);
  return z;
}

Tensor constant_gate(const AttentionConfig& config,
                     const GateInputs& in,
                     const std::array<double, 3>& value) {
  Tensor result = zeros(gate_shape(config, in));
  for (std::size_t i = 0; i < result.data.size(); ++i) {
    result.data[i] = value[i % 3];
  }
  return result;
}

void add_gate_gradients(const Layer& layer,
                        const GateInputs& in,
                        const Tensor& gate_value,
                        const Tensor& dgate,
                        Tensor& dq_BGhRD,
                        Tensor& dx_BRE,
                        Weights& gradients) {
  if (layer.config.gate == Gate::head_sigmoid) {
    add_head_sigmoid_gradients(layer, in, gate_value, dgate, dx_BRE, gradients);
  } else {
    add_group_softmax_gradients(
        layer,
        in,
        layer.kept.of(softmax_gradient(gate_value, dgate, layer.config.gate_temp)),
        dq_BGhRD,
        gradients);
  }
}

}  // namespace oracles
