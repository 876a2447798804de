// Does a layer give the same again? In one process it was called three times on equal inputs: forward, all bits are the same.
// Then one sequence was computed alone, and as the last of four: there the order of sums may be another one, so numbers are
// compared within the ceiling, and blocks where their scores are the same to the last bit. On a card it was called with late
// streams as well (stream_races.h). Files of call 1 are those that every other check judges.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "harness/checks/attention/invariance/forward_stages.h"
#include "harness/checks/attention/invariance/stream_races.h"
#include "harness/checks/attention/record/layer_survey.h"
#include "harness/checks/ceilings.h"
#include "harness/checks/gradients/reducer_races.h"
#include "harness/checks/list.h"
#include "nsa/base/error.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

constexpr double kSummed = 0x1p-24;  // sums are taken in float32 at least
constexpr std::array kCalls = {kLayer, "attention_layer_2", "attention_layer_3"};

struct Placement {
  const char* artefact;
  const char* name;
};
constexpr std::array kPlacements = {Placement{"attention_layer_alone", "alone"},
                                    Placement{"attention_layer_of_four", "last of four"}};

// The last sequence of a tensor [B, ...]. An element counts from its begin.
class LastSequence {
 public:
  LastSequence(const nsa::TensorView& view, int row_axis)
      : along_(view, row_axis < 0 ? 2 : row_axis) {
    for (std::size_t i = 1; i < view.shape.size(); ++i) {
      size_ *= static_cast<std::size_t>(view.shape[i]);
    }
    begin_ = (static_cast<std::size_t>(view.shape.at(0)) - 1) * size_;
  }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::size_t at(std::size_t element) const { return begin_ + element; }
  [[nodiscard]] int row(std::size_t element) const { return along_.row(element); }

 private:
  RowAxis along_;
  std::size_t size_ = 1;
  std::size_t begin_ = 0;
};

using Rows = std::set<int>;

// Rows of the last sequence whose integers differ.
Rows rows_of_other_integers(const nsa::TensorView& a, const nsa::TensorView& b, int axis) {
  const LastSequence in_a(a, axis);
  const LastSequence in_b(b, axis);
  const std::vector<std::int64_t> x = nsa::to_int64s(a);
  const std::vector<std::int64_t> y = nsa::to_int64s(b);
  Rows rows;
  for (std::size_t i = 0; i < in_a.size(); ++i) {
    if (x[in_a.at(i)] != y[in_b.at(i)]) rows.insert(in_a.row(i));
  }
  return rows;
}

// The same of floating numbers that are further apart than `limit`, a NaN from a number always.
Rows rows_apart(const nsa::TensorView& a, const nsa::TensorView& b, int axis, double limit) {
  const LastSequence in_a(a, axis);
  const LastSequence in_b(b, axis);
  const Reals x(a);
  const Reals y(b);
  Rows rows;
  for (std::size_t i = 0; i < in_a.size(); ++i) {
    const double one = x[in_a.at(i)];
    const double other = y[in_b.at(i)];
    // Equal infinities differ by a NaN.
    const bool same =
        one == other || std::abs(one - other) <= limit || (std::isnan(one) && std::isnan(other));
    if (!same) rows.insert(in_a.row(i));
  }
  return rows;
}

// The largest finite magnitude; nothing if no number is finite.
std::optional<double> largest_finite(const nsa::TensorView& view) {
  const Reals values(view);
  std::optional<double> most;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) most = std::max(most.value_or(0.0), std::abs(values[i]));
  }
  return most;
}

Rows without(const Rows& rows, const Rows& others) {
  Rows kept;
  std::set_difference(
      rows.begin(), rows.end(), others.begin(), others.end(), std::inserter(kept, kept.end()));
  return kept;
}

struct Unequal {  // one stage, on all layers
  std::set<int> layers;
  Rows rows;
  std::set<int> odd_calls;  // the one that differs from the others, 0 where all differ
  std::set<std::string> placed;
};

class RepeatsJudge {
 public:
  explicit RepeatsJudge(const Evidence& evidence)
      : evidence_(evidence),
        terms_(LongestSums(evidence.the_case.scenario.model,
                           evidence.the_case.scenario.training.batch_size,
                           evidence.the_case.scenario.training.seq_len)
                   .y) {}

  CheckResult judge() {
    for (int layer = 0; layer < evidence_.the_case.scenario.model.n_layers; ++layer) {
      try {
        judge_layer(layer);
      } catch (const nsa::Error& error) {
        result_.missing("layer " + std::to_string(layer) + " cannot be compared: " + error.what());
      } catch (const std::out_of_range&) {
        result_.missing("layer " + std::to_string(layer) + " cannot be compared: a shape is wrong");
      }
    }
    for (Finding& finding : races_.findings()) result_.found(std::move(finding));
    for (const auto& [stage, unequal] : of_calls_) result_.found(calls_finding(stage, unequal));
    for (const auto& [stage, unequal] : of_places_) result_.found(place_finding(stage, unequal));
    result_.measured("tensors_compared", static_cast<double>(tensors_));
    result_.measured("rows_with_other_blocks", static_cast<double>(other_blocks_));
    return result_.finish(std::to_string(tensors_) + " tensors of " + counted(layers_, "layer") +
                          " are the same, bit by bit, in three calls; a sequence alone, and as the "
                          "last of four, is the same up to rounding" +
                          (on_card_ ? "; late streams change no bit" : ""));
  }

 private:
  using Files = std::vector<nsa::SafetensorsFile>;

  void judge_layer(int layer) {
    Files calls;
    for (const char* name : kCalls) {
      auto file = open_artefact(evidence_, {0, name, 1, 0, layer}, result_);
      if (file) calls.push_back(std::move(*file));
    }
    if (calls.size() < kCalls.size() || !same_inputs(calls, layer)) return;
    ++layers_;
    if (on_card_ && races_.judge_layer(calls, layer)) return;
    // Where calls differ, a difference between placements tells nothing.
    if (!compare_calls(calls, layer)) return;
    for (const Placement& placement : kPlacements) {
      const auto file = open_artefact(evidence_, {0, placement.artefact, 1, 0, layer}, result_);
      if (file) compare_placed(calls.front(), *file, placement, layer);
    }
  }

  bool same_inputs(const Files& calls, int layer) {
    for (std::size_t call = 1; call < calls.size(); ++call) {
      if (same_bytes(calls.front().at("x"), calls[call].at("x"))) continue;
      result_.missing("the same input in all calls of layer " + std::to_string(layer));
      return false;
    }
    return true;
  }

  // True where all calls are equal.
  bool compare_calls(const Files& calls, int layer) {
    std::map<std::string, std::size_t> root_of;
    for (std::size_t i = 0; i < kForwardStages.size(); ++i) {
      const ForwardStage& stage = kForwardStages[i];
      if (!has_everywhere(calls, stage, layer)) continue;
      const nsa::TensorView& plain = calls.front().at(stage.tensor);
      if (!is_integer(plain) && !largest_finite(plain)) {
        result_.missing("a finite number in tensor " + std::string(stage.tensor) + " of layer " +
                            std::to_string(layer),
                        site_of_layer(0, layer));
        continue;
      }
      ++tensors_;
      const auto equal = [&](std::size_t a, std::size_t b) {
        return same_bytes(calls[a].at(stage.tensor), calls[b].at(stage.tensor));
      };
      const bool first = equal(0, 1);
      const bool last = equal(1, 2);
      if (first && last) continue;
      root_of[stage.tensor] = root_of_stage(i, root_of);
      if (root_of[stage.tensor] != i) continue;
      Unequal& unequal = of_calls_[i];
      unequal.layers.insert(layer);
      unequal.odd_calls.insert(last ? 1 : first ? 3 : equal(0, 2) ? 2 : 0);
      const std::size_t other = first ? 2 : 1;
      const auto& a = calls[0].at(stage.tensor);
      const auto& b = calls[other].at(stage.tensor);
      const Rows rows = is_integer(a) ? rows_of_other_integers(a, b, stage.row_axis)
                                      : rows_apart(a, b, stage.row_axis, 0.0);
      unequal.rows.insert(rows.begin(), rows.end());
    }
    return root_of.empty();
  }

  bool has_everywhere(const Files& files, const ForwardStage& stage, int layer) {
    const bool all = std::all_of(files.begin(), files.end(), [&](const nsa::SafetensorsFile& file) {
      return file.contains(stage.tensor);
    });
    if (!all) {
      result_.missing("tensor " + std::string(stage.tensor) + " of layer " + std::to_string(layer) +
                      " in all calls");
    }
    return all;
  }

  void compare_placed(const nsa::SafetensorsFile& plain,
                      const nsa::SafetensorsFile& placed,
                      const Placement& placement,
                      int layer) {
    if (!rows_apart(plain.at("x"), placed.at("x"), 1, 0.0).empty()) {
      result_.missing("the same sequence " + std::string(placement.name) + " in layer " +
                      std::to_string(layer));
      return;
    }
    std::map<std::string, std::size_t> root_of;
    Rows other_blocks;  // chosen from scores that rounding made others
    for (std::size_t i = 0; i < kForwardStages.size(); ++i) {
      const ForwardStage& stage = kForwardStages[i];
      if (!plain.contains(stage.tensor) || !placed.contains(stage.tensor)) continue;
      ++tensors_;
      const Rows rows = without(is_integer(plain.at(stage.tensor))
                                    ? chosen_apart(plain, placed, stage, other_blocks)
                                    : apart(plain, placed, stage),
                                other_blocks);
      if (rows.empty()) continue;
      root_of[stage.tensor] = root_of_stage(i, root_of);
      if (root_of[stage.tensor] != i) continue;
      Unequal& unequal = of_places_[i];
      unequal.layers.insert(layer);
      unequal.rows.insert(rows.begin(), rows.end());
      unequal.placed.insert(placement.name);
    }
  }

  [[nodiscard]] Rows apart(const nsa::SafetensorsFile& plain,
                           const nsa::SafetensorsFile& placed,
                           const ForwardStage& stage) const {
    const nsa::TensorView& a = plain.at(stage.tensor);
    const double scale = largest_finite(a).value_or(0.0);
    const double limit = ceiling(terms_, Reals(a).unit_roundoff(), kSummed) * scale;
    return rows_apart(a, placed.at(stage.tensor), stage.row_axis, limit);
  }

  // Rows that chose other blocks from the same scores; the others go to `rounded`.
  Rows chosen_apart(const nsa::SafetensorsFile& plain,
                    const nsa::SafetensorsFile& placed,
                    const ForwardStage& stage,
                    Rows& rounded) {
    const Rows other =
        rows_of_other_integers(plain.at(stage.tensor), placed.at(stage.tensor), stage.row_axis);
    rounded = rows_apart(plain.at("p_grp"), placed.at("p_grp"), stage.row_axis, 0.0);
    std::erase_if(rounded, [&](int row) { return other.count(row) == 0; });
    other_blocks_ += static_cast<std::int64_t>(rounded.size());
    return without(other, rounded);
  }

  [[nodiscard]] static Finding finding_at(std::size_t place,
                                          const Unequal& unequal,
                                          const std::string& code,
                                          const std::string& variant) {
    const ForwardStage& stage = kForwardStages[place];
    Finding finding = make_finding(code, variant);
    finding.site.layers = to_ints(unequal.layers);
    finding.site.ranks = {0};
    finding.site.step = 1;
    finding.site.branch = stage.branch;
    finding.site.op = stage.op;
    finding.site.phase = "forward";
    finding.site.rows = to_ints(unequal.rows);
    if (finding.site.rows.size() > kMostRows) finding.site.rows.resize(kMostRows);
    finding.site.detail["row_count"] = unequal.rows.size();
    finding.facts["tensor"] = stage.tensor;
    return finding;
  }

  [[nodiscard]] static Finding calls_finding(std::size_t place, const Unequal& unequal) {
    const std::string op = kForwardStages[place].op;
    const bool chooses = op == "score" || op == "select";
    Finding finding =
        finding_at(place, unequal, chooses ? "DETERMINISM.SELECTION" : "NUMERIC.FORWARD", "calls");
    const int odd = unequal.odd_calls.size() == 1 ? *unequal.odd_calls.begin() : 0;
    if (odd > 0) finding.site.detail["call"] = odd;
    return finding;
  }

  [[nodiscard]] static Finding place_finding(std::size_t place, const Unequal& unequal) {
    Finding finding = finding_at(place, unequal, "DETERMINISM.BATCH", "placed");
    finding.site.detail["placed"] = unequal.placed;
    return finding;
  }

  const Evidence& evidence_;
  std::int64_t terms_ = 1;
  bool on_card_ = evidence_.the_case.scenario.parallel.device == nsa::Device::cuda;
  ResultBuilder result_;
  StreamRaces races_{evidence_, result_};
  std::map<std::size_t, Unequal> of_calls_;  // by place in kForwardStages
  std::map<std::size_t, Unequal> of_places_;
  std::int64_t tensors_ = 0;
  std::int64_t layers_ = 0;
  std::int64_t other_blocks_ = 0;
};

}  // namespace

Check repeats_equal() {
  return {
      "repeats_equal",
      "a layer gives the same again: in three calls bit by bit, on a card with late streams "
      "too, and for a sequence alone and as the last of four up to rounding; in training, so do "
      "the reduced gradients of the last step",
      {"NUMERIC.FORWARD", "DETERMINISM.SELECTION", "DETERMINISM.BATCH", "RACE.STREAM"},
      [](const Evidence& evidence) {
        return evidence.the_case.scenario.trains() ? judge_reducer_races(evidence)
                                                   : RepeatsJudge(evidence).judge();
      }};
}

}  // namespace harness::checks
