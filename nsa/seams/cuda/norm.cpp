#include "nsa/seams/cuda/norm.h"

#include <c10/core/DeviceGuard.h>

#include "nsa/kernels/rms_norm.h"
#include "nsa/seams/cuda/device.h"
#include "nsa/seams/cuda/operands.h"
#include "nsa/seams/refused.h"

namespace nsa::cuda {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

kernels::RmsNorm norm_of(const Tensor& x_TE) {
  kernels::RmsNorm norm;
  norm.element = element_of(x_TE.scalar_type());
  norm.rows = x_TE.size(0);
  norm.width = static_cast<int>(x_TE.size(1));
  return norm;
}

struct Normed : torch::autograd::Function<Normed> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight) {
    const c10::DeviceGuard guard(x.device());
    const Tensor x_TE = x.contiguous().view({-1, x.size(-1)});
    Tensor y_TE = torch::empty_like(x_TE);
    const Tensor scale_T = new_floats(x_TE, x_TE.size(0));
    kernels::rms_norm(norm_of(x_TE),
                      x_TE.data_ptr(),
                      weight.data_ptr(),
                      y_TE.data_ptr(),
                      scale_T.data_ptr<float>(),
                      current_stream(x.device()));
    context->save_for_backward({x_TE, weight, scale_T});
    return y_TE.view(x.sizes());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    TORCH_CHECK(!torch::GradMode::is_enabled(), "the kernels have no second derivative");
    const auto saved = context->get_saved_variables();
    const Tensor& x_TE = saved[0];
    const Tensor& weight = saved[1];
    const c10::DeviceGuard guard(x_TE.device());
    const Tensor d_y = gradients[0].contiguous();
    Tensor d_x = torch::empty_like(d_y);
    Tensor d_weight = torch::empty_like(weight);
    const kernels::RmsNorm norm = norm_of(x_TE);
    const Tensor space = new_bytes(x_TE, kernels::rms_norm_backward_workspace(norm));
    kernels::rms_norm_backward(norm,
                               x_TE.data_ptr(),
                               weight.data_ptr(),
                               saved[2].data_ptr<float>(),
                               d_y.data_ptr(),
                               d_x.data_ptr(),
                               d_weight.data_ptr(),
                               space.data_ptr(),
                               current_stream(x_TE.device()));
    return {d_x, d_weight};
  }
};

}  // namespace

std::string unsupported_norm(std::int64_t width, const Surroundings& where) {
  if (std::string reason = unsupported_device(where.device); !reason.empty()) return reason;
  if (std::string reason = unsupported_type(where.dtype); !reason.empty()) return reason;
  if (compute_capability(where.device) < 80) {
    return "a card of compute capability below 8.0: wanted 8.0 or newer";
  }
  kernels::RmsNorm norm;
  norm.width = static_cast<int>(width);
  return kernels::refusal(norm);
}

Tensor norm(const Tensor& x, const Tensor& weight, int layer) {
  std::string reason = unsupported_norm(x.size(-1), {x.device(), x.scalar_type()});
  if (reason.empty() && weight.scalar_type() != x.scalar_type()) {
    reason = std::string(c10::toString(x.scalar_type())) + " with a weight of " +
             c10::toString(weight.scalar_type()) + ": wanted one dtype";
  }
  if (!reason.empty()) throw Refused("norm", "cuda", reason, layer);
  return Normed::apply(x, weight);
}

}  // namespace nsa::cuda
