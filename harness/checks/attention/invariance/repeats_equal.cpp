// Does a layer give the same again? In one process it was called three times on equal inputs: forward, all bits are the same.
// Then one sequence was computed alone, and as the last of four: there the order of sums may be another one, so numbers are
// compared within the ceiling, and blocks where their scores are the same to the last bit. On a card it was called with late
// streams as well (stream_races.h). Files of call 1 are those that every other check judges.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "harness/checks/attention/invariance/first_departure.h"
#include "harness/checks/attention/invariance/stream_races.h"
#include "harness/checks/attention/record/layer_survey.h"
#include "harness/checks/ceilings.h"
#include "harness/checks/gradients/reducer_races.h"
#include "harness/checks/list.h"
#include "nsa/base/error.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

const Sameness kLastSequence{0.0, true};
const Sameness kBitByBit{0.0, false, true};
constexpr double kSummed = 0x1p-24;  // sums are taken in float32 at least
constexpr std::array kCalls = {kLayer, "attention_layer_2", "attention_layer_3"};

struct Placement {
  const char* artefact;
  const char* name;
};
constexpr std::array kPlacements = {Placement{"attention_layer_alone", "alone"},
                                    Placement{"attention_layer_of_four", "last of four"}};

using Rows = std::set<int>;

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
        result_.missing("layer " + std::to_string(layer) +
                        " cannot be compared: an axis is missing");
      }
    }
    races_.found().tell(result_);
    of_calls_.tell(result_);
    of_places_.tell(result_);
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
    const auto equal = [&](const oracles::StageRow& stage, std::size_t a, std::size_t b) {
      return same_bytes(calls[a].at(name_of(stage)), calls[b].at(name_of(stage)));
    };
    const auto roots = first_departures([&](const oracles::StageRow& stage) -> std::optional<Rows> {
      if (!has_everywhere(calls, stage, layer)) return std::nullopt;
      const nsa::TensorView& plain = calls.front().at(name_of(stage));
      if (!is_integer(plain) && !largest_finite(plain)) {
        result_.missing(
            "a finite number in tensor " + name_of(stage) + " of layer " + std::to_string(layer),
            site_of_layer(0, layer));
        return std::nullopt;
      }
      ++tensors_;
      const std::size_t other = equal(stage, 0, 1) ? 2 : 1;
      const nsa::TensorView& again = calls[other].at(name_of(stage));
      return rows_apart(plain, again, row_axis_of(stage), kBitByBit);
    });
    for (const StageApart& root : roots) {
      const bool chooses = root.stage->op == std::string_view("score") ||
                           root.stage->op == std::string_view("select");
      Departure seen =
          root.departure(chooses ? "DETERMINISM.SELECTION" : "NUMERIC.FORWARD", "calls", layer);
      const bool first = equal(*root.stage, 0, 1);
      const bool last = equal(*root.stage, 1, 2);
      const int odd = last ? 1 : first ? 3 : equal(*root.stage, 0, 2) ? 2 : 0;
      if (odd > 0) seen.site.detail["call"] = odd;
      of_calls_.add(std::move(seen));
    }
    return roots.empty();
  }

  bool has_everywhere(const Files& files, const oracles::StageRow& stage, int layer) {
    const bool all = std::all_of(files.begin(), files.end(), [&](const nsa::SafetensorsFile& file) {
      return file.contains(name_of(stage));
    });
    if (!all) {
      result_.missing("tensor " + name_of(stage) + " of layer " + std::to_string(layer) +
                      " in all calls");
    }
    return all;
  }

  void compare_placed(const nsa::SafetensorsFile& plain,
                      const nsa::SafetensorsFile& placed,
                      const Placement& placement,
                      int layer) {
    if (!rows_apart(plain.at("x"), placed.at("x"), 1, kLastSequence).empty()) {
      result_.missing("the same sequence " + std::string(placement.name) + " in layer " +
                      std::to_string(layer));
      return;
    }
    Rows other_blocks;  // chosen from scores that rounding made others
    const auto roots = first_departures([&](const oracles::StageRow& stage) -> std::optional<Rows> {
      if (!plain.contains(name_of(stage)) || !placed.contains(name_of(stage))) return std::nullopt;
      ++tensors_;
      return without(is_integer(plain.at(name_of(stage)))
                         ? chosen_apart(plain, placed, stage, other_blocks)
                         : apart(plain, placed, stage),
                     other_blocks);
    });
    for (const StageApart& root : roots) {
      Departure seen = root.departure("DETERMINISM.BATCH", "placed", layer);
      seen.site.detail["placed"] = {placement.name};
      of_places_.add(std::move(seen));
    }
  }

  [[nodiscard]] Rows apart(const nsa::SafetensorsFile& plain,
                           const nsa::SafetensorsFile& placed,
                           const oracles::StageRow& stage) const {
    const nsa::TensorView& a = plain.at(name_of(stage));
    const double scale = largest_finite(a).value_or(0.0);
    Sameness same = kLastSequence;
    same.limit = ceiling(terms_, Reals(a).unit_roundoff(), kSummed) * scale;
    return rows_apart(a, placed.at(name_of(stage)), row_axis_of(stage), same);
  }

  // Rows that chose other blocks from the same scores; the others go to `rounded`.
  Rows chosen_apart(const nsa::SafetensorsFile& plain,
                    const nsa::SafetensorsFile& placed,
                    const oracles::StageRow& stage,
                    Rows& rounded) {
    const Rows other = rows_apart(
        plain.at(name_of(stage)), placed.at(name_of(stage)), row_axis_of(stage), kLastSequence);
    rounded = rows_apart(plain.at("p_grp"), placed.at("p_grp"), row_axis_of(stage), kLastSequence);
    std::erase_if(rounded, [&](int row) { return other.count(row) == 0; });
    other_blocks_ += static_cast<std::int64_t>(rounded.size());
    return without(other, rounded);
  }

  const Evidence& evidence_;
  std::int64_t terms_ = 1;
  bool on_card_ = evidence_.the_case.scenario.parallel.device == nsa::Device::cuda;
  ResultBuilder result_;
  StreamRaces races_{evidence_, result_};
  Departures of_calls_;
  Departures of_places_;
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
