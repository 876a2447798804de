#include "nsa/seams/norm.h"

#include "nsa/base/error.h"
#include "nsa/seams/cuda/norm.h"
#include "nsa/seams/reference/masked_attention.h"

namespace nsa {
namespace {

using torch::Tensor;

constexpr double kEpsilon = 1e-6;  // keeps a row of zeros finite

Tensor reference_norm(const Tensor& x, const Tensor& weight, int /*layer*/) {
  const auto wide_x = reference::wide(x);  // squares of fp16 overflow at 256
  const auto rms = torch::rsqrt(wide_x.square().mean(-1, /*keepdim=*/true) + kEpsilon);
  return (wide_x * rms * reference::wide(weight)).to(x.scalar_type());
}

Tensor fused_norm(const Tensor& x, const Tensor& weight, int /*layer*/) {
  return torch::rms_norm(x, weight.sizes(), weight, kEpsilon);
}

struct NormRow {
  const char* name;
  Tensor (*norm)(const Tensor&, const Tensor&, int layer);
};
constexpr NormRow kNormRows[] = {
    {"reference", reference_norm}, {"fused", fused_norm}, {"cuda", cuda::norm}};

}  // namespace

std::vector<std::string> norm_implementations() {
  std::vector<std::string> names;
  for (const NormRow& row : kNormRows) names.emplace_back(row.name);
  return names;
}

Norm make_norm(const std::map<std::string, std::string>& route, Routes& routes, int layer) {
  const auto asked = route.find("norm");
  const std::string name = asked == route.end() ? kNormRows[0].name : asked->second;
  for (const NormRow& row : kNormRows) {
    if (name != row.name) continue;
    return [&routes, row, layer](const Tensor& x, const Tensor& weight) {
      Tensor y = row.norm(x, weight, layer);
      routes.ran("norm", layer, row.name, y);
      return y;
    };
  }
  throw Error("seam norm has no implementation '" + name + "'");
}

}  // namespace nsa
