// Did the implementation run that was asked for? Judged from counters inside the implementations, never from an echo of the
// configuration; where the device's kernels were traced, from their names as well. Absent backwards are told apart (phase
// backward): they follow from a graph that was cut. What an implementation refused is told as its refusal, by its reason.
#include <algorithm>
#include <array>
#include <optional>
#include <tuple>

#include "harness/checks/attention/ran_precision.h"
#include "harness/checks/attention/whole_layer.h"
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
constexpr std::array kSeams = {
    SeamRule{kWholeLayer, true, false},
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
    SeamRule{"optimizer", false, false},
};

// Of the model around the attention. Judged where a route names them: records of older runs have no rows of them.
constexpr SeamRule kNorm = {"norm", true, true};
constexpr SeamRule kMlp = {"mlp", true, true};

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

enum class Fault { other_ran, never_ran, no_backward };

struct RoutePlace {
  std::string seam;
  Fault fault;
  std::string effective;
  auto operator<=>(const RoutePlace&) const = default;
};
struct LayersAndRanks {
  std::set<int> layers;
  std::set<int> ranks;
};

class RouteJudge {
 public:
  explicit RouteJudge(const Evidence& evidence) : evidence_(evidence) {
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
    for (const auto& [place, where] : wrong_) result_.found(finding(place, where));
    return result_.finish("every seam ran as requested in all " + std::to_string(layers()) +
                          " layers on " + ranks_text(all_ranks(evidence_)));
  }

 private:
  [[nodiscard]] int layers() const {
    return static_cast<int>(evidence_.the_case.scenario.model.n_layers);
  }

  // True when something was refused: then the rest never had a chance to run.
  bool judge_refusals() {
    std::map<std::tuple<std::string, std::string, std::string>, LayersAndRanks> refused;
    for (const auto& row : evidence_.refusals) {
      if (row.process < 0) continue;
      LayersAndRanks& where = refused[{row.row.seam, row.row.requested, row.row.reason}];
      if (row.row.layer >= 0) where.layers.insert(row.row.layer);
      where.ranks.insert(row.process);
    }
    for (const auto& [what, where] : refused) {
      const auto& [seam, requested, reason] = what;
      Finding finding = make_finding("ROUTE.REFUSED", "refused");
      finding.site.op = seam;
      finding.site.layers = to_ints(where.layers);
      finding.site.ranks = to_ints(where.ranks);
      finding.site.detail["requested"] = requested;
      finding.site.detail["reason"] = reason;
      result_.found(finding);
    }
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
    for (const auto& [seam, asked] : scenario.route) {
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
    const auto& route = evidence_.the_case.scenario.route;
    for (const SeamRule& seam : kSeams) {
      if (seam.per_layer && seam.name != kWholeLayer && computes_whole_layer(route)) {
        judge_unused(rank, seam);
        continue;
      }
      if (!seam.per_layer && !evidence_.the_case.scenario.trains()) continue;  // nothing is trained
      const int first = seam.per_layer ? 0 : -1;
      const int last = seam.per_layer ? layers() - 1 : -1;
      for (int layer = first; layer <= last; ++layer) judge_seam(rank, seam, layer);
    }
    for (const SeamRule& seam : {kNorm, kMlp}) {
      if (!evidence_.the_case.scenario.trains() || route.count(seam.name) == 0) continue;
      const bool has_last = seam.name == kNorm.name;  // before the logits
      for (int layer = has_last ? -1 : 0; layer < layers(); ++layer) judge_seam(rank, seam, layer);
    }
    judge_checkpoints(rank);
  }

  // What computes a whole layer calls none of the layer's other seams.
  void judge_unused(int rank, const SeamRule& seam) {
    for (int layer = 0; layer < layers(); ++layer) {
      const auto at = runs_.find({rank, seam.name, layer});
      if (at == runs_.end() || total(at->second) == 0) continue;
      add({kWholeLayer, Fault::other_ran, at->second.forward.begin()->first}, layer, rank);
    }
  }

  // Layers that shall be computed again are, and no others.
  void judge_checkpoints(int rank) {
    const std::vector<int>& wanted = evidence_.the_case.scenario.parallel.checkpoint_layers;
    for (int layer = 0; layer < layers(); ++layer) {
      if (std::find(wanted.begin(), wanted.end(), layer) != wanted.end()) {
        judge_seam(rank, kCheckpoint, layer);
      } else if (const auto at = runs_.find({rank, kCheckpoint.name, layer}); at != runs_.end()) {
        add({kCheckpoint.name, Fault::other_ran, at->second.forward.begin()->first}, layer, rank);
      }
    }
  }

  // The implementation that was asked for; nothing where any will do.
  [[nodiscard]] std::optional<std::string> requested_of(const std::string& seam) const {
    const Scenario& scenario = evidence_.the_case.scenario;
    if (seam == kCheckpoint.name) return scenario.parallel.checkpoint_mode;
    const auto at = scenario.route.find(seam);
    if (at == scenario.route.end()) return std::nullopt;
    return at->second;
  }

  void judge_seam(int rank, const SeamRule& seam, int layer) {
    const auto at = runs_.find({rank, seam.name, layer});
    const bool ran = at != runs_.end() && total(at->second) > 0;
    if (!ran) {
      absent(rank, {seam.name, Fault::never_ran, ""}, layer);
      return;
    }
    const auto requested = requested_of(seam.name);
    for (const auto& [effective, count] : at->second.forward) {
      if (requested && effective != *requested) {
        add({seam.name, Fault::other_ran, effective}, layer, rank);
      }
    }
    if (seam.backward && at->second.backward <= 0 && !is_constant(seam)) {
      absent(rank, {seam.name, Fault::no_backward, ""}, layer);
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

  // What a rank that ended early did not run, it may just not have reached.
  void absent(int rank, const RoutePlace& place, int layer) {
    if (evidence_.finished(rank)) {
      add(place, layer, rank);
    } else {
      result_.missing(
          "runs of " + place.seam + " on " + process_name(rank) + ended_early(evidence_, rank),
          site_of_rank(rank));
    }
  }

  void add(const RoutePlace& place, int layer, int rank) {
    LayersAndRanks& where = wrong_[place];
    if (layer >= 0) where.layers.insert(layer);
    where.ranks.insert(rank);
  }

  [[nodiscard]] Finding finding(const RoutePlace& place, const LayersAndRanks& where) const {
    const std::string wanted = requested_of(place.seam).value_or("an implementation");
    Finding finding = make_finding("ROUTE.MISMATCH", variant_of(place.fault));
    finding.site.op = place.seam;
    finding.site.layers = to_ints(where.layers);
    finding.site.ranks = to_ints(where.ranks);
    finding.site.detail["requested"] = wanted;
    if (place.fault == Fault::other_ran) finding.site.detail["effective"] = place.effective;
    if (place.fault == Fault::no_backward) finding.site.phase = "backward";
    return finding;
  }

  [[nodiscard]] static const char* variant_of(Fault fault) {
    if (fault == Fault::no_backward) return "no_backward";
    return fault == Fault::other_ran ? "other" : "never";
  }

  const Evidence& evidence_;
  std::map<RouteKey, Runs> runs_;
  std::set<int> seen_;
  std::map<RoutePlace, LayersAndRanks> wrong_;
  ResultBuilder result_;
};

}  // namespace

Check ran_route() {
  return {"ran_route",
          "what ran is what was asked for, in every layer, forward and backward",
          {"ROUTE.MISMATCH", "ROUTE.REFUSED"},
          [](const Evidence& evidence) { return RouteJudge(evidence).judge(); }};
}

}  // namespace harness::checks
