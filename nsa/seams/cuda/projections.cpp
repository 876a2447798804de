#include "nsa/seams/cuda/projections.h"

#include <c10/core/DeviceGuard.h>

#include "nsa/kernels/rotate.h"
#include "nsa/seams/cuda/device.h"

namespace nsa::cuda {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Heads {
  std::int64_t count;
  std::int64_t width;
  [[nodiscard]] std::int64_t columns() const { return count * width; }
};

Heads heads_of(const RowShape& shape, std::size_t column) {
  if (column == static_cast<std::size_t>(Column::q)) return {shape.heads, shape.d_k};
  return {shape.groups, column <= kKeyColumns ? shape.d_k : shape.d_v};
}

std::int64_t all_columns(const RowShape& shape) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < kColumns; ++i) sum += heads_of(shape, i).columns();
  return sum;
}

kernels::Rotation rotation_of(const RowShape& shape,
                              const Tensor& rows_BSR,
                              const Tensor& cosines,
                              const Tensor& sines) {
  kernels::Rotation rotation;
  rotation.element = element_of(rows_BSR.scalar_type());
  rotation.batch = rows_BSR.size(0);
  rotation.length = rows_BSR.size(1);
  rotation.groups = static_cast<int>(shape.groups);
  rotation.heads = static_cast<int>(shape.heads / shape.groups);
  rotation.key_heads = static_cast<int>(kKeyColumns * shape.groups);
  rotation.d_k = static_cast<int>(shape.d_k);
  rotation.sequence = rows_BSR.stride(0);
  rotation.position = rows_BSR.stride(1);
  rotation.cosines = cosines.data_ptr<float>();
  rotation.sines = sines.data_ptr<float>();
  return rotation;
}

bool lies_where(const Tensor& x, const Tensor& wanted) {
  return x.defined() && x.data_ptr() == wanted.data_ptr() && x.sizes() == wanted.sizes() &&
         x.strides() == wanted.strides();
}

// The rows that hold all the gradients. Where they come from the attention's kernels they lie in rows already.
Tensor joined(const RowShape& shape,
              const variable_list& gradients,
              const Tensor& like_TE,
              std::int64_t batch) {
  const std::int64_t length = like_TE.size(0) / batch;
  const Tensor& first = gradients.front();
  if (first.defined()) {
    const std::int64_t columns = all_columns(shape);
    const std::int64_t offset = first.storage_offset();
    const auto bytes =
        static_cast<std::size_t>((offset + batch * length * columns) * first.element_size());
    if (first.storage().nbytes() >= bytes) {
      const Tensor rows =
          first.as_strided({batch, length, columns}, {length * columns, columns, 1}, offset);
      const Projected places = columns_of(shape, rows);
      bool all = true;
      for (std::size_t i = 0; i < kColumns; ++i) all = all && lies_where(gradients[i], places[i]);
      if (all) return rows;
    }
  }
  Tensor rows = new_rows(shape, like_TE, batch, length);
  const Projected places = columns_of(shape, rows);
  for (std::size_t i = 0; i < kColumns; ++i) {
    if (gradients[i].defined()) {
      places[i].copy_(gradients[i]);
    } else {
      places[i].zero_();
    }
  }
  return rows;
}

struct Project : torch::autograd::Function<Project> {
  static variable_list forward(AutogradContext* context,
                               const Tensor& x_BSE,
                               const Tensor& q,
                               const Tensor& k_cmp,
                               const Tensor& k_sel,
                               const Tensor& k_win,
                               const Tensor& v_cmp,
                               const Tensor& v_sel,
                               const Tensor& v_win,
                               const Tensor& cosines,
                               const Tensor& sines,
                               const RowShape& shape) {
    const c10::DeviceGuard guard(x_BSE.device());
    const Tensor weight_RE = torch::cat({q, k_cmp, k_sel, k_win, v_cmp, v_sel, v_win});
    const Tensor x_TE = x_BSE.reshape({-1, x_BSE.size(2)});
    const Tensor rows_BSR =
        torch::mm(x_TE, weight_RE.t()).view({x_BSE.size(0), x_BSE.size(1), weight_RE.size(0)});
    const Tensor means_BSGD =
        torch::empty({x_BSE.size(0), x_BSE.size(1), shape.groups, shape.d_k}, x_BSE.options());
    kernels::rotate(rotation_of(shape, rows_BSR, cosines, sines),
                    rows_BSR.data_ptr(),
                    means_BSGD.data_ptr(),
                    current_stream(x_BSE.device()));
    context->save_for_backward({x_TE, weight_RE, cosines, sines});
    context->saved_data["batch"] = x_BSE.size(0);
    context->saved_data["shape"] =
        std::vector<std::int64_t>{shape.heads, shape.groups, shape.d_k, shape.d_v};
    context->set_materialize_grads(false);
    const Projected columns = columns_of(shape, rows_BSR);
    variable_list results(columns.begin(), columns.end());
    results.push_back(means_BSGD);
    return results;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    TORCH_CHECK(!torch::GradMode::is_enabled(), "the kernels have no second derivative");
    const auto saved = context->get_saved_variables();
    const Tensor& x_TE = saved[0];
    const Tensor& weight_RE = saved[1];
    const auto sizes = context->saved_data.at("shape").toIntVector();
    const RowShape shape{sizes[0], sizes[1], sizes[2], sizes[3]};
    const std::int64_t batch = context->saved_data.at("batch").toInt();
    const c10::DeviceGuard guard(x_TE.device());
    const Tensor d_rows_BSR = joined(shape, gradients, x_TE, batch);
    const Tensor d_means =
        gradients[kColumns].defined() ? gradients[kColumns].contiguous() : Tensor();
    kernels::rotate_backward(rotation_of(shape, d_rows_BSR, saved[2], saved[3]),
                             d_rows_BSR.data_ptr(),
                             d_means.defined() ? d_means.data_ptr() : nullptr,
                             current_stream(x_TE.device()));
    const Tensor d_rows_TR = d_rows_BSR.flatten(0, 1);
    variable_list results = {
        torch::mm(d_rows_TR, weight_RE).view({batch, d_rows_BSR.size(1), x_TE.size(1)})};
    const Tensor d_weight_RE = torch::mm(d_rows_TR.t(), x_TE);
    std::int64_t row = 0;
    for (std::size_t i = 0; i < kColumns; ++i) {
      const std::int64_t rows = heads_of(shape, i).columns();
      results.push_back(d_weight_RE.narrow(0, row, rows));
      row += rows;
    }
    results.resize(results.size() + 3);  // cosines, sines, shape
    return results;
  }
};

}  // namespace

Tensor new_rows(const RowShape& shape,
                const Tensor& like,
                std::int64_t batch,
                std::int64_t length) {
  return torch::empty({batch, length, all_columns(shape)}, like.options());
}

Projected columns_of(const RowShape& shape, const Tensor& rows_BSR) {
  Projected columns;
  std::int64_t first = 0;
  for (std::size_t i = 0; i < kColumns; ++i) {
    const Heads heads = heads_of(shape, i);
    columns[i] = rows_BSR.narrow(2, first, heads.columns())
                     .unflatten(2, {heads.count, heads.width})
                     .transpose(1, 2);
    first += heads.columns();
  }
  return columns;
}

Projections project(const ModelConfig& config,
                    const AttentionWeights& weights,
                    const Tensor& x_BSE,
                    const Tensor& cosines,
                    const Tensor& sines) {
  const variable_list results =
      Project::apply(x_BSE,
                     weights.q,
                     weights.k_cmp,
                     weights.k_sel,
                     weights.k_win,
                     weights.v_cmp,
                     weights.v_sel,
                     weights.v_win,
                     cosines,
                     sines,
                     RowShape{config.n_heads, config.n_kv_groups, config.d_k, config.d_v});
  Projections projections;
  std::copy_n(results.begin(), kColumns, projections.columns.begin());
  projections.means_BSGD = results[kColumns];
  return projections;
}

}  // namespace nsa::cuda
