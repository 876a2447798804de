#include "nsa/seams/cuda/operands.h"

#include <algorithm>

#include "nsa/seams/cuda/device.h"
#include "nsa/seams/refused.h"

namespace nsa::cuda {
namespace {

constexpr const char* kKept = "kept";

// A whole layer takes compressed tokens from the seam `compress` where its kernels do not pool.
std::string unsupported_phi(Part part, const ModelConfig& config) {
  return part == Part::compress && config.phi == Phi::mlp
             ? "phi mlp: its kernels pool by avg or conv"
             : "";
}

kernels::Phi phi_of(Phi phi) {
  switch (phi) {
    case Phi::avg: return kernels::Phi::avg;
    case Phi::conv: return kernels::Phi::conv;
    case Phi::mlp: return kernels::Phi::caller;
  }
  return kernels::Phi::caller;
}

// The scores' softmax needs a pass over the keys, which stand for the values as well.
kernels::Problem over_keys_alone(kernels::Problem problem, Part part) {
  if (part == Part::score) problem.d_v = problem.d_k;
  return problem;
}

std::string unsupported_there(const BackEnd& back_end,
                              Part part,
                              const ModelConfig& config,
                              const Surroundings& where) {
  if (std::string reason = unsupported_device(where.device); !reason.empty()) return reason;
  // Block scores are float32 whatever the model's type is.
  const bool takes_scores = part == Part::select && where.dtype == torch::kFloat;
  if (std::string reason = unsupported_type(where.dtype); !reason.empty() && !takes_scores) {
    return reason;
  }
  return kernels::refusal(over_keys_alone(problem_of(back_end, config, where.dtype, 1, 1), part),
                          compute_capability(where.device));
}

std::string unsupported_mixture(const std::vector<Tensor>& operands) {
  for (const Tensor& x : operands) {
    if (x.scalar_type() != operands.front().scalar_type()) {
      return std::string(c10::toString(operands.front().scalar_type())) + " with " +
             c10::toString(x.scalar_type()) + ": wanted one dtype";
    }
  }
  return "";
}

// Of a query that does not begin its sequence, as decoding has them, there is a forward pass alone, step by step.
std::string unsupported_position(Part part,
                                 const SeamContext& context,
                                 const std::vector<Tensor>& operands) {
  if (context.first == 0) return "";
  if (part == Part::whole_layer) return "a whole layer from a later position on";
  const bool differentiates = torch::GradMode::is_enabled() &&
                              std::any_of(operands.begin(), operands.end(), [](const Tensor& x) {
                                return x.requires_grad();
                              });
  return differentiates ? "gradients of queries from a later position on" : "";
}

// What is too large to be indexed. x [B,S,E] or [B,heads,S,D].
std::string unsupported_size(const BackEnd& back_end,
                             Part part,
                             const SeamContext& context,
                             const Tensor& x) {
  const std::int64_t length = x.dim() == 3 ? x.size(1) : x.size(2);
  auto problem = problem_of(back_end, context.config, x.scalar_type(), x.size(0), length);
  problem.first = context.first;
  return kernels::refusal(over_keys_alone(problem, part), compute_capability(x.device()));
}

bool copies_in_chunks(const Tensor& x) {
  constexpr std::int64_t kChunk = 8;  // elements in 16 bytes
  const auto last = x.dim() - 1;
  if (x.stride(last) != 1 && x.size(last) > 1) return false;
  for (std::int64_t i = 0; i < last; ++i) {
    if (x.size(i) > 1 && x.stride(i) % kChunk != 0) return false;
  }
  return reinterpret_cast<std::uintptr_t>(x.data_ptr()) % 16 == 0;
}

}  // namespace

std::string unsupported_type(torch::ScalarType type) {
  if (type == torch::kBFloat16 || type == torch::kHalf) return "";
  return std::string("dtype ") + c10::toString(type) + ": wanted BFloat16 or Half";
}

kernels::Problem problem_of(const BackEnd& back_end,
                            const ModelConfig& config,
                            torch::ScalarType type,
                            std::int64_t batch,
                            std::int64_t length) {
  kernels::Problem problem;
  problem.element = element_of(type);
  problem.batch = batch;
  problem.length = length;
  problem.groups = static_cast<int>(config.n_kv_groups);
  problem.heads = static_cast<int>(config.heads_per_group());
  problem.d_k = static_cast<int>(config.d_k);
  problem.d_v = static_cast<int>(config.d_v);
  problem.l = static_cast<int>(config.l);
  problem.d = static_cast<int>(config.d);
  problem.l_sel = static_cast<int>(config.l_sel);
  problem.n_sel = static_cast<int>(config.n_sel);
  problem.w = static_cast<int>(config.w);
  problem.init_blocks = static_cast<int>(config.init_blocks);
  problem.local_blocks = static_cast<int>(config.local_blocks);
  problem.phi = phi_of(config.phi);
  problem.overlap =
      config.eq9 == Eq9::fractional ? kernels::Overlap::fractional : kernels::Overlap::per_stride;
  problem.gate_form = config.gate == Gate::head_sigmoid ? kernels::GateForm::per_head
                                                        : kernels::GateForm::per_group;
  problem.family = back_end.family;
  return problem;
}

std::string unsupported(const BackEnd& back_end,
                        Part part,
                        const ModelConfig& config,
                        const Surroundings* where) {
  if (std::string reason = unsupported_phi(part, config); !reason.empty()) return reason;
  return where == nullptr ? "" : unsupported_there(back_end, part, config, *where);
}

void refuse_unsupported(const BackEnd& back_end,
                        Part part,
                        const char* seam,
                        const SeamContext& context,
                        const std::vector<Tensor>& operands) {
  const Tensor& first = operands.front();
  const Surroundings where{first.device(), first.scalar_type()};
  std::string reason = unsupported(back_end, part, context.config, &where);
  if (reason.empty()) reason = unsupported_position(part, context, operands);
  if (reason.empty()) reason = unsupported_mixture(operands);
  if (reason.empty() && first.numel() == 0) reason = "an empty sequence";
  if (reason.empty()) reason = unsupported_size(back_end, part, context, first);
  if (!reason.empty()) throw Refused(seam, back_end.name, reason, context.layer);
  const bool reads = part != Part::compress && part != Part::select;
  if (reads && context.reads != nullptr) context.reads->partial = true;
}

Tensor readable(const Tensor& x) {
  return copies_in_chunks(x) ? x : x.contiguous();
}

kernels::MutableRows rows_of(const Tensor& x) {
  const auto stride = [&](std::int64_t i) { return x.size(i) > 1 ? x.stride(i) : 0; };
  return {x.data_ptr(), stride(0), stride(1), stride(2)};
}

Tensor new_heads(const Tensor& like,
                 std::int64_t heads,
                 std::int64_t positions,
                 std::int64_t width) {
  return torch::empty({like.size(0), positions, heads, width}, like.options()).transpose(1, 2);
}

Tensor new_floats(const Tensor& like, std::int64_t count) {
  return torch::empty({count}, like.options().dtype(torch::kFloat));
}

Tensor new_bytes(const Tensor& like, std::size_t count) {
  return torch::empty({static_cast<std::int64_t>(count)}, like.options().dtype(torch::kByte));
}

std::optional<Tensor> optional_of(const Tensor& x) {
  return x.defined() ? std::optional<Tensor>(x) : std::nullopt;
}

Tensor without_gaps(const std::optional<Tensor>& x) {
  return x ? x->contiguous() : Tensor();
}

void keep(torch::autograd::AutogradContext* context, const kernels::Problem& problem, int choice) {
  auto holder = c10::make_intrusive<Kept>();
  holder->problem = problem;
  holder->choice = choice;
  context->saved_data[kKept] = c10::IValue::make_capsule(std::move(holder));
}

const Kept& kept(torch::autograd::AutogradContext* context) {
  TORCH_CHECK(!torch::GradMode::is_enabled(), "the kernels have no second derivative");
  return static_cast<const Kept&>(*context->saved_data.at(kKept).toCapsule());
}

}  // namespace nsa::cuda
