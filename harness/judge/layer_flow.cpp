#include "harness/judge/layer_flow.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

namespace harness {
namespace {

struct Flow {
  std::string_view from;
  std::string_view to;
};

// What is made of what, inside a layer.
constexpr std::array kFlows = {Flow{"norm1", "input"},
                               Flow{"input", "rope"},
                               Flow{"input", "rope/cmp"},
                               Flow{"input", "rope/sel"},
                               Flow{"input", "rope/win"},
                               Flow{"input", "project/cmp"},
                               Flow{"input", "project/sel"},
                               Flow{"input", "project/win"},
                               Flow{"rope", "score"},
                               Flow{"rope", "attend_cmp"},
                               Flow{"rope", "attend_sel"},
                               Flow{"rope", "attend_win"},
                               Flow{"rope", "gate"},
                               Flow{"rope/cmp", "compress"},
                               Flow{"project/cmp", "compress"},
                               Flow{"compress", "score"},
                               Flow{"compress", "attend_cmp"},
                               Flow{"score", "select"},
                               Flow{"select", "attend_sel"},
                               Flow{"rope/sel", "attend_sel"},
                               Flow{"project/sel", "attend_sel"},
                               Flow{"rope/win", "attend_win"},
                               Flow{"project/win", "attend_win"},
                               Flow{"attend_cmp", "attention"},
                               Flow{"attend_sel", "attention"},
                               Flow{"attend_win", "attention"},
                               Flow{"gate", "attention"},
                               Flow{"attention", "residual"},
                               Flow{"residual", "norm2"},
                               Flow{"norm2", "mlp"},
                               Flow{"mlp", "residual"}};

// The tensor that a parameter is multiplied into.
struct ParamNode {
  std::string_view param;
  std::string_view node;
};
constexpr std::array kParamNodes = {ParamNode{"W_Q", "rope"},
                                    ParamNode{"W_K_cmp", "rope/cmp"},
                                    ParamNode{"W_K_sel", "rope/sel"},
                                    ParamNode{"W_K_win", "rope/win"},
                                    ParamNode{"W_V_cmp", "project/cmp"},
                                    ParamNode{"W_V_sel", "project/sel"},
                                    ParamNode{"W_V_win", "project/win"},
                                    ParamNode{"out", "attention"},
                                    ParamNode{"norm1", "norm1"},
                                    ParamNode{"norm2", "norm2"}};

bool starts_with(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

FlowNode node_of_param(const std::string& param) {
  for (const ParamNode& known : kParamNodes) {
    if (param == known.param) return FlowNode(known.node);
  }
  if (starts_with(param, "gate")) return "gate";
  if (starts_with(param, "phi")) return "compress";
  return starts_with(param, "mlp") ? "mlp" : "";
}

bool is_node(const FlowNode& node) {
  return std::any_of(kFlows.begin(), kFlows.end(), [&](const Flow& flow) {
    return flow.from == node || flow.to == node;
  });
}

// No gradient passes the choice of blocks.
bool carries(const Flow& flow, Of what) {
  return what == Of::values || (flow.to != "score" && flow.to != "select");
}

}  // namespace

FlowNode node_of(const Site& site) {
  const bool named = site.detail.contains("seam");
  for (const std::string& op :
       {named ? site.detail.value("seam", std::string()) : std::string(), site.op}) {
    if (op.empty()) continue;
    const FlowNode with_branch = op + "/" + site.branch;
    if (is_node(with_branch)) return with_branch;
    if (is_node(op)) return op;
  }
  if (const FlowNode node = node_of_param(site.param); !node.empty()) return node;
  return site.branch.empty() ? "" : "attend_" + site.branch;
}

bool flows(const FlowNode& from, const FlowNode& to, Of what) {
  std::set<FlowNode> reached = {from};
  for (std::size_t before = 0; before != reached.size();) {
    before = reached.size();
    for (const Flow& flow : kFlows) {
      if (carries(flow, what) && reached.count(FlowNode(flow.from)) > 0)
        reached.insert(FlowNode(flow.to));
    }
  }
  return reached.count(to) > 0;
}

}  // namespace harness
