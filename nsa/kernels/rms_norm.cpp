#include "nsa/kernels/rms_norm.h"

#include <stdexcept>
#include <string>

#include "nsa/kernels/common/kernels.h"

namespace nsa::kernels {
namespace {

constexpr int kWidest = 2048;  // a lane keeps an 8th of a kilobyte of a row in registers

bool is_aligned(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0;
}

NormParams params_of(const RmsNorm& norm, const void* x, const void* weight, float* scale) {
  const std::string reason = refusal(norm);
  if (!reason.empty()) throw std::invalid_argument("nsa kernels: norm: " + reason);
  if (!is_aligned(x) || !is_aligned(weight)) {
    throw std::invalid_argument("nsa kernels: norm: memory is not aligned to 16 bytes");
  }
  NormParams p;
  p.x = static_cast<const char*>(x);
  p.weight = static_cast<const char*>(weight);
  p.scale = scale;
  p.rows = norm.rows;
  p.chunks = norm.width / 8;
  p.epsilon = norm.epsilon;
  return p;
}

}  // namespace

std::string refusal(const RmsNorm& norm) {
  if (norm.width < 8 || norm.width % 8 != 0 || norm.width > kWidest) {
    return "width " + std::to_string(norm.width) + ": wanted a multiple of 8 up to 2048";
  }
  return "";
}

void rms_norm(
    const RmsNorm& norm, const void* x, const void* weight, void* y, float* scale, Stream stream) {
  NormParams p = params_of(norm, x, weight, scale);
  p.out = static_cast<char*>(y);
  find_element_kernels(norm.element)->norm(p, stream);
}

std::size_t rms_norm_backward_workspace(const RmsNorm& norm) {
  return std::size_t{4} * kNormBlocks * static_cast<std::size_t>(norm.width);
}

void rms_norm_backward(const RmsNorm& norm,
                       const void* x,
                       const void* weight,
                       const float* scale,
                       const void* d_y,
                       void* d_x,
                       void* d_weight,
                       void* workspace,
                       Stream stream) {
  NormParams p = params_of(norm, x, weight, const_cast<float*>(scale));  // NOLINT: only read from
  if (!is_aligned(d_y) || !is_aligned(d_x)) {
    throw std::invalid_argument("nsa kernels: norm: gradients are not aligned to 16 bytes");
  }
  p.d_y = static_cast<const char*>(d_y);
  p.out = static_cast<char*>(d_x);
  p.d_weight = static_cast<char*>(d_weight);
  p.sums = static_cast<float*>(workspace);
  find_element_kernels(norm.element)->norm_backward(p, stream);
}

}  // namespace nsa::kernels
