// Did the implementation run that was asked for? Judged from counters inside the implementations, never from an echo of the
// configuration; where the device's kernels were traced, from their names as well. Absent backwards are told apart (phase
// backward): they follow from a graph that was cut. What an implementation refused is told as its refusal, by its reason. Where
// `auto` was asked for, what it took before the model was made is what must have run.
#include <algorithm>
#include <array>
#include <optional>
#include <tuple>

#include "harness/checks/attention/backend/chosen_route.h"
#include "harness/checks/attention/backend/ran_precision.h"
#include "harness/checks/attention/backend/whole_layer.h"
#include "harness/checks/departures.h"
#include "harness/checks/gradients/reducer_options.h"
#include "harness/checks/list.h"
#include "harness/checks/result.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

struct SeamRule {
  const char* name;
  bool per_layer;
  bool backward;
};

constexpr const char* kWholeLayer = "attention";
// Of kinds beside `training` judged only where something was recorded of it or `auto` took it: older runs of those counted none.
constexpr const char* kOptimizer = "optimizer";
constexpr std::array kSeams = {
    SeamRule{kWholeLayer, true, false},
    SeamRule{"project", true, false},
    SeamRule{"rope", true, false},
    SeamRule{"compress", true, true},
    SeamRule{"score", true, false},
    SeamRule{"select", true, false},
    SeamRule{"attend_cmp", true, true},
    SeamRule{"attend_sel", true, true},
    SeamRule{"attend_win", true, true},
    SeamRule{"gate", true, true},
    SeamRule{"grad_sync", false, false},
    SeamRule{"data", false, false},
    SeamRule{kOptimizer, false, false},
};

// Of the model around the attention. Judged where a route names them: records of older runs have no rows of them.
constexpr SeamRule kNorm = {"norm", true, true};
constexpr SeamRule kMlp = {"mlp", true, true};
// What carries numbers between the ranks. The back end's own counts nothing.
constexpr SeamRule kTransport = {"transport", false, false};

// Asked for by training.cuda_graph, not by the route: each launch counts itself.
constexpr const char* kStepSeam = "step";

// Asked for by parallel.checkpoint, not by the route.
constexpr SeamRule kCheckpoint = {"checkpoint", true, false};

bool is_required(const std::string& seam) {
  return std::any_of(
      kSeams.begin(), kSeams.end(), [&](const SeamRule& rule) { return seam == rule.name; });
}

// Back ends whose kernels the device's trace shows by name: what part of the name tells a forward and a backward pass.
struct KernelsOf {
  std::array<const char*, 2> back_ends;
  std::vector<const char*> seams;
  const char* forward;
  const char* backward;
};
const std::vector<KernelsOf>& traced_kernels() {
  static const std::vector<KernelsOf> list = {
      {{"fa2", "fa2_varlen"}, {"attend_cmp", "attend_win"}, "flash_fwd", "flash_bwd"},
      {{"cuda", "cuda_mma"},
       {"attend_cmp", "attend_win", kWholeLayer},
       "nsa::kernels::attend_forward",
       "nsa::kernels::attend_query_gradient"},
      {{"cuda", "cuda_mma"},
       {"attend_sel"},
       "nsa::kernels::selected_forward",
       "nsa::kernels::selected_backward"}};
  return list;
}

// Of the kernels whose name has `part` in it, the one that ran most: a pass may take several kernels, each once.
std::int64_t most_runs(const Evidence& evidence, const char* part) {
  std::int64_t most = 0;
  for (const auto& row : evidence.kernels) {
    if (row.row.name.find(part) != std::string::npos) most = std::max(most, row.row.runs);
  }
  return most;
}

struct Runs {
  std::map<std::string, std::int64_t> forward;  // by effective name
  std::int64_t backward = 0;
};
using RouteKey = std::tuple<int, std::string, int>;  // rank, seam, layer

class RouteJudge {
 public:
  explicit RouteJudge(const Evidence& evidence) : evidence_(evidence) {
    for (const int rank : all_ranks(evidence)) chosen_.try_emplace(rank, evidence, rank);
    for (const auto& row : evidence.routes) {
      if (row.process < 0) continue;
      Runs& runs = runs_[{row.process, row.row.seam, row.row.layer}];
      if (row.row.forward > 0 || row.row.backward > 0) {
        runs.forward[row.row.effective] += row.row.forward;
      }
      runs.backward += row.row.backward;
      if (is_required(row.row.seam)) seen_.insert(row.process);
    }
  }

  CheckResult judge() {
    if (judge_refusals()) return result_.finish("");
    if (seen_.empty()) return inconclusive("no route row was recorded");
    for (const int rank : all_ranks(evidence_)) judge_rank(rank);
    judge_kernels();
    judge_precision(evidence_, result_);
    judge_reducer_options(evidence_, result_);
    wrong_.tell(result_);
    return result_.finish("every seam ran as requested in all " + std::to_string(layers()) +
                          " layers on " + ranks_text(all_ranks(evidence_)) + text_of_choices() +
                          text_of_graph());
  }

 private:
  // What each `auto` took, and why nothing faster.
  [[nodiscard]] std::string text_of_choices() const {
    std::map<std::string, std::vector<int>> ranks_of;
    for (const auto& [seam, asked] : evidence_.the_case.scenario.route) {
      for (const auto& [rank, chosen] : chosen_) {
        if (asked != kAutomatic) continue;
        const std::string taken = chosen.taken(seam);
        if (!taken.empty()) ranks_of[seam + " auto took " + taken].push_back(rank);
      }
    }
    std::string text;
    for (const auto& [choice, ranks] : ranks_of) {
      text += "; " + choice + (ranks.size() < chosen_.size() ? " on " + ranks_text(ranks) : "");
    }
    return text;
  }

  [[nodiscard]] std::string text_of_graph() const {
    const nsa::TrainingConfig& training = evidence_.the_case.scenario.training;
    if (!training.cuda_graph) return "";
    return "; steps " + std::to_string(nsa::kStepsBeforeGraph + 1) + "-" +
           std::to_string(training.steps) + " were launched as one CUDA graph";
  }

  [[nodiscard]] int layers() const {
    return static_cast<int>(evidence_.the_case.scenario.model.n_layers);
  }

  // True when something was refused: then the rest never had a chance to run.
  bool judge_refusals() {
    Departures refused;
    for (const auto& row : evidence_.refusals) {
      if (row.process < 0) continue;
      Departure seen("ROUTE.REFUSED", "refused");
      seen.site = site_of_rank(row.process);
      if (row.row.layer >= 0) seen.site.layers = {row.row.layer};
      seen.site.op = row.row.seam;
      seen.site.detail["requested"] = row.row.requested;
      seen.site.detail["reason"] = row.row.reason;
      seen.apart_by = row.row.requested + "\n" + row.row.reason;
      refused.add(std::move(seen));
    }
    refused.tell(result_);
    return !refused.empty();
  }

  void judge_kernels() {
    if (!evidence_.the_case.scenario.attention.trace_kernels) return;
    if (evidence_.kernels.empty()) {
      result_.missing("kernels in the trace of the device");
      return;
    }
    for (const KernelsOf& kernels : traced_kernels()) judge_kernels(kernels);
  }

  // They ran where they were asked for, once for each layer and seam at least, and nowhere else.
  void judge_kernels(const KernelsOf& kernels) {
    const Scenario& scenario = evidence_.the_case.scenario;
    std::vector<std::string> asking;  // seams that must have launched some
    bool may_run = false;             // for a seam that need not
    for (const auto& [seam, asked] : chosen_.at(0).route()) {
      const auto& names = kernels.back_ends;
      if (std::find(names.begin(), names.end(), asked) == names.end()) continue;
      may_run = true;
      const auto& seams = kernels.seams;
      if (std::find(seams.begin(), seams.end(), seam) == seams.end()) continue;
      const bool no_keys =
          seam == "attend_cmp" && scenario.model.compressed_len(scenario.training.seq_len) == 0;
      if (!no_keys) asking.push_back(seam);
    }
    const auto wanted = static_cast<std::int64_t>(asking.size()) * layers();
    for (const char* part : {kernels.forward, kernels.backward}) {
      const std::int64_t runs = most_runs(evidence_, part);
      result_.measured(std::string("kernel_runs_") + part, static_cast<double>(runs));
      const bool too_few = runs < wanted;
      const bool unasked = !may_run && runs > 0;
      if (too_few || unasked) result_.found(of_kernels(asking, part, runs, wanted));
    }
  }

  [[nodiscard]] static Finding of_kernels(const std::vector<std::string>& flash,
                                          const std::string& part,
                                          std::int64_t runs,
                                          std::int64_t wanted) {
    Finding finding = make_finding("ROUTE.MISMATCH", wanted == 0 ? "kernels_unasked" : "kernels");
    if (flash.size() == 1) finding.site.op = flash.front();
    finding.site.ranks = {0};
    finding.site.detail["kernel"] = part;
    finding.site.detail["runs"] = runs;
    finding.site.detail["wanted"] = wanted;
    if (!flash.empty()) finding.facts["asked"] = flash;
    return finding;
  }

  void judge_rank(int rank) {
    if (seen_.count(rank) == 0) {
      result_.missing("route rows of " + process_name(rank) + ended_early(evidence_, rank),
                      site_of_rank(rank));
      return;
    }
    const auto& route = chosen_.at(rank).route();
    const bool unknown = requested_of(rank, kWholeLayer) == kAutomatic;
    for (const SeamRule& seam : kSeams) {
      // Whether the layer's seams are called at all follows from what was taken.
      if (unknown && seam.per_layer && seam.name != std::string_view(kWholeLayer)) continue;
      if (seam.per_layer && seam.name != kWholeLayer && computes_whole_layer(route) &&
          !is_called(seam.name)) {
        judge_unused(rank, seam);
        continue;
      }
      if (!seam.per_layer && !is_judged_outside(rank, seam.name)) continue;
      const int first = seam.per_layer ? 0 : -1;
      const int last = seam.per_layer ? layers() - 1 : -1;
      for (int layer = first; layer <= last; ++layer) judge_seam(rank, seam, layer);
    }
    for (const SeamRule& seam : {kNorm, kMlp}) {
      if (!updates() || route.count(seam.name) == 0) continue;
      const bool has_last = seam.name == kNorm.name;  // before the logits
      for (int layer = has_last ? -1 : 0; layer < layers(); ++layer) judge_seam(rank, seam, layer);
    }
    if (evidence_.the_case.scenario.trains() && route.count(kTransport.name) > 0) {
      judge_seam(rank, kTransport, -1);
    }
    judge_checkpoints(rank);
    judge_graph(rank);
  }

  // Every step but the first ones was launched as a graph, where that was asked for.
  void judge_graph(int rank) {
    const nsa::TrainingConfig& training = evidence_.the_case.scenario.training;
    const auto at = runs_.find({rank, kStepSeam, -1});
    const std::int64_t runs = at == runs_.end() ? 0 : total(at->second);
    const std::int64_t wanted = training.cuda_graph ? training.steps - nsa::kStepsBeforeGraph : 0;
    if (training.cuda_graph) result_.measured("graph_launches", static_cast<double>(runs));
    if (runs == wanted) return;
    if (!evidence_.finished(rank)) {
      result_.missing(
          "launches of the graph on " + process_name(rank) + ended_early(evidence_, rank),
          site_of_rank(rank));
      return;
    }
    Finding finding = make_finding("ROUTE.MISMATCH", "graph");
    finding.site.op = kStepSeam;
    finding.site.ranks = {rank};
    finding.site.detail["runs"] = runs;
    finding.site.detail["wanted"] = wanted;
    result_.found(finding);
  }

  // Behind a whole layer the other seams compute the single tokens of decoding; the pooling by an MLP is no kernel's.
  [[nodiscard]] bool is_called(const std::string& seam) const {
    const Scenario& scenario = evidence_.the_case.scenario;
    return scenario.kind == "decode" || (seam == "compress" && scenario.model.phi == nsa::Phi::mlp);
  }

  // Whether the case takes steps of an optimiser.
  [[nodiscard]] bool updates() const {
    const Scenario& scenario = evidence_.the_case.scenario;
    return scenario.trains() || scenario.kind == "sweep" || scenario.kind == "throughput";
  }

  // A seam of no layer.
  [[nodiscard]] bool is_judged_outside(int rank, const std::string& seam) const {
    if (evidence_.the_case.scenario.trains()) return true;
    return seam == kOptimizer && updates() &&
           (runs_.contains({rank, seam, -1}) || chosen_.at(rank).is_automatic(seam));
  }

  // What computes a whole layer calls none of the layer's other seams.
  void judge_unused(int rank, const SeamRule& seam) {
    for (int layer = 0; layer < layers(); ++layer) {
      const auto at = runs_.find({rank, seam.name, layer});
      if (at == runs_.end() || total(at->second) == 0) continue;
      other_ran(rank, kWholeLayer, layer, at->second.forward.begin()->first);
    }
  }

  // Layers that shall be computed again are, and no others.
  void judge_checkpoints(int rank) {
    const std::vector<int>& wanted = evidence_.the_case.scenario.parallel.checkpoint_layers;
    for (int layer = 0; layer < layers(); ++layer) {
      if (std::find(wanted.begin(), wanted.end(), layer) != wanted.end()) {
        judge_seam(rank, kCheckpoint, layer);
      } else if (const auto at = runs_.find({rank, kCheckpoint.name, layer}); at != runs_.end()) {
        other_ran(rank, kCheckpoint.name, layer, at->second.forward.begin()->first);
      }
    }
  }

  // The implementation that shall have run; nothing where any will do.
  [[nodiscard]] std::optional<std::string> requested_of(int rank, const std::string& seam) const {
    if (seam == kCheckpoint.name) return evidence_.the_case.scenario.parallel.checkpoint_mode;
    const auto& route = chosen_.at(rank).route();
    const auto at = route.find(seam);
    if (at == route.end()) return std::nullopt;
    return at->second;
  }

  // As people are told it: "cuda", "auto (it took cuda)".
  [[nodiscard]] std::string asked_text(int rank, const std::string& seam) const {
    const std::string wanted = requested_of(rank, seam).value_or("an implementation");
    return chosen_.at(rank).is_automatic(seam) ? "auto (it took " + wanted + ")" : wanted;
  }

  void judge_seam(int rank, const SeamRule& seam, int layer) {
    const auto at = runs_.find({rank, seam.name, layer});
    const bool ran = at != runs_.end() && total(at->second) > 0;
    const auto requested = requested_of(rank, seam.name);
    if (requested == kAutomatic) {
      result_.missing("what auto took for " + std::string(seam.name) + " on " + process_name(rank),
                      site_of_rank(rank));
      return;
    }
    if (!ran) {
      absent(rank, seam.name, layer, "never");
      return;
    }
    for (const auto& [effective, count] : at->second.forward) {
      if (requested && effective != *requested) {
        other_ran(rank, seam.name, layer, effective);
      }
    }
    if (seam.backward && at->second.backward <= 0 && !is_constant(seam)) {
      absent(rank, seam.name, layer, "no_backward");
    }
  }

  // Decoding has no backward, and a constant gate no graph to come back through.
  [[nodiscard]] bool is_constant(const SeamRule& seam) const {
    const Scenario& scenario = evidence_.the_case.scenario;
    if (scenario.kind == "decode") return true;
    return scenario.attention.gate != "learned" && seam.name == std::string("gate");
  }

  [[nodiscard]] static std::int64_t total(const Runs& runs) {
    std::int64_t sum = 0;
    for (const auto& [name, count] : runs.forward) sum += count;
    return sum;
  }

  // A rank that ended early may just not have reached it.
  void absent(int rank, const std::string& seam, int layer, const char* variant) {
    if (evidence_.finished(rank)) {
      wrong_.add(mismatch(rank, seam, layer, variant));
    } else {
      result_.missing(
          "runs of " + seam + " on " + process_name(rank) + ended_early(evidence_, rank),
          site_of_rank(rank));
    }
  }

  void other_ran(int rank, const std::string& seam, int layer, const std::string& effective) {
    Departure seen = mismatch(rank, seam, layer, "other");
    seen.site.detail["effective"] = effective;
    seen.apart_by += "\n" + effective;
    wrong_.add(std::move(seen));
  }

  [[nodiscard]] Departure mismatch(int rank,
                                   const std::string& seam,
                                   int layer,
                                   const std::string& variant) const {
    Departure seen("ROUTE.MISMATCH", variant);
    seen.site = site_of_rank(rank);
    if (layer >= 0) seen.site.layers = {layer};
    seen.site.op = seam;
    seen.apart_by = asked_text(rank, seam);
    seen.site.detail["requested"] = seen.apart_by;
    if (variant == "no_backward") seen.site.phase = "backward";
    return seen;
  }

  const Evidence& evidence_;
  std::map<int, ChosenRoute> chosen_;  // of each rank
  std::map<RouteKey, Runs> runs_;
  std::set<int> seen_;
  Departures wrong_;
  ResultBuilder result_;
};

}  // namespace

Check ran_route() {
  return {"ran_route",
          "what ran is what was asked for, in every layer, forward and backward",
          {"ROUTE.MISMATCH", "ROUTE.REFUSED"},
          [](const Evidence& evidence) { return RouteJudge(evidence).judge(); },
          kWatchEvents};
}

}  // namespace harness::checks
