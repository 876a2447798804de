#include "harness/checks/departed.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <span>
#include <string_view>

#include "harness/evidence/evidence.h"
#include "nsa/base/error.h"

namespace harness::checks {
namespace {

template <typename T>
std::vector<std::byte> stored_as(const std::vector<double>& values) {
  const std::vector<T> numbers(values.begin(), values.end());
  const auto bytes = std::as_bytes(std::span(numbers));
  return {bytes.begin(), bytes.end()};
}

// In types of 16 bits nothing is put right.
std::vector<std::byte> stored(const std::vector<double>& values, nsa::DType dtype) {
  if (dtype == nsa::DType::f64) return stored_as<double>(values);
  if (dtype == nsa::DType::f32) return stored_as<float>(values);
  return {};
}

void stand_in_for(const std::string& path,
                  const std::string& tensor,
                  const Right& right,
                  Evidence& evidence) {
  try {
    const nsa::SafetensorsFile file(std::filesystem::path(evidence.folder) / path);
    const nsa::TensorView& view = file.at(tensor);
    auto bytes = stored(right.values, view.dtype);
    if (bytes.size() != view.bytes.size()) return;
    evidence.stand_ins[path][tensor] = {std::move(bytes), right.error};
  } catch (const nsa::Error&) {
    // As it was.
  }
}

// Files that differ in their numbers alone are of one kind: "attention_layer" of "rank_0/step_1/attention_layer_0.safetensors"
std::string kind_of_file(const std::string& path) {
  std::string stem = std::filesystem::path(path).stem().string();
  constexpr std::string_view kNumber = "0123456789_";
  const auto end = stem.find_last_not_of(kNumber);
  if (end != std::string::npos) stem.resize(end + 1);
  return stem.substr(std::min(stem.find_first_not_of(kNumber), stem.size()));
}

// All parameters of a file are written in one loop: "p1.embed.weight" and "p1.norm_f.weight".
std::string kind_of_tensor(const std::string& kind, const std::string& tensor) {
  if (kind.ends_with("_gradients")) return "every gradient";
  return kind == "optimizer_step" ? tensor.substr(0, tensor.find('.')) : tensor;
}

}  // namespace

Right mean_of(const std::vector<std::vector<double>>& parts) {
  Right mean{std::vector<double>(parts.front().size())};
  for (const std::vector<double>& part : parts) {
    for (std::size_t i = 0; i < part.size(); ++i) {
      mean.values[i] += part[i] / static_cast<double>(parts.size());
    }
  }
  return mean;
}

Departed departed_tensor(const std::string& path,
                         const std::string& tensor,
                         std::optional<Right> right) {
  const std::string kind = kind_of_file(path);
  Departed departed{tensor + " in " + path, kind_of_tensor(kind, tensor) + " of " + kind, {}};
  const bool known = right && !right->values.empty() &&
                     std::all_of(right->values.begin(), right->values.end(), [](double value) {
                       return std::isfinite(value);
                     });
  if (!known) return departed;
  departed.put_right = [path, tensor, right = std::move(*right)](Evidence& evidence) {
    stand_in_for(path, tensor, right, evidence);
  };
  return departed;
}

Departed departed_sample(const std::string& metric, int rank, std::int64_t step, double right) {
  return {"the " + metric + " that rank " + std::to_string(rank) + " reports of step " +
              std::to_string(step),
          metric + " of samples",
          [=](Evidence& evidence) {
            for (From<Sample>& from : evidence.samples) {
              const bool same = from.process == rank && from.row.step == step;
              if (same && from.row.metric == metric) from.row.value = right;
            }
          },
          true};
}

double stand_in_error(const Evidence& evidence, const std::string& path) {
  const auto at = evidence.stand_ins.find(path);
  double most = 0.0;
  if (at == evidence.stand_ins.end()) return most;
  for (const auto& [tensor, stand_in] : at->second) most = std::max(most, stand_in.error);
  return most;
}

}  // namespace harness::checks
