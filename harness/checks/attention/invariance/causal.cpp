// Does anything depend on the future? Two passes of the same layer with the same weights; in the second, the input from
// position p on is another one. Whatever belongs to the prefix must be the same, bit by bit; and since the prefix's output
// does not depend on the rest, no gradient of it reaches the rest: dx is exactly zero from p on.
#include <algorithm>
#include <array>
#include <cmath>

#include "harness/checks/attention/invariance/forward_stages.h"
#include "harness/checks/attention/record/layer_survey.h"
#include "harness/checks/list.h"
#include "nsa/base/error.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

constexpr const char* kPerturbed = "attention_layer_perturbed";

// Rows in which two tensors of one shape differ, as long as keep(row). Zeros of either sign are the same, NaNs too.
template <typename Keep>
std::set<int> changed_rows(const nsa::TensorView& a,
                           const nsa::TensorView& b,
                           int axis,
                           Keep keep) {
  if (a.dtype != b.dtype || a.shape != b.shape) {
    throw nsa::Error(b.where + ": has another dtype or shape than in the first pass");
  }
  std::set<int> rows;
  if (same_bytes(a, b) || a.bytes.empty()) return rows;
  const RowAxis along(a, axis);
  const auto note = [&](std::size_t i) {
    if (const int row = along.row(i); keep(row)) rows.insert(row);
  };
  if (is_integer(a)) {
    const std::vector<std::int64_t> x = nsa::to_int64s(a);
    const std::vector<std::int64_t> y = nsa::to_int64s(b);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (x[i] != y[i]) note(i);
    }
    return rows;
  }
  const Reals x(a);
  const Reals y(b);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const bool same = x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]));
    if (!same) note(i);
  }
  return rows;
}

struct Leak {
  std::set<int> layers;
  std::set<int> rows;
  std::set<int> compressed;
  std::set<std::string> follow;  // tensors that changed because of it
  std::int64_t row_count = 0;
};

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
    for (const auto& [place, leak] : leaks_) result_.found(finding(place, leak));
    if (backward_.row_count > 0) result_.found(backward_finding());
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
      result_.missing("layer " + std::to_string(layer) + " cannot be compared: a shape is wrong");
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
    const auto rows =
        changed_rows(plain.at("x"), perturbed.at("x"), 1, [](std::int64_t) { return true; });
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

  [[nodiscard]] std::set<int> changed(const ForwardStage& stage,
                                      const nsa::TensorView& a,
                                      const nsa::TensorView& b) const {
    if (stage.row_axis >= 0) {
      return changed_rows(a, b, stage.row_axis, [&](std::int64_t row) { return row < first_; });
    }
    const nsa::ModelConfig& model = evidence_.the_case.scenario.model;
    return changed_rows(
        a, b, 2, [&](std::int64_t token) { return token * model.d + model.l <= first_; });
  }

  bool compare_forward(const nsa::SafetensorsFile& plain,
                       const nsa::SafetensorsFile& perturbed,
                       int layer) {
    std::map<std::string, std::size_t>
        root_of;  // of a tensor that changed: the stage it began with
    for (std::size_t i = 0; i < kForwardStages.size(); ++i) {
      const ForwardStage& stage = kForwardStages[i];
      if (!plain.contains(stage.tensor) || !perturbed.contains(stage.tensor)) {
        result_.missing("tensor " + std::string(stage.tensor) + " of layer " +
                        std::to_string(layer) + " in both passes");
        continue;
      }
      ++tensors_;
      const std::set<int> rows = changed(stage, plain.at(stage.tensor), perturbed.at(stage.tensor));
      if (rows.empty()) continue;
      root_of[stage.tensor] = root_of_stage(i, root_of);
      Leak& leak = leaks_[root_of[stage.tensor]];
      if (root_of[stage.tensor] != i) {
        leak.follow.insert(stage.tensor);
        continue;
      }
      leak.layers.insert(layer);
      (stage.row_axis >= 0 ? leak.rows : leak.compressed).insert(rows.begin(), rows.end());
      leak.row_count += static_cast<std::int64_t>(rows.size());
    }
    return !root_of.empty();
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
    backward_.layers.insert(layer);
    backward_.rows.insert(rows.begin(), rows.end());
    backward_.row_count += static_cast<std::int64_t>(rows.size());
  }

  [[nodiscard]] static std::vector<int> most_rows(const std::set<int>& rows) {
    std::vector<int> list = to_ints(rows);
    if (list.size() > kMostRows) list.resize(kMostRows);
    return list;
  }

  [[nodiscard]] Site site_of(const Leak& leak) const {
    Site site;
    site.layers = to_ints(leak.layers);
    site.ranks = {0};
    site.step = step_;
    site.rows = most_rows(leak.rows);
    if (!leak.compressed.empty()) site.detail["compressed_tokens"] = most_rows(leak.compressed);
    site.detail["perturbed_from"] = first_;
    site.detail["row_count"] = leak.row_count;
    return site;
  }

  [[nodiscard]] Finding finding(std::size_t place, const Leak& leak) const {
    const ForwardStage& stage = kForwardStages[place];
    Finding finding = make_finding("CAUSALITY.LEAK", "forward");
    finding.site = site_of(leak);
    finding.site.branch = stage.branch;
    finding.site.op = stage.op;
    finding.site.phase = "forward";
    finding.facts = {{"tensor", stage.tensor}, {"places", places_of(leak)}};
    if (!leak.follow.empty()) {
      finding.facts["follow"] = std::vector<std::string>(leak.follow.begin(), leak.follow.end());
    }
    return finding;
  }

  [[nodiscard]] static std::string places_of(const Leak& leak) {
    return leak.compressed.empty() ? numbers_text("row", to_ints(leak.rows))
                                   : numbers_text("compressed token", to_ints(leak.compressed));
  }

  [[nodiscard]] Finding backward_finding() const {
    Finding finding = make_finding("CAUSALITY.LEAK", "backward");
    finding.site = site_of(backward_);
    finding.site.phase = "backward";
    finding.facts["places"] = places_of(backward_);
    return finding;
  }

  const Evidence& evidence_;
  ResultBuilder result_;
  std::int64_t step_ = 1;
  std::int64_t first_ = 0;
  std::int64_t tensors_ = 0;
  std::int64_t layers_ = 0;
  std::map<std::size_t, Leak> leaks_;  // by place in kForwardStages
  Leak backward_;
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
