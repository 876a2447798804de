// The laws of a configuration (validate) and what follows from it. Reading is in config_read.cpp.
#include "nsa/base/config.h"

#include "nsa/base/config_laws.h"
#include "nsa/base/model_fields.h"
#include "nsa/base/parallel_fields.h"
#include "nsa/base/text.h"
#include "nsa/base/training_fields.h"

namespace nsa {
namespace {

constexpr std::int64_t kMaxParameters = std::int64_t{1} << 37;

std::optional<Violation> divides(const std::string& divisor_key,
                                 std::int64_t divisor,
                                 const std::string& key,
                                 std::int64_t value) {
  if (value % divisor == 0) return std::nullopt;
  return Violation{key,
                   "found " + std::to_string(value) + ", wanted a multiple of " + divisor_key +
                       " = " + std::to_string(divisor)};
}

// The first of several results that is a violation.
template <typename... Results>
std::optional<Violation> first_of(Results... results) {
  std::optional<Violation> found;
  ((found.has_value() ? void() : void(found = std::move(results))), ...);
  return found;
}

}  // namespace

std::optional<Violation> violation_of(const ModelConfig& m) {
  if (auto found = out_of_range(kModelFields, m)) return found;
  auto found = first_of(divides("d", m.d, "l", m.l),
                        divides("d", m.d, "l_sel", m.l_sel),
                        divides("n_kv_groups", m.n_kv_groups, "n_heads", m.n_heads),
                        divides("2 (RoPE turns pairs)", 2, "d_k", m.d_k));
  if (found) {
    if (found->key == "d_k")
      found->text = "found " + std::to_string(m.d_k) + ", wanted an even number";
    return found;
  }
  const std::int64_t forced = m.init_blocks + m.local_blocks;
  if (m.n_sel < forced) {
    return Violation{
        "n_sel",
        "found " + std::to_string(m.n_sel) +
            ", wanted at least init_blocks + local_blocks = " + std::to_string(forced)};
  }
  if (m.parameter_count() > kMaxParameters) {
    return Violation{"",
                     "found " + std::to_string(m.parameter_count()) +
                         " parameters, wanted at most " + std::to_string(kMaxParameters)};
  }
  return std::nullopt;
}

std::optional<Violation> violation_of(const TrainingConfig& t) {
  if (auto found = out_of_range(kTrainingFields, t)) return found;
  const bool copies = t.data.source == DataConfig::Source::long_range;
  if (copies != (t.data.distance > 0)) {
    return Violation{
        "data.distance",
        "found " + std::to_string(t.data.distance) + ", wanted " +
            (copies ? "at least 1 with source long_range" : "it with source long_range only")};
  }
  if (t.optimizer.warmup > t.optimizer.total) {
    return Violation{"optimizer.warmup",
                     "found " + std::to_string(t.optimizer.warmup) +
                         ", wanted at most optimizer.total = " + std::to_string(t.optimizer.total)};
  }
  return std::nullopt;
}

std::optional<Violation> violation_of(const ParallelConfig& p) {
  if (auto found = out_of_range(kParallelFields, p)) return found;
  if (p.backend == "nccl" && p.device == Device::cpu) {
    return Violation{"backend", "found nccl with device cpu, wanted gloo or auto, or device cuda"};
  }
  return std::nullopt;
}

namespace {

template <typename Config>
void validate_config(const Config& config, const std::string& name, const Location& where) {
  if (const auto found = violation_of(config)) {
    throw Error(where, (found->key.empty() ? name : name + "." + found->key) + ": " + found->text);
  }
}

}  // namespace

void ModelConfig::validate(const Location& where) const {
  validate_config(*this, "model", where);
}

void TrainingConfig::validate(const Location& where) const {
  validate_config(*this, "training", where);
}

void ParallelConfig::validate(const Location& where) const {
  validate_config(*this, "parallel", where);
}

namespace {

std::int64_t gate_parameters(const ModelConfig& m) {
  if (m.gate == Gate::head_sigmoid) return 3 * m.n_heads * m.dim;
  const std::int64_t hidden = m.gate_width();
  return hidden * m.d_k + hidden + 3 * hidden + 3;
}

// Of phi for keys (width d_k) or values (d_v).
std::int64_t phi_parameters(const ModelConfig& m, std::int64_t width) {
  switch (m.phi) {
    case Phi::avg: return 0;
    case Phi::conv: return width * m.l;
    case Phi::mlp: return m.l * width + 2 * width * m.l * width + 2 * width * width;
  }
  return 0;
}

}  // namespace

std::int64_t ModelConfig::parameter_count() const {
  const std::int64_t q = n_heads * d_k * dim;
  const std::int64_t kv = 3 * n_kv_groups * (d_k + d_v) * dim;  // one pair a branch
  const std::int64_t out = dim * n_heads * d_v;
  const std::int64_t gates = gate_parameters(*this);
  const std::int64_t phis = phi_parameters(*this, d_k) + phi_parameters(*this, d_v);
  const std::int64_t mlp = 2 * mlp_ratio * dim * dim;
  const std::int64_t norms = 2 * dim;
  const std::int64_t tables = (tied_head ? 1 : 2) * vocab_size * dim;
  return n_layers * (q + kv + out + gates + phis + mlp + norms) + tables + dim;
}

std::string ParallelConfig::effective_backend() const {
  if (backend != "auto") return backend;
  return device == Device::cuda ? "nccl" : "gloo";
}

}  // namespace nsa
