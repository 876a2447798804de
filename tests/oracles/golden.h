// Golden files as the oracle's inputs, and the error measure for tensors.
#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "nsa/base/safetensors.h"
#include "oracles/attention/attention.h"
#include "tests/fakes/where.h"

namespace oracles::testing {

inline Tensor tensor_of(const nsa::TensorView& view) {
  return {view.shape, nsa::to_doubles(view)};
}

inline AttentionConfig config_of(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text);
  AttentionConfig c;
  for (const auto& [name, field] : {std::pair("dim", &c.dim),
                                    std::pair("n_heads", &c.n_heads),
                                    std::pair("n_kv_groups", &c.n_kv_groups),
                                    std::pair("d_k", &c.d_k),
                                    std::pair("d_v", &c.d_v),
                                    std::pair("l", &c.l),
                                    std::pair("d", &c.d),
                                    std::pair("l_sel", &c.l_sel),
                                    std::pair("n_sel", &c.n_sel),
                                    std::pair("w", &c.w),
                                    std::pair("init_blocks", &c.init_blocks),
                                    std::pair("local_blocks", &c.local_blocks)}) {
    json.at(name).get_to(*field);
  }
  json.at("rope_base").get_to(c.rope_base);
  json.at("rope_scale").get_to(c.rope_scale);
  c.gate = json.at("gate") == "group_softmax" ? Gate::group_softmax : Gate::head_sigmoid;
  if (c.gate == Gate::group_softmax) {
    json.at("gate_temp").get_to(c.gate_temp);
    json.at("gate_hidden").get_to(c.gate_hidden);
  }
  c.phi = json.at("phi") == "avg" ? Phi::avg : json.at("phi") == "conv" ? Phi::conv : Phi::mlp;
  c.eq9 = json.at("eq9") == "fractional" ? Eq9::fractional : Eq9::overlap;
  return c;
}

inline std::filesystem::path golden_folder() {
  return std::filesystem::path(fakes::tree()) / "tests" / "golden";
}

// NAME of every file LEVEL_NAME.safetensors there is, in order.
inline std::vector<std::string> golden_names(const std::string& level) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(golden_folder())) {
    const std::string stem = entry.path().stem().string();
    if (entry.path().extension() == ".safetensors" && stem.rfind(level + "_", 0) == 0) {
      names.push_back(stem.substr(level.size() + 1));
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

class GoldenFile {
 public:
  explicit GoldenFile(const std::string& name)
      : file_((golden_folder() / (name + ".safetensors")).string()),
        config(config_of(file_.metadata().at("config"))),
        weights(tensors("w.")) {}

  [[nodiscard]] Tensor tensor(const std::string& key) const { return tensor_of(file_.at(key)); }
  [[nodiscard]] IntTensor integers(const std::string& key) const {
    return {file_.at(key).shape, nsa::to_int64s(file_.at(key))};
  }
  [[nodiscard]] IntTensor blocks() const { return integers("blocks"); }
  // Every tensor whose name begins with the prefix, by the rest of the name.
  [[nodiscard]] Weights tensors(const std::string& prefix) const {
    Weights found;
    for (const auto& [key, view] : file_.tensors()) {
      if (key.rfind(prefix, 0) == 0) {
        found[key.substr(prefix.size())] = tensor_of(view);
      }
    }
    return found;
  }
  [[nodiscard]] const std::string& metadata(const std::string& key) const {
    return file_.metadata().at(key);
  }

 private:
  nsa::SafetensorsFile file_;

 public:
  AttentionConfig config;
  Weights weights;
};

inline double largest_magnitude(const Tensor& tensor) {
  double largest = 0;
  for (const double value : tensor.data) {
    largest = std::max(largest, std::abs(value));
  }
  return largest;
}

// max|X - R| / max(max|R|, 1e-3 * the largest entry of any tensor of its kind). A NaN is infinite,
// a difference of shape too; tensors without elements agree.
inline double relative_error(const Tensor& x, const Tensor& r, double largest_of_kind) {
  if (x.shape != r.shape || x.data.size() != r.data.size()) {
    return std::numeric_limits<double>::infinity();
  }
  double worst = 0;
  for (std::size_t i = 0; i < x.data.size(); ++i) {
    const double difference = std::abs(x.data[i] - r.data[i]);
    if (!(difference <= worst)) {
      worst = std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference;
    }
  }
  const double scale = std::max(largest_magnitude(r), 1e-3 * largest_of_kind);
  return worst == 0 ? 0 : worst / scale;
}

}  // namespace oracles::testing
