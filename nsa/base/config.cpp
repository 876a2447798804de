// The laws of a configuration (validate) and what follows from it. Reading is in config_read.cpp.
#include "nsa/base/config.h"

#include "nsa/base/config_laws.h"
#include "nsa/base/text.h"

namespace nsa {
namespace {

// Upper bounds far above every model that exists; their products stay below 2^63.
constexpr std::int64_t kMaxWidth = 1 << 16;
constexpr std::int64_t kMaxHeads = 1 << 10;
constexpr std::int64_t kMaxLayers = 1 << 10;
constexpr std::int64_t kMaxLength = 1 << 24;
constexpr std::int64_t kMaxVocabulary = 1 << 20;
constexpr std::int64_t kMaxParameters = std::int64_t{1} << 37;
constexpr std::int64_t kMaxSteps = 1 << 30;
constexpr std::int64_t kMaxBatch = 1 << 16;
constexpr std::int64_t kMaxRanks = 256;  // one host
constexpr double kMaxBucketMb = 4096.0;
constexpr double kHuge = 1e12;

std::optional<Violation> in_range(const std::string& key,
                                  std::int64_t value,
                                  std::int64_t low,
                                  std::int64_t high) {
  if (value >= low && value <= high) return std::nullopt;
  return Violation{key,
                   "found " + std::to_string(value) + ", wanted " + std::to_string(low) + ".." +
                       std::to_string(high)};
}

// !(a <= x) refuses NaN as well.
std::optional<Violation> in_range(
    const std::string& key, double value, double low, double high, bool low_allowed) {
  const bool above = low_allowed ? value >= low : value > low;
  if (above && value <= high) return std::nullopt;
  return Violation{key,
                   "found " + to_text(value) + ", wanted a number " +
                       (low_allowed ? "from " : "above ") + to_text(low) + " to " + to_text(high)};
}

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

std::optional<Violation> size_violation(const ModelConfig& m) {
  return first_of(in_range("dim", m.dim, 1, kMaxWidth),
                  in_range("n_layers", m.n_layers, 1, kMaxLayers),
                  in_range("n_heads", m.n_heads, 1, kMaxHeads),
                  in_range("n_kv_groups", m.n_kv_groups, 1, kMaxHeads),
                  in_range("d_k", m.d_k, 2, kMaxHeads),
                  in_range("d_v", m.d_v, 1, kMaxHeads),
                  in_range("l", m.l, 1, kMaxWidth),
                  in_range("d", m.d, 1, kMaxWidth),
                  in_range("l_sel", m.l_sel, 1, kMaxWidth),
                  in_range("n_sel", m.n_sel, 1, kMaxWidth),
                  in_range("w", m.w, 1, kMaxLength),
                  in_range("init_blocks", m.init_blocks, 0, kMaxWidth),
                  in_range("local_blocks", m.local_blocks, 1, kMaxWidth),
                  in_range("vocab_size", m.vocab_size, 2, kMaxVocabulary),
                  in_range("mlp_ratio", m.mlp_ratio, 1, 64),
                  in_range("gate_hidden", m.gate_hidden, 0, kMaxWidth),
                  in_range("rope_base", m.rope_base, 1.0, kHuge, false),
                  in_range("rope_scale", m.rope_scale, 0.0, kHuge, false),
                  in_range("gate_temp", m.gate_temp, 0.0, kHuge, false));
}

}  // namespace

std::optional<Violation> violation_of(const ModelConfig& m) {
  if (auto found = size_violation(m)) return found;
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
  const OptimizerConfig& o = t.optimizer;
  return first_of(
      in_range("steps", t.steps, 1, kMaxSteps),
      in_range("batch_size", t.batch_size, 1, kMaxBatch),
      in_range("seq_len", t.seq_len, 1, kMaxLength),
      in_range("accumulate", t.accumulate, 1, kMaxBatch),
      in_range("optimizer.lr", o.lr, 0.0, kHuge, true),
      in_range("optimizer.beta1", o.beta1, 0.0, 1.0, true),
      in_range("optimizer.beta2", o.beta2, 0.0, 1.0, true),
      in_range("optimizer.eps", o.eps, 0.0, kHuge, true),
      in_range("optimizer.weight_decay", o.weight_decay, 0.0, kHuge, true),
      in_range("optimizer.max_norm", o.max_norm, 0.0, kHuge, false),
      in_range("optimizer.warmup", o.warmup, 0, kMaxSteps),
      in_range("optimizer.total", o.total, 1, kMaxSteps),
      o.warmup > o.total
          ? Violation{"optimizer.warmup",
                      "found " + std::to_string(o.warmup) +
                          ", wanted at most optimizer.total = " + std::to_string(o.total)}
          : std::optional<Violation>());
}

std::optional<Violation> violation_of(const ParallelConfig& p) {
  auto found = first_of(in_range("ranks", p.ranks, 1, kMaxRanks),
                        in_range("ddp.bucket_mb", p.bucket_mb, 0.0, kMaxBucketMb, false));
  if (!found && p.backend == "nccl" && p.device == Device::cpu) {
    return Violation{"backend", "found nccl with device cpu, wanted gloo or auto, or device cuda"};
  }
  return found;
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
  return n_layers * (q + kv + out + gates + phis + mlp + norms) + 2 * vocab_size * dim + dim;
}

std::string ParallelConfig::effective_backend() const {
  if (backend != "auto") return backend;
  return device == Device::cuda ? "nccl" : "gloo";
}

const char* name_of(Gate value) {
  return value == Gate::group_softmax ? "group_softmax" : "head_sigmoid";
}

const char* name_of(Phi value) {
  switch (value) {
    case Phi::avg: return "avg";
    case Phi::conv: return "conv";
    case Phi::mlp: return "mlp";
  }
  return "";
}

const char* name_of(Eq9 value) {
  return value == Eq9::fractional ? "fractional" : "overlap";
}
const char* name_of(Precision value) {
  switch (value) {
    case Precision::fp64: return "fp64";
    case Precision::fp32: return "fp32";
    case Precision::bf16: return "bf16";
    case Precision::fp16: return "fp16";
    case Precision::bf16_pure: return "bf16_pure";
    case Precision::fp16_pure: return "fp16_pure";
    case Precision::bf16_autocast: return "bf16_autocast";
  }
  return "";
}
const char* name_of(Device value) {
  return value == Device::cpu ? "cpu" : "cuda";
}

const char* name_of(DataConfig::Source value) {
  switch (value) {
    case DataConfig::Source::text: return "text";
    case DataConfig::Source::uniform: return "uniform";
    case DataConfig::Source::long_range: return "long_range";
  }
  return "";
}

}  // namespace nsa
