#include "harness/kinds/dense_control.h"

#include <ATen/ops/scaled_dot_product_attention.h>

namespace harness {
namespace {

constexpr std::int64_t kHeads = 8;
constexpr std::int64_t kWidth = 64;
constexpr std::int64_t kMostPositions =
    4096;  // dense attention of a long sequence would take longer than the step

}  // namespace

DenseControl::DenseControl(const nsa::TrainingConfig& training, const torch::Device& device)
    : clock_(device) {
  const auto dtype = device.is_cuda() ? torch::kBFloat16 : torch::kFloat32;
  const std::int64_t length = std::min(training.seq_len, kMostPositions);
  qkv_3BHSD_ = torch::zeros({3, training.batch_size, kHeads, length, kWidth},
                            torch::TensorOptions().dtype(dtype).device(device));
}

double DenseControl::measure_ms() {
  clock_.start();
  auto qkv_3BHSD = qkv_3BHSD_.detach().requires_grad_();
  const auto parts = qkv_3BHSD.unbind(0);
  at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.0, true).sum().backward();
  return clock_.elapsed_ms();
}

}  // namespace harness
