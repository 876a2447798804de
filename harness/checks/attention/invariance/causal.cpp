// Does anything depend on the future? Two passes of the same layer with the same weights; in the second, the input from
// position p on is another one. Whatever belongs to the prefix must be the same, bit by bit; and since the prefix's output
// does not depend on the rest, no gradient of it reaches the rest: dx is exactly zero from p on.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "harness/checks/attention/invariance/first_departure.h"
#include "harness/checks/attention/record/layer_survey.h"
#include "harness/checks/list.h"
#include "nsa/base/error.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

constexpr const char* kPerturbed = "attention_layer_perturbed";

class CausalityJudge {
 public:
  explicit CausalityJudge(const Evidence& evidence) : evidence_(evidence) {}

  CheckResult judge() {
    const auto at = std::find_if(
        evidence_.samples.rbegin(), evidence_.samples.rend(), [](const From<Sample>& from) {
          return from.process == 0 && from.row.metric == "perturbed_from";
        });
    const std::int64_t length = evidence_.the_case.scenario.training.seq_len;
    if (at == evidence_.samples.rend()) {
      return inconclusive("no second pass was recorded: sample perturbed_from is missing");
    }
    const double first = at->row.value.value;
    if (!(first >= 1.0 && first < static_cast<double>(length) && first == std::floor(first))) {
      return inconclusive("perturbed_from is " + nsa::to_text(first) +
                          ": there is no prefix to compare");
    }
    step_ = at->row.step;
    first_ = static_cast<std::int64_t>(first);
    for (int layer = 0; layer < evidence_.the_case.scenario.model.n_layers; ++layer) {
      judge_layer(layer);
    }
    for (const Departures* leaks : {&forward_, &backward_}) {
      for (Finding& finding : leaks->findings()) {
        finding.facts["places"] = places_of(finding.site);
        result_.found(std::move(finding));
      }
    }
    result_.measured("tensors_compared", static_cast<double>(tensors_));
    return result_.finish(std::to_string(tensors_) + " tensors of " + counted(layers_, "layer") +
                          " are the same, bit by bit, before position " + std::to_string(first_) +
                          ", whatever comes after; no gradient reaches what comes after");
  }

 private:
  void judge_layer(int layer) {
    const auto plain = open_artefact(evidence_, {0, kLayer, step_, 0, layer}, result_);
    const auto perturbed = open_artefact(evidence_, {0, kPerturbed, step_, 0, layer}, result_);
    if (!plain || !perturbed) return;
    try {
      if (!comparable(*plain, *perturbed, layer)) return;
      ++layers_;
      const bool forward = compare_forward(*plain, *perturbed, layer);
      compare_backward(*perturbed, layer, forward);
    } catch (const nsa::Error& error) {
      result_.missing("layer " + std::to_string(layer) + " cannot be compared: " + error.what());
    } catch (const std::out_of_range&) {
      result_.missing("layer " + std::to_string(layer) + " cannot be compared: an axis is missing");
    }
  }

  // Same weights, same input before p, another one after: else nothing follows from a comparison.
  bool comparable(const nsa::SafetensorsFile& plain,
                  const nsa::SafetensorsFile& perturbed,
                  int layer) {
    const std::string where = " of layer " + std::to_string(layer);
    for (const auto& [name, view] : plain.tensors()) {
      if (name.rfind("w.", 0) != 0) continue;
      if (perturbed.contains(name) && same_bytes(view, perturbed.at(name))) continue;
      result_.missing("the same weights in both passes" + where);
      return false;
    }
    const std::set<int> rows = rows_apart(plain.at("x"), perturbed.at("x"), 1);
    if (!rows.empty() && *rows.begin() < first_) {
      result_.missing("the same input before position " + std::to_string(first_) +
                      " in both passes" + where);
      return false;
    }
    const std::int64_t after = plain.at("x").shape.at(1) - first_;
    if (static_cast<std::int64_t>(rows.size()) != after) {
      result_.missing("another input in every position from " + std::to_string(first_) + " on" +
                      where);
      return false;
    }
    return true;
  }

  // Does the row belong to the prefix alone? A compressed token does with the last of its positions.
  [[nodiscard]] bool is_of_prefix(const oracles::StageRow& stage, std::int64_t row) const {
    const nsa::ModelConfig& model = evidence_.the_case.scenario.model;
    return row_axis_of(stage) >= 0 ? row < first_ : row * model.d + model.l <= first_;
  }

  bool compare_forward(const nsa::SafetensorsFile& plain,
                       const nsa::SafetensorsFile& perturbed,
                       int layer) {
    const auto roots =
        first_departures([&](const oracles::StageRow& stage) -> std::optional<std::set<int>> {
          if (!plain.contains(name_of(stage)) || !perturbed.contains(name_of(stage))) {
            result_.missing("tensor " + name_of(stage) + " of layer " + std::to_string(layer) +
                            " in both passes");
            return std::nullopt;
          }
          ++tensors_;
          Sameness same;
          same.keep = [&](int row) { return is_of_prefix(stage, row); };
          return rows_apart(
              plain.at(name_of(stage)), perturbed.at(name_of(stage)), row_axis_of(stage), same);
        });
    for (const StageApart& root : roots) {
      Departure leak = root.departure("CAUSALITY.LEAK", "forward", layer);
      leak.counts_each_row_once = false;
      leak.site.step = step_;
      leak.site.detail["perturbed_from"] = first_;
      if (row_axis_of(*root.stage) < 0) {
        leak.site.detail["compressed_tokens"] = std::exchange(leak.site.rows, {});
      }
      if (!root.follow.empty()) leak.facts["follow"] = root.follow;
      forward_.add(std::move(leak));
    }
    return !roots.empty();
  }

  // A gradient at positions that the prefix must not see. Where the forward leaks, it follows.
  void compare_backward(const nsa::SafetensorsFile& perturbed, int layer, bool forward) {
    if (!perturbed.contains("dx")) {
      result_.missing("the gradient of the perturbed input of layer " + std::to_string(layer));
      return;
    }
    ++tensors_;
    const nsa::TensorView& view = perturbed.at("dx");
    const RowAxis along(view, 1);
    const Reals dx(view);
    std::set<int> rows;
    for (std::size_t i = 0; i < dx.size(); ++i) {
      if (along.row(i) < first_ || dx[i] == 0.0) continue;
      if (std::isnan(dx[i])) {  // zero times a NaN: no sign of a path
        result_.missing("a finite gradient of the perturbed input of layer " +
                        std::to_string(layer));
        return;
      }
      rows.insert(along.row(i));
    }
    if (rows.empty() || forward) return;
    Departure leak("CAUSALITY.LEAK", "backward");
    leak.site = site_of_layer(0, layer);
    leak.site.step = step_;
    leak.site.phase = "backward";
    leak.site.rows = to_ints(rows);
    leak.site.detail["row_count"] = rows.size();
    leak.site.detail["perturbed_from"] = first_;
    backward_.add(std::move(leak));
  }

  [[nodiscard]] static std::string places_of(const Site& site) {
    const auto tokens = site.detail.value("compressed_tokens", std::vector<int>());
    return tokens.empty() ? numbers_text("row", site.rows)
                          : numbers_text("compressed token", tokens);
  }

  const Evidence& evidence_;
  ResultBuilder result_;
  std::int64_t step_ = 1;
  std::int64_t first_ = 0;
  std::int64_t tensors_ = 0;
  std::int64_t layers_ = 0;
  Departures forward_;
  Departures backward_;
};

}  // namespace

Check causal() {
  return {"causal",
          "what belongs to the positions before p does not change with the input from p on, bit by "
          "bit, and sends no gradient there",
          {"CAUSALITY.LEAK"},
          [](const Evidence& evidence) { return CausalityJudge(evidence).judge(); }};
}

}  // namespace harness::checks
