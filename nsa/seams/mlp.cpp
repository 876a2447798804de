#include "nsa/seams/mlp.h"

#include <torch/csrc/autograd/custom_function.h>

#include "nsa/base/error.h"

namespace nsa {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct LeanDown : torch::autograd::Function<LeanDown> {
  static Tensor forward(AutogradContext* context,
                        const Tensor& activated,
                        const Tensor& hidden,
                        const Tensor& weight) {
    context->save_for_backward({hidden, weight});
    return torch::linear(activated, weight);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    TORCH_CHECK(!torch::GradMode::is_enabled(), "mlp/lean has no second derivative");
    const auto saved = context->get_saved_variables();
    const Tensor& weight_EF = saved[1];
    const Tensor d_y_TE = gradients[0].flatten(0, -2);
    const Tensor activated_TF = torch::silu(saved[0]).flatten(0, -2);
    const Tensor d_activated = torch::mm(d_y_TE, weight_EF).view(saved[0].sizes());
    return {d_activated, Tensor(), torch::mm(d_y_TE.t(), activated_TF)};
  }
};

Tensor reference_down(const Tensor& activated, const Tensor& /*hidden*/, const Tensor& weight) {
  return torch::linear(activated, weight);
}

Tensor lean_down(const Tensor& activated, const Tensor& hidden, const Tensor& weight) {
  TORCH_CHECK(activated.scalar_type() == weight.scalar_type(),
              "mlp/lean cannot do ",
              activated.scalar_type(),
              " with weights of ",
              weight.scalar_type(),
              ": wanted one dtype");
  return LeanDown::apply(activated, hidden.detach(), weight);
}

struct MlpRow {
  const char* name;
  Tensor (*down)(const Tensor&, const Tensor&, const Tensor&);
};
constexpr MlpRow kMlpRows[] = {{"reference", reference_down}, {"lean", lean_down}};

}  // namespace

std::vector<std::string> mlp_implementations() {
  std::vector<std::string> names;
  for (const MlpRow& row : kMlpRows) names.emplace_back(row.name);
  return names;
}

MlpDown make_mlp_down(const std::map<std::string, std::string>& route, Routes& routes, int layer) {
  const auto asked = route.find("mlp");
  const std::string name = asked == route.end() ? kMlpRows[0].name : asked->second;
  for (const MlpRow& row : kMlpRows) {
    if (name != row.name) continue;
    return
        [&routes, row, layer](const Tensor& activated, const Tensor& hidden, const Tensor& weight) {
          Tensor y = row.down(activated, hidden, weight);
          routes.ran("mlp", layer, row.name, y);
          return y;
        };
  }
  throw Error("seam mlp has no implementation '" + name + "'");
}

}  // namespace nsa
