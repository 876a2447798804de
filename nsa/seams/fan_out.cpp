#include "nsa/seams/fan_out.h"

#include <torch/csrc/autograd/custom_function.h>

namespace nsa {
namespace {

using torch::Tensor;

struct FanOut : torch::autograd::Function<FanOut> {
  static std::vector<Tensor> forward(torch::autograd::AutogradContext* context,
                                     const Tensor& x,
                                     std::int64_t consumers) {
    context->set_materialize_grads(false);  // a consumer that passes nothing on costs nothing
    std::vector<Tensor> views;
    for (std::int64_t i = 0; i < consumers; ++i) views.push_back(x.view_as(x));
    return views;
  }

  static std::vector<Tensor> backward(torch::autograd::AutogradContext* /*context*/,
                                      const std::vector<Tensor>& gradients) {
    Tensor sum;
    torch::ScalarType type = torch::kFloat;
    for (const Tensor& gradient : gradients) {
      if (!gradient.defined()) continue;
      type = gradient.scalar_type();
      const Tensor wide = gradient.to(torch::kFloat);
      sum = sum.defined() ? sum + wide : wide;
    }
    return {sum.defined() ? sum.to(type) : sum, Tensor()};
  }
};

}  // namespace

std::vector<Tensor> fan_out(const Tensor& x, std::int64_t consumers) {
  const auto type = x.scalar_type();
  const bool low = type == torch::kBFloat16 || type == torch::kHalf;
  if (!low || consumers == 1 || !x.requires_grad() || !torch::GradMode::is_enabled()) {
    return std::vector<Tensor>(static_cast<std::size_t>(consumers), x);
  }
  return FanOut::apply(x, consumers);
}

}  // namespace nsa
