#include "harness/judge/layer_flow.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "oracles/attention/stage_table.h"

namespace harness {
namespace {

struct Flow {
  FlowNode from;
  FlowNode to;
};

// Keys and values of a branch are nodes of their own.
FlowNode node_of_stage(const oracles::StageRow& row) {
  const bool of_branch = is_projected(row) && !row.branch.empty();
  return FlowNode(row.op) + (of_branch ? "/" + std::string(row.branch) : "");
}

// Which values a node of a layer is made of.
const std::vector<Flow>& all_flows() {
  static const std::vector<Flow> kFlows = [] {
    std::vector<Flow> flows = {{"norm1", "input"},
                               {"attention", "residual"},
                               {"residual", "norm2"},
                               {"norm2", "mlp"},
                               {"mlp", "residual"}};
    for (const oracles::StageRow& row : oracles::kStageTable) {
      if (row.of_x) flows.push_back({"input", node_of_stage(row)});
      for (const oracles::StageRow& input : oracles::kStageTable) {
        if (!row.made_of.holds(input.stage)) continue;
        flows.push_back({node_of_stage(input), node_of_stage(row)});
      }
    }
    return flows;
  }();
  return kFlows;
}

// The node that a parameter is multiplied into, by its short name.
FlowNode node_of_param(const std::string& param) {
  for (const oracles::StageRow& row : oracles::kStageTable) {
    if (!row.weights.empty() && param.starts_with(row.weights)) return node_of_stage(row);
  }
  if (param == "norm1" || param == "norm2") return param;
  return param.starts_with("mlp") ? "mlp" : "";
}

bool is_node(const FlowNode& node) {
  return std::any_of(all_flows().begin(), all_flows().end(), [&](const Flow& flow) {
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
    for (const Flow& flow : all_flows()) {
      if (carries(flow, what) && reached.count(flow.from) > 0) {
        reached.insert(flow.to);
      }
    }
  }
  return reached.count(to) > 0;
}

}  // namespace harness
