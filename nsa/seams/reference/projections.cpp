#include <cmath>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "nsa/seams/reference/masked_attention.h"
#include "nsa/seams/reference/reference.h"

namespace nsa::reference {

// One pair of tables for each dtype, device and set of constants; a longer request replaces the shorter table.
class RopeTable {
 public:
  // Of positions first .. first+length-1.
  Angles at(const ModelConfig& config,
            std::int64_t first,
            std::int64_t length,
            const torch::TensorOptions& options,
            std::int64_t width) {
    const Key key(c10::typeMetaToScalarType(options.dtype()),
                  options.device().str(),
                  config.rope_base,
                  config.rope_scale,
                  width);
    const std::lock_guard<std::mutex> lock(mutex_);
    auto& table = tables_[key];
    if (!table.cos_SD.defined() || table.cos_SD.size(0) < first + length) {
      table = compute(config, first + length, options, width);
    }
    return {table.cos_SD.slice(0, first, first + length),
            table.sin_SD.slice(0, first, first + length)};
  }

 private:
  using Key = std::tuple<torch::ScalarType, std::string, double, double, std::int64_t>;

  // Angle of pair c at position t: (t / rope_scale) * rope_base^(-2c / d_k). Computed in float64: at position
  // 65536 a float32 angle is off by 4e-3.
  static Angles compute(const ModelConfig& config,
                        std::int64_t length,
                        const torch::TensorOptions& options,
                        std::int64_t width) {
    const torch::NoGradGuard no_gradient;
    std::vector<double> frequencies;
    for (std::int64_t c = 0; c < width / 2; ++c) {
      const double exponent = -2.0 * static_cast<double>(c) / static_cast<double>(width);
      frequencies.push_back(std::pow(config.rope_base, exponent));
    }
    const Tensor frequency_D = torch::tensor(frequencies, torch::kDouble);
    const Tensor t_S1 = torch::arange(length, torch::kDouble).unsqueeze(1) / config.rope_scale;
    const Tensor angle_SD = t_S1 * frequency_D;
    return {angle_SD.cos().to(options), angle_SD.sin().to(options)};
  }

  std::mutex mutex_;
  std::map<Key, Angles> tables_;
};

std::shared_ptr<RopeTable> make_rope_table() {
  return std::make_shared<RopeTable>();
}

Angles angles(RopeTable& table,
              const ModelConfig& config,
              std::int64_t length,
              const torch::TensorOptions& options,
              std::int64_t width) {
  return table.at(config, 0, length, options, width);
}

// Rotary position embedding of interleaved pairs.
Tensor rope(const SeamContext& context,
            RopeTable& table,
            const Tensor& x_BHSD,
            std::int64_t first) {
  const Tensor wide_BHSD = wide(x_BHSD);  // cosines in bf16 would be off by 2e-3
  const auto angles =
      table.at(context.config, first, x_BHSD.size(2), wide_BHSD.options(), wide_BHSD.size(-1));
  const Tensor pairs = wide_BHSD.unflatten(-1, {x_BHSD.size(3) / 2, 2});
  const Tensor even = pairs.select(-1, 0);
  const Tensor odd = pairs.select(-1, 1);
  const Tensor rotated_BHSD = torch::stack({even * angles.cos_SD - odd * angles.sin_SD,
                                            even * angles.sin_SD + odd * angles.cos_SD},
                                           -1)
                                  .flatten(-2)
                                  .to(x_BHSD.scalar_type());
  context.routes.ran("rope", context.layer, "reference", rotated_BHSD);
  return rotated_BHSD;
}

Tensor project(const SeamContext& context,
               const Tensor& x_BSE,
               const Tensor& weight,
               Projection /*which*/) {
  const Tensor y_BSE = torch::linear(x_BSE, weight);
  context.routes.ran("project", context.layer, "reference", y_BSE);
  return y_BSE;
}

}  // namespace nsa::reference
