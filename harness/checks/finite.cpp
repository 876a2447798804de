// Is every number finite? If not, where is the earliest one that is not: weights before forward, layers in order, then the
// loss, then backward through the layers, then what follows from the gradients.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>
#include <tuple>

#include "harness/checks/artefacts.h"
#include "harness/checks/list.h"
#include "harness/checks/params.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

struct Stage {
  const char* tensor;
  const char* branch;
  const char* op;
  int row_axis;  // -1: has no query positions
};

// In the order of computation.
constexpr std::array kStages = {
    Stage{"x", "", "", 1},
    Stage{"q", "", "rope", 2},
    Stage{"k_cmp", "cmp", "compress", -1},
    Stage{"v_cmp", "cmp", "compress", -1},
    Stage{"p_grp", "", "score", 2},
    Stage{"o_cmp", "cmp", "attend_cmp", 2},
    Stage{"o_sel", "sel", "attend_sel", 2},
    Stage{"o_win", "win", "attend_win", 2},
    Stage{"gate", "", "gate", 2},
    Stage{"y", "", "", 1},
};

enum class Moment { weights, forward, loss, backward, gradient, after };

// When: step, moment, and a place within it; then the name.
struct Birth {
  std::int64_t step = 0;
  Moment moment = Moment::forward;
  int place = 0;
  int order = 0;
  std::string name;
  auto operator<=>(const Birth&) const = default;
};

struct Sighting {
  Site site;
  std::string what;
  std::int64_t elements = 0;
};

std::vector<int> rows_of(const nsa::TensorView& view,
                         int axis,
                         const std::vector<std::size_t>& elements) {
  if (axis < 0 || static_cast<std::size_t>(axis) >= view.shape.size()) return {};
  std::size_t inner = 1;
  for (std::size_t i = static_cast<std::size_t>(axis) + 1; i < view.shape.size(); ++i) {
    inner *= static_cast<std::size_t>(view.shape[i]);
  }
  const auto length = static_cast<std::size_t>(view.shape[static_cast<std::size_t>(axis)]);
  std::set<int> rows;
  for (const std::size_t element : elements) {
    rows.insert(static_cast<int>(element / inner % length));
  }
  constexpr std::size_t kMost = 64;
  std::vector<int> sorted = to_ints(rows);
  if (sorted.size() > kMost) sorted.resize(kMost);
  return sorted;
}

std::vector<std::size_t> not_finite(const nsa::TensorView& view) {
  const Reals values(view);
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) found.push_back(i);
  }
  return found;
}

class Finiteness {
 public:
  explicit Finiteness(const Evidence& evidence) : evidence_(evidence) {}

  CheckResult judge() {
    judge_samples();
    judge_gradients();
    for (const auto& row : evidence_.artefacts) {
      if (row.process >= 0 && row.row.name == "attention_layer") {
        judge_layer(row.process, row.row);
      }
    }
    if (!births_.empty()) result_.found(origin());
    return result_.finish(std::to_string(samples_) + " samples, " + std::to_string(gradients_) +
                          " gradients and " + std::to_string(tensors_) +
                          " recorded tensors are finite");
  }

 private:
  void judge_samples() {
    std::set<std::pair<int, std::int64_t>> losses;
    for (const auto& row : evidence_.samples) {
      if (row.process < 0) continue;
      ++samples_;
      const bool loss = row.row.metric == "loss";
      if (loss) losses.insert({row.process, row.row.step});
      if (std::isfinite(row.row.value.value)) continue;
      Sighting seen;
      seen.site.op = row.row.metric;
      seen.what = "sample " + row.row.metric + " is " + nsa::to_text(row.row.value.value);
      add({row.row.step, loss ? Moment::loss : Moment::after, 0, 0, row.row.metric},
          row.process,
          seen);
    }
    const std::int64_t steps = evidence_.the_case.scenario.training.steps;
    for (const int rank : all_ranks(evidence_)) {
      for (std::int64_t step = 1; step <= steps; ++step) {
        if (losses.count({rank, step}) > 0) continue;
        result_.missing("the loss of " + process_name(rank) + " in step " + std::to_string(step) +
                        ended_early(evidence_, rank));
      }
    }
  }

  void judge_gradients() {
    for (const auto& row : evidence_.gradients) {
      const Gradient& gradient = row.row;
      if (row.process < 0 || gradient.state == "none" || !gradient.reachable) continue;
      ++gradients_;
      const bool finite = std::isfinite(gradient.l2.value) &&
                          std::isfinite(gradient.absmax.value) && gradient.state != "nan" &&
                          gradient.state != "inf";
      if (finite) continue;
      Sighting seen;
      seen.site = site_of_params({gradient.param});
      seen.what = "the gradient of " + gradient.param + " is not finite (" + gradient.state + ")";
      add({gradient.step, Moment::gradient, gradient.ready_order, gradient.index, gradient.param},
          row.process,
          seen);
    }
    if (gradients_ == 0) result_.missing("gradient rows of any rank");
  }

  void judge_layer(int rank, const Artefact& artefact) {
    const auto file = open_artefact(
        evidence_, {rank, artefact.name, artefact.step, artefact.of_rank, artefact.layer}, result_);
    if (!file) return;
    for (const auto& [name, view] : file->tensors()) {
      if (view.dtype == nsa::DType::i64) continue;
      ++tensors_;
      const std::vector<std::size_t> bad = not_finite(view);
      if (!bad.empty()) add_tensor(rank, artefact, name, view, bad);
    }
  }

  void add_tensor(int rank,
                  const Artefact& artefact,
                  const std::string& name,
                  const nsa::TensorView& view,
                  const std::vector<std::size_t>& bad) {
    Sighting seen;
    seen.site.layers = {artefact.layer};
    seen.elements = static_cast<std::int64_t>(bad.size());
    seen.what = std::to_string(bad.size()) + " of " + std::to_string(Reals(view).size()) +
                " elements of " + name + " in layer " + std::to_string(artefact.layer);
    Birth birth{artefact.step, Moment::forward, artefact.layer, 0, name};
    const auto stage = std::find_if(kStages.begin(), kStages.end(), [&](const Stage& candidate) {
      return name == candidate.tensor;
    });
    if (stage != kStages.end()) {
      birth.order = static_cast<int>(stage - kStages.begin());
      seen.site.branch = stage->branch;
      seen.site.op = stage->op;
      seen.site.rows = rows_of(view, stage->row_axis, bad);
    } else if (name.rfind("w.", 0) == 0) {
      birth.moment = Moment::weights;
      seen.site.param = short_name(name.substr(2));
    } else {
      birth.moment = Moment::backward;
      birth.place = -artefact.layer;  // the last layer comes first
      birth.order = name == "dy" ? 0 : name == "dx" ? 2 : 1;
      if (name.rfind("g.w.", 0) == 0) seen.site.param = short_name(name.substr(4));
      if (name == "dx") seen.site.rows = rows_of(view, 1, bad);
    }
    add(birth, rank, seen);
  }

  void add(const Birth& birth, int rank, const Sighting& seen) { births_[birth][rank] = seen; }

  [[nodiscard]] Finding origin() const {
    const auto& [birth, of_rank] = *births_.begin();
    std::set<int> ranks;
    for (const auto& [rank, seen] : of_rank) ranks.insert(rank);
    const Sighting& seen = of_rank.begin()->second;
    Finding finding;
    finding.code = "NAN.ORIGIN";
    finding.site = seen.site;
    finding.site.ranks = to_ints(ranks);
    finding.site.step = birth.step;
    finding.site.phase = birth.moment == Moment::weights || birth.moment == Moment::after
                             ? "optimizer"
                         : birth.moment <= Moment::loss ? "forward"
                                                        : "backward";
    if (seen.elements > 0) finding.site.detail["elements"] = seen.elements;
    finding.statement = "the first number that is not finite: " + seen.what + ", on " +
                        ranks_text(finding.site.ranks) + " in step " + std::to_string(birth.step);
    if (births_.size() > 1) {
      finding.statement +=
          "; " + std::to_string(births_.size() - 1) + " later places are not finite either";
    }
    finding.ruled_out =
        "not an earlier place among what was recorded: everything before it is finite";
    finding.next_action =
        "look at this operation for rows without any key, memory that was never written, a "
        "division by zero or an overflow";
    return finding;
  }

  const Evidence& evidence_;
  ResultBuilder result_;
  std::map<Birth, std::map<int, Sighting>> births_;
  std::int64_t samples_ = 0;
  std::int64_t gradients_ = 0;
  std::int64_t tensors_ = 0;
};

}  // namespace

Check finite() {
  return {"finite",
          "losses, gradients and recorded tensors are finite; else the earliest place that is not",
          {"NAN.ORIGIN"},
          [](const Evidence& evidence) { return Finiteness(evidence).judge(); }};
}

}  // namespace harness::checks
