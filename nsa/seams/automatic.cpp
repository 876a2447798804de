#include "nsa/seams/automatic.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "nsa/base/error.h"

namespace nsa {
namespace {

constexpr const char* kReference = "reference";
constexpr const char* kWholeLayer = "attention";

// Of one seam, the fastest first, as measured on a card (docs/kernels/training.md); at the end what can do everything.
struct Order {
  const char* seam;
  std::vector<const char*> names;
};

const std::vector<Order>& orders() {
  // `attention` first: what it takes decides whether the seams of the layer are called at all.
  static const std::vector<Order> list = {{kWholeLayer, {"cuda", kReference}},
                                          {"compress", {"cuda", kReference}},
                                          {"score", {"cuda", kReference}},
                                          {"select", {"cuda", kReference}},
                                          {"attend_cmp", {"cuda", "fa2_varlen", kReference}},
                                          {"attend_sel", {"cuda", kReference}},
                                          {"attend_win", {"cuda", "fa2_varlen", kReference}},
                                          {"norm", {"cuda", "fused", kReference}},
                                          {"mlp", {"lean", kReference}},
                                          {"optimizer", {"fused", kReference}}};
  return list;
}

bool is_of_layer(std::string_view seam) {
  constexpr std::array kOutside = {"norm", "mlp", "optimizer", "data", "grad_sync"};
  return seam != kWholeLayer && std::find(kOutside.begin(), kOutside.end(), seam) == kOutside.end();
}

// These run anywhere, and were measured on cards alone.
bool is_measured_on_cards_alone(std::string_view name) {
  return name == "fused" || name == "lean";
}

class Resolver {
 public:
  Resolver(const ModelConfig& config,
           const std::map<std::string, std::string>& route,
           const Surroundings& where)
      : config_(config), where_(where) {
    result_.route = route;
  }

  ResolvedRoute resolve() {
    for (const auto& [seam, name] : result_.route) {
      if (name == kAutomatic && !has_automatic(seam)) {
        throw Error("seam " + seam + " has no implementation '" + name + "'");
      }
    }
    for (const Order& order : orders()) {
      const auto asked = result_.route.find(order.seam);
      if (asked != result_.route.end() && asked->second == kAutomatic) asked->second = take(order);
    }
    return std::move(result_);
  }

 private:
  std::string take(const Order& order) {
    // Never called, but for single tokens behind a prompt.
    if (is_of_layer(order.seam) && is_whole_layer_taken() && !where_.decodes) return kReference;
    for (const char* name : order.names) {
      const std::string missing = name == kReference ? "" : unsuitable(order.seam, name);
      result_.candidates.push_back({order.seam, name, missing});
      if (missing.empty()) return name;
    }
    return kReference;
  }

  [[nodiscard]] std::string unsuitable(const std::string& seam, const std::string& name) const {
    if (where_.autocasts) return "autocast: its operands come in two dtypes";
    if (is_measured_on_cards_alone(name) && !where_.device.is_cuda()) {
      return "device " + where_.device.str() + ": it was measured on cards alone";
    }
    if (seam == kWholeLayer) {
      if (std::string beside = step_asked_for(); !beside.empty()) return beside;
    }
    return unsupported(seam, name, config_, where_);
  }

  // A whole layer calls no other seam: what was asked for by name there would never run.
  [[nodiscard]] std::string step_asked_for() const {
    for (const auto& [seam, name] : result_.route) {
      if (is_of_layer(seam) && name != kReference && name != kAutomatic) {
        return seam + " " + name + ": it calls no other seam";
      }
    }
    return "";
  }

  [[nodiscard]] bool is_whole_layer_taken() const {
    const auto layer = result_.route.find(kWholeLayer);
    return layer != result_.route.end() && layer->second.starts_with("cuda");
  }

  const ModelConfig& config_;
  const Surroundings& where_;
  ResolvedRoute result_;
};

}  // namespace

bool has_automatic(const std::string& seam) {
  const auto& all = orders();
  return std::any_of(
      all.begin(), all.end(), [&](const Order& order) { return seam == order.seam; });
}

ResolvedRoute resolve_route(const ModelConfig& config,
                            const std::map<std::string, std::string>& route,
                            const Surroundings& where) {
  return Resolver(config, route, where).resolve();
}

}  // namespace nsa
