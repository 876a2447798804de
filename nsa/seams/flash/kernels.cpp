#include "nsa/seams/flash/kernels.h"

#include <cmath>
#include <limits>
#include <tuple>

#include <ATen/ops/_flash_attention_forward.h>

#ifdef NSA_CUDA
#include <ATen/cuda/CUDAContext.h>
#endif

#include "nsa/seams/refused.h"

namespace nsa::flash {
namespace {

constexpr std::int64_t kWidestHead = 256;
constexpr std::int64_t kWidthStep = 8;        // 16 bytes: one load of the kernels
constexpr std::int64_t kMostBlocks = 65'535;  // of a grid in y and z: sequences, heads

std::string unsupported_shape(std::int64_t d_k, std::int64_t d_v) {
  if (d_k != d_v) {
    return "d_k " + std::to_string(d_k) + " with d_v " + std::to_string(d_v) +
           ": keys and values have one width";
  }
  if (d_k % kWidthStep != 0 || d_k > kWidestHead) {
    return "head width " + std::to_string(d_k) + ": wanted a multiple of 8 up to 256";
  }
  return "";
}

// Tensor cores with asynchronous copies came with compute capability 8.0.
std::string unsupported_card([[maybe_unused]] const torch::Device& device) {
#ifdef NSA_CUDA
  const auto* card = at::cuda::getDeviceProperties(device.has_index() ? device.index()
                                                                      : at::cuda::current_device());
  if (card->major < 8) {
    return "a card of compute capability " + std::to_string(card->major) + "." +
           std::to_string(card->minor) + ": wanted 8.0 or later";
  }
#endif
  return "";
}

std::string unsupported_there(const Surroundings& where) {
  if (!where.device.is_cuda()) {
    return "device " + where.device.str() + ": its kernels are for CUDA";
  }
  if (where.dtype != torch::kBFloat16 && where.dtype != torch::kHalf) {
    return std::string("dtype ") + c10::toString(where.dtype) + ": wanted BFloat16 or Half";
  }
  if (where.decodes) return "decoding: its kernels do not tell what they read";
  return unsupported_card(where.device);
}

// Under autocast what reaches a seam need not be of one dtype.
std::string unsupported_mixture(const Tensor& q_BHSD, const Tensor& k_BGSD, const Tensor& v_BGSD) {
  const auto dtype = q_BHSD.scalar_type();
  if (k_BGSD.scalar_type() == dtype && v_BGSD.scalar_type() == dtype) return "";
  return std::string("queries of ") + c10::toString(dtype) + " with keys of " +
         c10::toString(k_BGSD.scalar_type()) + " and values of " +
         c10::toString(v_BGSD.scalar_type()) + ": wanted one dtype";
}

// Sizes that the kernels hold in 32 bits, or in a dimension of their grid.
std::string unsupported_size(const SeamContext& context, const Tensor& q_BHSD) {
  const std::int64_t sequences = q_BHSD.size(0) * context.config.d;
  if (sequences > kMostBlocks || q_BHSD.size(1) > kMostBlocks) {
    return std::to_string(q_BHSD.size(0)) + " sequences of " + std::to_string(q_BHSD.size(1)) +
           " heads at once: wanted fewer";
  }
  if (q_BHSD.size(0) * q_BHSD.size(2) > std::numeric_limits<std::int32_t>::max()) {
    return std::to_string(q_BHSD.size(0) * q_BHSD.size(2)) + " rows: wanted fewer than 2^31";
  }
  if (q_BHSD.numel() == 0) return "an empty sequence";
  return "";
}

double scale_of(const Tensor& q) {
  return 1.0 / std::sqrt(static_cast<double>(q.size(-1)));
}

// To the left of a query; nothing to its right, ever.
std::optional<std::int64_t> keys_before(std::optional<std::int64_t> window) {
  return window ? std::optional<std::int64_t>(*window - 1) : std::nullopt;
}

constexpr double kNoDropout = 0.0;
constexpr bool kCausal = true;
constexpr bool kNoDebugMask = false;
constexpr std::int64_t kKeysAfter = 0;

}  // namespace

std::string unsupported(const ModelConfig& config, const Surroundings* where) {
  const std::string shape = unsupported_shape(config.d_k, config.d_v);
  if (!shape.empty() || where == nullptr) return shape;
  return unsupported_there(*where);
}

std::string unsupported_sel(const ModelConfig& /*config*/, const Surroundings* /*where*/) {
  return "the selected branch: it masks bands, and chosen blocks are none";
}

void refuse_unsupported(const SeamContext& context,
                        const char* seam,
                        const char* implementation,
                        const Tensor& q_BHSD,
                        const Tensor& k_BGSD,
                        const Tensor& v_BGSD) {
  std::string reason = unsupported_shape(k_BGSD.size(3), v_BGSD.size(3));
  if (reason.empty()) reason = unsupported_mixture(q_BHSD, k_BGSD, v_BGSD);
  if (reason.empty()) {
    const bool decodes = context.first != 0 || context.reads != nullptr;
    reason = unsupported_there({q_BHSD.device(), q_BHSD.scalar_type(), decodes});
  }
  if (reason.empty()) reason = unsupported_size(context, q_BHSD);
  if (!reason.empty()) throw Refused(seam, implementation, reason, context.layer);
}

Tensor dense(const Tensor& q_NSHD,
             const Tensor& k_NSGD,
             const Tensor& v_NSGD,
             std::optional<std::int64_t> window) {
  return std::get<0>(at::_flash_attention_forward(q_NSHD,
                                                  k_NSGD,
                                                  v_NSGD,
                                                  std::nullopt,
                                                  std::nullopt,
                                                  q_NSHD.size(1),
                                                  k_NSGD.size(1),
                                                  kNoDropout,
                                                  kCausal,
                                                  kNoDebugMask,
                                                  scale_of(q_NSHD),
                                                  keys_before(window),
                                                  kKeysAfter));
}

Tensor varlen(const Tensor& q_LHD,
              const Tensor& k_LGD,
              const Tensor& v_LGD,
              const Tensor& boundaries,
              std::int64_t longest,
              std::optional<std::int64_t> window) {
  return std::get<0>(at::_flash_attention_forward(q_LHD,
                                                  k_LGD,
                                                  v_LGD,
                                                  boundaries,
                                                  boundaries,
                                                  longest,
                                                  longest,
                                                  kNoDropout,
                                                  kCausal,
                                                  kNoDebugMask,
                                                  scale_of(q_LHD),
                                                  keys_before(window),
                                                  kKeysAfter));
}

}  // namespace nsa::flash
