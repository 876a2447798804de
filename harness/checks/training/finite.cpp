// Is every number finite? If not, where is the earliest one that is not. Where a rank wrote a birth certificate (the first
// operator with finite inputs and an output that is not), that names it; else the recorded numbers do: weights before forward,
// layers in order, then the loss, then backward through the layers, then what follows from the gradients.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>
#include <tuple>

#include "harness/checks/attention/decode/decode_record.h"
#include "harness/checks/attention/record/layer_survey.h"
#include "harness/checks/digests.h"
#include "harness/checks/list.h"
#include "harness/checks/parameter_names.h"
#include "harness/checks/training/nan_origin.h"
#include "harness/checks/training/overflow.h"
#include "nsa/base/text.h"
#include "oracles/attention/stage_table.h"

namespace harness::checks {
namespace {

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
  std::vector<int> sorted = to_ints(rows);
  if (sorted.size() > kMostRows) sorted.resize(kMostRows);
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
  explicit Finiteness(const Evidence& evidence)
      : evidence_(evidence), overflowed_(overflowed_steps(evidence)) {}

  CheckResult judge() {
    judge_samples();
    if (runs_layers_alone(evidence_)) {
      demand_layers(kLayer);
    } else if (evidence_.the_case.scenario.kind == "decode") {
      demand_layers(kPrefill);
      demand_layers(kSteps);
    } else if (evidence_.the_case.scenario.is_command()) {
      judge_gradients();
      judge_digests();
    } else if (evidence_.the_case.scenario.trains()) {
      demand("loss", "the loss");
      // A sum over all gradients: where it is finite they are.
      if (evidence_.the_case.scenario.observe == kWatchValues) {
        judge_gradients();
      } else {
        demand("grad_norm", "the norm of the gradients");
      }
    } else {
      demand_any_loss();
    }
    for (const auto& row : evidence_.artefacts) {
      const std::string& name = row.row.name;
      const bool is_layer = name == kLayer || name == kPrefill || name == kSteps;
      if (row.process >= 0 && is_layer) judge_layer(row.process, row.row);
    }
    for (const auto& row : evidence_.nan_births) {
      if (row.process < 0) continue;
      const NanBirth& birth = row.row;
      if (birth.direction == "backward" && overflowed_.count(birth.step) > 0) continue;
      certificates_[certificate_of(birth)][row.process] = &birth;
    }
    if (samples_ + gradients_ + tensors_ == 0) result_.missing("any number of any rank");
    if (!certificates_.empty()) {
      result_.found(certified(evidence_, births_, certificates_));
    } else if (!births_.empty()) {
      result_.found(recorded_origin(evidence_, births_));
    }
    return result_.finish(
        std::to_string(samples_) + " samples, " + std::to_string(gradients_) + " gradients and " +
        std::to_string(tensors_) + " recorded tensors are finite" +
        (digests_ == 0 ? ""
                       : ", and all parameters, buffers and reduced gradients in " +
                             counted(digests_, "step") + " of a rank"));
  }

 private:
  void judge_samples() {
    for (const auto& row : evidence_.samples) {
      if (row.process < 0) continue;
      ++samples_;
      const bool loss = row.row.metric == "loss";
      if (std::isfinite(row.row.value.value)) continue;
      if (row.row.metric == "grad_norm" && overflowed_.count(row.row.step) > 0) continue;
      Sighting seen;
      seen.site.op = row.row.metric;
      seen.what = "sample " + row.row.metric + " is " + nsa::to_text(row.row.value.value);
      add({row.row.step, loss ? Moment::loss : Moment::after, 0, 0, row.row.metric},
          row.process,
          seen);
    }
  }

  // Layers that run alone have no loss, nor has decoding: their tensors are all there is.
  void demand_layers(const char* artefact) {
    for (int layer = 0; layer < evidence_.the_case.scenario.model.n_layers; ++layer) {
      static_cast<void>(open_artefact(evidence_, {0, artefact, 1, 0, layer}, result_));
    }
  }

  // Of every rank and step.
  void demand(const char* metric, const std::string& what) {
    std::set<std::pair<int, std::int64_t>> there;
    for (const auto& row : evidence_.samples) {
      if (row.process >= 0 && row.row.metric == metric) there.insert({row.process, row.row.step});
    }
    const std::int64_t steps = evidence_.the_case.scenario.training.steps;
    for (const int rank : all_ranks(evidence_)) {
      for (std::int64_t step = 1; step <= steps; ++step) {
        if (there.count({rank, step}) > 0) continue;
        result_.missing(what + " of " + process_name(rank) + " in step " + std::to_string(step) +
                            ended_early(evidence_, rank),
                        site_of_rank(rank));
      }
    }
  }

  // Kinds that measure train at sizes and for as long as they choose.
  void demand_any_loss() {
    const bool any =
        std::any_of(evidence_.samples.begin(), evidence_.samples.end(), [](const auto& row) {
          return row.process >= 0 && row.row.metric == "loss";
        });
    if (!any) result_.missing("the loss of any step" + ended_early(evidence_, 0));
  }

  void judge_gradients() {
    for (const auto& row : evidence_.gradients) {
      const Gradient& gradient = row.row;
      if (row.process < 0 || gradient.state == "none" || gradient.state == "frozen") continue;
      // A script of the user's own may have it from an earlier step, or from another rank.
      const bool own_model = !evidence_.the_case.scenario.is_command();
      if (own_model && gradient.reachable == Reach::no) continue;
      ++gradients_;
      require_agreement(row.process, gradient);
      if (overflowed_.count(gradient.step) > 0) continue;
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
    if (!disagreeing_.empty()) {
      result_.missing("a state that is the one of its numbers, of " + *disagreeing_.begin());
    }
  }

  // Of all tensors in every step. Gradients that overflow in a step that the optimiser left out are no finding.
  void judge_digests() {
    for (const auto& from : evidence_.stretches) {
      const auto ranks = static_cast<std::int64_t>(from.row.of_ranks.size());
      samples_ += ranks * from.row.steps();  // the losses
      digests_ += ranks * from.row.steps();
    }
    const Digests digests(evidence_);
    for (const auto& [step, of_ranks] : digests.steps()) {
      for (const auto& [rank, digest] : of_ranks) {
        ++digests_;
        for (const auto& [of, moment] : {std::pair{kBufferClass, Moment::forward},
                                         std::pair{kFrozenClass, Moment::forward},
                                         std::pair{kGradientClass, Moment::gradient},
                                         std::pair{kParameterClass, Moment::after},
                                         std::pair{kStateClass, Moment::after}}) {
          if (digest->not_finite.find(of.letter) == std::string::npos) continue;
          if (of.letter == kGradientClass.letter && digest->taken == 0) continue;
          const auto named = digests.not_finite(step, of, rank);
          Sighting seen;
          if (named.size() == 1) seen.site = site_of_params({named.front().first});
          seen.what = std::string(of.in_words) + " are not finite" + text_of(named);
          // Behind the rows of single tensors, which tell more.
          add({step, moment, std::numeric_limits<int>::max(), 0, of.name}, rank, seen);
        }
      }
    }
  }

  // ": 0.weight (nan), 2.bias (inf) and 3 more"
  [[nodiscard]] static std::string text_of(
      const std::vector<std::pair<std::string, std::string>>& named) {
    constexpr std::size_t kMost = 3;
    std::string text;
    for (std::size_t i = 0; i < named.size() && i < kMost; ++i) {
      text += (i == 0 ? ": " : ", ") + named[i].first + " (" + named[i].second + ")";
    }
    if (named.size() > kMost) text += " and " + std::to_string(named.size() - kMost) + " more";
    return text;
  }

  // Whoever asks only for the state must learn what the numbers say.
  void require_agreement(int rank, const Gradient& gradient) {
    const bool told_finite = gradient.state == "ok" || gradient.state == "zero";
    if (!told_finite || gradient.ready_count == 0 || std::isfinite(gradient.absmax.value)) return;
    disagreeing_.insert("the gradient of " + gradient.param + " of " + process_name(rank) +
                        " in step " + std::to_string(gradient.step) + " (told is " +
                        gradient.state + ", the largest number is " +
                        nsa::to_text(gradient.absmax.value) + ")");
  }

  void judge_layer(int rank, const Artefact& artefact) {
    const auto file = open_artefact(
        evidence_, {rank, artefact.name, artefact.step, artefact.of_rank, artefact.layer}, result_);
    if (!file) return;
    for (const auto& [name, view] : file->tensors()) {
      if (view.dtype == nsa::DType::i64 || view.dtype == nsa::DType::i32) continue;
      const bool backward = name == "dx" || name == "dy" || name.starts_with("g.");
      if (backward && overflowed_.count(artefact.step) > 0) continue;
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
    if (name == "x") {
      birth.order = -1;  // before every stage
      seen.site.rows = rows_of(view, 1, bad);
    } else if (const auto stage = oracles::stage_named(name)) {
      const oracles::StageRow& row = oracles::row_of(*stage);
      birth.order = static_cast<int>(*stage);
      seen.site.branch = row.branch;
      seen.site.op = row.op;
      seen.site.rows = rows_of(view, oracles::row_axis_of(row), bad);
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

  const Evidence& evidence_;
  std::set<std::int64_t> overflowed_;
  std::set<std::string> disagreeing_;
  ResultBuilder result_;
  Sightings births_;
  Certificates certificates_;
  std::int64_t samples_ = 0;
  std::int64_t gradients_ = 0;
  std::int64_t tensors_ = 0;
  std::int64_t digests_ = 0;  // steps of ranks
};

}  // namespace

Check finite() {
  return {"finite",
          "losses, gradients and recorded tensors are finite; else the earliest place that is not",
          {"NAN.ORIGIN", "NAN.UNINIT"},
          [](const Evidence& evidence) { return Finiteness(evidence).judge(); },
          kWatchEvents};
}

}  // namespace harness::checks
