#include "harness/checks/parameter_names.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include "nsa/base/text.h"

namespace harness::checks {
namespace {

constexpr std::string_view kBlocks = "blocks.";

std::vector<std::string> gate_parameters(nsa::Gate gate) {
  if (gate == nsa::Gate::head_sigmoid) return {"attn.gate.proj.weight"};
  return {
      "attn.gate.fc1.weight", "attn.gate.fc1.bias", "attn.gate.fc2.weight", "attn.gate.fc2.bias"};
}

std::vector<std::string> pooling_parameters(nsa::Phi phi) {
  if (phi == nsa::Phi::conv) return {"attn.phi_k_conv.weight", "attn.phi_v_conv.weight"};
  if (phi == nsa::Phi::avg) return {};
  std::vector<std::string> names;
  for (const char* side : {"attn.phi_k", "attn.phi_v"}) {
    for (const char* part : {".pe", ".fc1.weight", ".fc2.weight"}) {
      names.push_back(std::string(side) + part);
    }
  }
  return names;
}

std::vector<std::string> block_parameters(const nsa::ModelConfig& config) {
  std::vector<std::string> names = {"norm1.weight"};
  for (const char* projection :
       {"W_Q", "W_K_sel", "W_V_sel", "W_K_win", "W_V_win", "W_K_cmp", "W_V_cmp", "out"}) {
    names.push_back("attn." + std::string(projection) + ".weight");
  }
  for (auto& more : {gate_parameters(config.gate), pooling_parameters(config.phi)}) {
    names.insert(names.end(), more.begin(), more.end());
  }
  names.insert(names.end(), {"norm2.weight", "mlp.fc1.weight", "mlp.fc2.weight"});
  return names;
}

std::string_view without_layer(std::string_view param) {
  if (param.substr(0, kBlocks.size()) != kBlocks) return param;
  const std::size_t dot = param.find('.', kBlocks.size());
  return dot == std::string_view::npos ? param : param.substr(dot + 1);
}

}  // namespace

std::vector<std::string> parameter_names(const nsa::ModelConfig& config) {
  std::vector<std::string> names = {"embed.weight"};
  const std::vector<std::string> of_block = block_parameters(config);
  for (std::int64_t layer = 0; layer < config.n_layers; ++layer) {
    for (const std::string& name : of_block) {
      names.push_back(std::string(kBlocks) + std::to_string(layer) + "." + name);
    }
  }
  names.emplace_back("norm_f.weight");
  if (!config.tied_head) names.emplace_back("lm_head.weight");
  return names;
}

int layer_of(std::string_view param) {
  if (param.substr(0, kBlocks.size()) != kBlocks) return -1;
  int layer = -1;
  const char* begin = param.data() + kBlocks.size();
  const char* end = param.data() + param.size();
  const auto [stop, error] = std::from_chars(begin, end, layer);
  return error == std::errc() && stop != end && *stop == '.' ? layer : -1;
}

std::string short_name(std::string_view param) {
  constexpr std::string_view kAttention = "attn.";
  constexpr std::string_view kWeight = ".weight";
  std::string_view name = layer_of(param) >= 0 ? without_layer(param) : param;
  if (name.substr(0, kAttention.size()) == kAttention) name.remove_prefix(kAttention.size());
  if (name.size() > kWeight.size() && name.substr(name.size() - kWeight.size()) == kWeight) {
    name.remove_suffix(kWeight.size());
  }
  return std::string(name);
}

std::string branch_of(std::string_view param) {
  const std::string name = short_name(param);
  for (const char* branch : {"cmp", "sel", "win"}) {
    if (name == std::string("W_K_") + branch || name == std::string("W_V_") + branch) return branch;
  }
  return name.rfind("phi_", 0) == 0 ? "cmp" : "";
}

std::string branch_of_seam(std::string_view seam) {
  constexpr std::string_view kAttend = "attend_";
  if (seam == "compress") return "cmp";
  return seam.substr(0, kAttend.size()) == kAttend ? std::string(seam.substr(kAttend.size())) : "";
}

Uninfluential uninfluential(const nsa::ModelConfig& config, std::int64_t seq_len) {
  Uninfluential none;
  const std::int64_t compressed = config.compressed_len(seq_len);
  const bool one_selected = std::min(seq_len, config.n_sel * config.l_sel) <= 1;
  if (one_selected) none.zero.emplace_back("W_K_sel");
  if (std::min(seq_len, config.w) <= 1) none.zero.emplace_back("W_K_win");
  if (compressed <= 1) {
    for (const char* name : {"W_K_cmp", "phi_k_conv", "phi_k.pe", "phi_k.fc1", "phi_k.fc2"}) {
      none.zero.emplace_back(name);
    }
  }
  // Queries act through scores, and where the gate is made of them through the gate.
  const bool gate_reads_queries = config.gate == nsa::Gate::group_softmax;
  if (one_selected && std::min(seq_len, config.w) <= 1 && compressed <= 1 && !gate_reads_queries) {
    none.zero.emplace_back("W_Q");
  }
  if (compressed == 0) {
    for (const char* name : {"W_V_cmp", "phi_v_conv", "phi_v.pe", "phi_v.fc1", "phi_v.fc2"}) {
      none.zero.emplace_back(name);
    }
    for (const std::string& name : none.zero) {
      if (branch_of(name) == "cmp") none.unreachable.push_back(name);
    }
  }
  return none;
}

Site site_of_params(const std::vector<std::string>& params) {
  std::set<int> layers;
  std::set<std::string> branches;
  std::set<std::string> names;
  for (const std::string& param : params) {
    if (layer_of(param) >= 0) layers.insert(layer_of(param));
    branches.insert(branch_of(param));
    names.insert(short_name(param));
  }
  Site site;
  site.layers.assign(layers.begin(), layers.end());
  if (branches.size() == 1) site.branch = *branches.begin();
  if (names.size() == 1) {
    site.param = *names.begin();
  } else {
    site.detail["params"] = std::vector<std::string>(names.begin(), names.end());
  }
  if (params.size() > 1) site.detail["param_count"] = params.size();
  return site;
}

std::string some_of(const std::vector<std::string>& names, std::size_t most) {
  std::vector<std::string> shown(
      names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), most)));
  std::string text = nsa::join(shown);
  if (names.size() > most) text += " and " + std::to_string(names.size() - most) + " more";
  return text;
}

}  // namespace harness::checks
