// Are a layer's gates alive? They must tell rows apart, move as training goes on, and not give one branch all. Judged from
// what the gates were over all rows of each recorded step.
#include <algorithm>
#include <cmath>
#include <tuple>

#include "harness/checks/departures.h"
#include "harness/checks/list.h"
#include "harness/checks/parameter_names.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

constexpr double kAll = 0.99;   // of the gate's sum: one branch has all
constexpr double kNone = 0.01;  // the others have nothing
// Rows of a collapsed gate differ by no more than this: a gate that still gives single rows to another branch is alive.
constexpr double kSmallSpread = 0.05;
constexpr double kUlps = 4.0;  // what rounding alone tells apart between equal rows

// The distance of numbers near 1 in the precision that the case computes in.
double ulp_of(const std::string& precision) {
  if (precision == "fp64") return 0x1p-52;
  if (precision.find("bf16") != std::string::npos) return 0x1p-7;
  if (precision.find("fp16") != std::string::npos) return 0x1p-10;
  return 0x1p-23;
}

using Uses = std::map<std::int64_t, GateUse>;  // by step

struct Largest {
  std::string branch;
  double mean = 0.0;
  double others = 0.0;  // the larger of them
};

Largest largest_branch(const GateUse& use) {
  std::vector<std::pair<double, std::string>> means = {
      {use.mean_cmp, "cmp"}, {use.mean_sel, "sel"}, {use.mean_win, "win"}};
  std::sort(means.rbegin(), means.rend());
  return {means[0].second, means[0].first, means[1].first};
}

class GateJudge {
 public:
  explicit GateJudge(const Evidence& evidence)
      : evidence_(evidence),
        ulp_(ulp_of(nsa::name_of(evidence.the_case.scenario.training.precision))) {
    for (const auto& row : evidence.gates) {
      if (row.process >= 0) latest_.put({row.process, row.row.layer, row.row.step}, row);
    }
    read_updates();
    for (const auto& [key, row] : latest_.all()) {
      uses_[{std::get<0>(key), std::get<1>(key)}][std::get<2>(key)] = row->row;
    }
  }

  CheckResult judge() {
    if (uses_.empty()) return inconclusive("no row of gates was recorded");
    const int layers = static_cast<int>(evidence_.the_case.scenario.model.n_layers);
    for (const int rank : all_ranks(evidence_)) {
      for (int layer = 0; layer < layers; ++layer) judge_layer(rank, layer);
    }
    tell();
    result_.measured("gate_smallest_spread", smallest_spread_, kUlps * ulp_);
    result_.measured("gate_largest_mean", largest_mean_, kAll);
    return result_.finish("in every layer the gates tell rows apart (smallest spread " +
                          nsa::to_text(smallest_spread_, 2) +
                          "), move between steps, and no branch has all (largest mean " +
                          nsa::to_text(largest_mean_, 3) + ")");
  }

 private:
  void judge_layer(int rank, int layer) {
    const auto at = uses_.find({rank, layer});
    if (at == uses_.end()) {
      result_.missing("gates of layer " + std::to_string(layer) + " on " + process_name(rank) +
                          ended_early(evidence_, rank),
                      site_of_rank(rank));
      return;
    }
    const Uses& uses = at->second;
    if (collapsed(uses, rank, layer)) return;
    if (equal_rows(uses, rank, layer)) return;
    const std::optional<bool> moved = uses.size() < 2 ? weights_moved(rank, layer) : moves(uses);
    if (!moved) {
      result_.missing("a second step, or the update ledger of one: whether the gates of layer " +
                      std::to_string(layer) + " move");
    } else if (!*moved) {
      add("GATE.DEAD", uses.size() < 2 ? "weights" : "steps", whole(rank, layer, uses));
    }
  }

  static bool moves(const Uses& uses) {
    const std::string& hash = uses.begin()->second.hash;
    return std::any_of(
        uses.begin(), uses.end(), [&](const auto& use) { return use.second.hash != hash; });
  }

  // One step shows no gate twice: whether it wants something of the gate's weights stands for that (an update that is wanted
  // and lost is told by optimizer_sound). Nothing where it is not on record.
  [[nodiscard]] std::optional<bool> weights_moved(int rank, int layer) const {
    const auto at = moved_gates_.find({rank, layer});
    return at == moved_gates_.end() ? std::nullopt : std::optional(at->second);
  }

  void read_updates() {
    for (const auto& row : evidence_.updates) {
      if (row.process < 0 || row.row.skipped) continue;
      if (row.row.param.find(".attn.gate.") == std::string::npos) continue;
      bool& moved = moved_gates_[{row.process, layer_of(row.row.param)}];
      moved = moved || row.row.wanted > 0;
    }
  }

  [[nodiscard]] bool has_collapsed(const GateUse& use) const {
    const Largest most = largest_branch(use);
    return evidence_.the_case.scenario.model.gate == nsa::Gate::group_softmax && most.mean > kAll &&
           most.others < kNone && use.spread <= kSmallSpread;
  }

  // Judged by the last step: where training went.
  bool collapsed(const Uses& uses, int rank, int layer) {
    const GateUse& last = uses.rbegin()->second;
    const Largest most = largest_branch(last);
    if (!(most.mean <= largest_mean_)) largest_mean_ = most.mean;
    if (!has_collapsed(last)) return false;
    std::int64_t first = uses.rbegin()->first;
    for (auto use = uses.rbegin(); use != uses.rend() && has_collapsed(use->second); ++use) {
      first = use->first;
    }
    const Place place{rank, layer, first, uses.rbegin()->first};
    add("GATE.COLLAPSED", "branch", place, most.branch);
    return true;
  }

  bool equal_rows(const Uses& uses, int rank, int layer) {
    const nsa::TrainingConfig& training = evidence_.the_case.scenario.training;
    if (training.seq_len * training.batch_size < 2) return false;  // one row tells nothing
    double spread = 0.0;
    double scale = 0.0;
    for (const auto& [step, use] : uses) {
      spread = std::max<double>(spread, use.spread);
      scale = std::max(scale, largest_branch(use).mean);
    }
    smallest_spread_ = std::min(smallest_spread_, spread);
    const bool equal = spread <= kUlps * ulp_ * scale;
    if (equal) add("GATE.DEAD", "rows", whole(rank, layer, uses));
    return equal;
  }

  struct Place {
    int rank = 0;
    int layer = 0;
    std::int64_t first = 0;
    std::int64_t last = 0;
  };
  static Place whole(int rank, int layer, const Uses& uses) {
    return {rank, layer, uses.begin()->first, uses.rbegin()->first};
  }

  void add(const char* code, const char* variant, const Place& at, const std::string& branch = "") {
    Departure seen(code, variant);
    seen.site = site_of_layer(at.rank, at.layer);
    seen.site.branch = branch;
    seen.site.op = "gate";
    seen.facts = {{"first_step", at.first}, {"last_step", at.last}};
    dead_.add(std::move(seen));
  }

  // What holds in one layer from another step on than in the next one holds from the first of them on.
  void tell() {
    for (Finding& finding : dead_.findings()) {
      finding.site.step = finding.facts.at("first_step").get<std::int64_t>();
      if (finding.variant == "weights") finding.facts = {};  // which is of one step
      result_.found(std::move(finding));
    }
  }

  const Evidence& evidence_;
  double ulp_;
  Latest<std::tuple<int, int, std::int64_t>, GateUse> latest_;  // by rank, layer and step
  std::map<std::pair<int, int>, Uses> uses_;                    // by rank and layer
  std::map<std::pair<int, int>, bool> moved_gates_;             // likewise; by the update ledger
  Departures dead_;
  double smallest_spread_ = 1.0;
  double largest_mean_ = 0.0;
  ResultBuilder result_;
};

}  // namespace

Check gate_alive() {
  return {"gate_alive",
          "a layer's gates tell rows apart, move from step to step, and leave no branch without a "
          "share",
          {"GATE.DEAD", "GATE.COLLAPSED"},
          [](const Evidence& evidence) { return GateJudge(evidence).judge(); }};
}

}  // namespace harness::checks
