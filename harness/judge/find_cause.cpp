// Purely by the graph of causes: no code is known here.
#include "harness/judge/find_cause.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "harness/judge/cause_edges.h"
#include "harness/judge/codes/codes.h"
#include "harness/judge/patterns.h"
#include "harness/judge/shared_operations.h"
#include "oracles/attention/stage_table.h"

namespace harness {
namespace {

constexpr int kUnknownPlace = 1000;
// What ended a process is told first, whatever else was found before.
constexpr int kEndsOfProcesses = 50;
// What speaks of no step: up to here it holds from the start, after it is seen at the end.
constexpr int kFromTheStart = 300;

std::int64_t step_of(const Finding& finding, int place) {
  const nlohmann::json* first = finding.site.detail.find("first_step");
  if (place < kEndsOfProcesses) return 0;
  if (first != nullptr && first->is_number()) return first->get<std::int64_t>();
  if (finding.site.step) return *finding.site.step;
  return place < kFromTheStart ? 0 : std::numeric_limits<std::int64_t>::max();
}

int vagueness(const Site& site) {
  return static_cast<int>(site.branch.empty()) + static_cast<int>(site.param.empty()) +
         static_cast<int>(site.op.empty());
}

auto order_of(const Finding& finding) {
  const Code* code = find_code(finding.code);
  const int place = code == nullptr ? kUnknownPlace : code->place;
  return std::tuple(place >= kEndsOfProcesses,
                    step_of(finding, place),
                    place,
                    vagueness(finding.site),
                    finding.code + "/" + finding.variant + " of " + finding.check);
}

// In the order of the forward pass; what is none of these comes after them. Of the input's projections those that are not rotated
// come first.
const std::vector<std::string_view>& ops_in_order() {
  static const std::vector<std::string_view> kOps = [] {
    std::vector<std::string_view> ops = {"embed", "norm1", "project"};
    for (const oracles::StageRow& row : oracles::kStageTable) ops.push_back(row.op);
    for (const char* op : {"residual", "norm2", "mlp", "norm_f", "lm_head"}) ops.push_back(op);
    return ops;
  }();
  return kOps;
}

// Of one check: layer by layer and stage by stage, what is in no layer last. How many numbers are wrong where decides nothing.
auto in_the_model(const Site& site) {
  const auto first = std::min_element(site.layers.begin(), site.layers.end());
  const int layer = first == site.layers.end() ? std::numeric_limits<int>::max() : *first;
  const auto& ops = ops_in_order();
  return std::tuple(layer, std::find(ops.begin(), ops.end(), site.op) - ops.begin());
}

// Of findings that nothing else tells apart.
std::string contents_of(const Finding& finding) {
  return nlohmann::json{finding.site, finding.facts.json()}.dump(
      -1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// The first edge that ties them.
const Edge* edge_between(const Finding& cause, const Finding& effect) {
  for (const Edge& edge : all_edges()) {
    if (fits(edge.cause, cause) && fits(edge.effect, effect) && ties(edge.tie, cause, effect)) {
      return &edge;
    }
  }
  return nullptr;
}

class Graph {
 public:
  explicit Graph(std::vector<Finding>& findings) : findings_(findings) {
    for (std::size_t i = 0; i < findings.size(); ++i) {
      if (findings[i].role == Role::teardown) {
        last_.push_back(i);
      } else {
        told_.push_back(i);
      }
    }
    const auto before = [&](std::size_t a, std::size_t b) {
      return is_told_before(findings_[a], findings_[b]);
    };
    std::stable_sort(told_.begin(), told_.end(), before);
    std::stable_sort(last_.begin(), last_.end(), before);
  }

  void assign() {
    for (const std::size_t effect : told_) find_cause(effect);
    find_shared();
    for (const std::size_t root : told_) {
      if (cause_.count(root) == 0) number(root, Role::initiating);
    }
    for (const std::size_t teardown : last_) findings_[teardown].number = ++numbers_;
  }

 private:
  struct Cause {
    std::size_t finding = 0;
    const char* tie = "";
  };

  // The one that is told first of all that it may follow from.
  void find_cause(std::size_t effect) {
    for (const std::size_t cause : told_) {
      if (cause == effect || follows(cause, effect)) continue;
      const Edge* edge = edge_between(findings_[cause], findings_[effect]);
      if (edge == nullptr) continue;
      // Each could follow from the other: the one that is told first is the cause.
      const bool both = edge_between(findings_[effect], findings_[cause]) != nullptr;
      if (both && is_told_before(findings_[effect], findings_[cause])) continue;
      cause_[effect] = {cause, text_of(edge->tie)};
      return;
    }
  }

  // Of those that follow from nothing.
  void find_shared() {
    std::vector<std::size_t> roots;
    std::vector<const Finding*> told;
    for (const std::size_t root : told_) {
      if (cause_.count(root) > 0) continue;
      roots.push_back(root);
      told.push_back(&findings_[root]);
    }
    for (const auto& [effect, cause] : wrong_at_all_places(told)) {
      cause_[roots[effect]] = {roots[cause], kSharedText};
    }
  }

  [[nodiscard]] bool follows(std::size_t effect, std::size_t cause) const {
    for (auto at = cause_.find(effect); at != cause_.end(); at = cause_.find(effect)) {
      effect = at->second.finding;
      if (effect == cause) return true;
    }
    return false;
  }

  void number(std::size_t at, Role role) {
    Finding& finding = findings_[at];
    finding.role = role;
    finding.number = ++numbers_;
    for (const std::size_t effect : told_) {
      const auto cause = cause_.find(effect);
      if (cause == cause_.end() || cause->second.finding != at) continue;
      findings_[effect].follows = finding.number;
      findings_[effect].tie = cause->second.tie;
      number(effect, Role::cascade);
    }
  }

  std::vector<Finding>& findings_;
  std::vector<std::size_t> told_;  // in the order of telling
  std::vector<std::size_t> last_;
  std::map<std::size_t, Cause> cause_;
  int numbers_ = 0;
};

}  // namespace

bool is_told_before(const Finding& a, const Finding& b) {
  const auto first = order_of(a);
  const auto second = order_of(b);
  if (first != second) return first < second;
  const auto place_a = in_the_model(a.site);
  const auto place_b = in_the_model(b.site);
  return place_a != place_b ? place_a < place_b : contents_of(a) < contents_of(b);
}

void assign_roles(std::vector<Finding>& findings) {
  Graph(findings).assign();
}

}  // namespace harness
