#include "harness/checks/attention/invariance/stream_races.h"

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "harness/checks/artefacts.h"
#include "harness/checks/attention/invariance/forward_stages.h"

namespace harness::checks {
namespace {

struct Call {
  const char* artefact;
  const char* late;
};
constexpr Call kLateCalls[] = {{"attention_layer_late", "the current stream was late"},
                               {"attention_layer_others_late", "the other streams were late"}};
constexpr const char* kNobodyLate = "no stream was late";

using File = nsa::SafetensorsFile;

bool differ(const File& a, const File& b, const std::string& tensor) {
  return a.contains(tensor) && b.contains(tensor) && !same_bytes(a.at(tensor), b.at(tensor));
}

// Stages of the forward whose results differ though their inputs do not, as places in kForwardStages.
std::set<std::size_t> forward_roots(const File& a, const File& b) {
  std::map<std::string, std::size_t> root_of;
  std::set<std::size_t> roots;
  for (std::size_t i = 0; i < kForwardStages.size(); ++i) {
    const char* tensor = kForwardStages[i].tensor;
    if (!differ(a, b, tensor)) continue;
    root_of[tensor] = root_of_stage(i, root_of);
    roots.insert(root_of[tensor]);
  }
  return roots;
}

std::set<std::string> other_gradients(const File& a, const File& b) {
  std::set<std::string> names;
  for (const auto& [name, view] : a.tensors()) {
    if ((name == "dx" || name.starts_with("g.")) && differ(a, b, name)) names.insert(name);
  }
  return names;
}

bool same(const File& a, const File& b) {
  return forward_roots(a, b).empty() && other_gradients(a, b).empty();
}

// Of the whole batch. Throws: std::out_of_range where the shapes differ.
std::set<int> other_rows(const nsa::TensorView& a, const nsa::TensorView& b, int row_axis) {
  if (a.bytes.size() != b.bytes.size()) throw std::out_of_range("shape");
  const RowAxis axis(a, row_axis < 0 ? 2 : row_axis);
  const auto size = static_cast<std::size_t>(nsa::dtype_bytes(a.dtype));
  std::set<int> rows;
  for (std::size_t i = 0; i < a.bytes.size() / size; ++i) {
    const auto at = static_cast<std::ptrdiff_t>(i * size);
    const auto end = at + static_cast<std::ptrdiff_t>(size);
    if (!std::equal(a.bytes.begin() + at, a.bytes.begin() + end, b.bytes.begin() + at)) {
      rows.insert(axis.row(i));
    }
  }
  return rows;
}

Finding finding_of(const char* variant,
                   const std::set<int>& layers,
                   const std::set<std::string>& late) {
  Finding finding = make_finding("RACE.STREAM", variant);
  finding.site.layers = to_ints(layers);
  finding.site.ranks = {0};
  finding.site.step = 1;
  finding.site.phase = variant;
  finding.site.detail["late"] = late;
  return finding;
}

}  // namespace

bool StreamRaces::judge_layer(const std::vector<File>& plain, int layer) {
  const auto open = [&](const char* name) {
    return open_artefact(evidence_, {0, name, 1, 0, layer}, result_);
  };
  const auto in_series = open("attention_layer_in_series");
  const auto again = open("attention_layer_in_series_2");
  if (!in_series || !again) return false;
  // Without a second stream beside it, it does not give the same: that is no race.
  if (!same(*in_series, *again)) return false;
  const auto others = std::count_if(
      plain.begin(), plain.end(), [&](const File& call) { return !same(*in_series, call); });
  bool races = false;
  if (others > 1) {
    for (const File& call : plain) races = compare(*in_series, call, kNobodyLate, layer) || races;
  }
  for (const Call& call : kLateCalls) {
    const auto late = open(call.artefact);
    if (late && compare(*in_series, *late, call.late, layer)) races = true;
  }
  return races;
}

bool StreamRaces::compare(const File& in_series,
                          const File& other,
                          const std::string& late,
                          int layer) {
  const std::set<std::size_t> roots = forward_roots(in_series, other);
  for (const std::size_t i : roots) {
    const ForwardStage& stage = kForwardStages[i];
    Raced& raced = forward_[i];
    raced.layers.insert(layer);
    raced.late.insert(late);
    raced.rows.merge(
        other_rows(in_series.at(stage.tensor), other.at(stage.tensor), stage.row_axis));
  }
  if (!roots.empty()) return true;
  std::set<std::string> gradients = other_gradients(in_series, other);
  if (gradients.empty()) return false;
  gradients_.layers.insert(layer);
  gradients_.late.insert(late);
  gradients_.tensors.merge(gradients);
  return true;
}

std::vector<Finding> StreamRaces::findings() const {
  std::vector<Finding> all;
  for (const auto& [i, raced] : forward_) {
    const ForwardStage& stage = kForwardStages[i];
    Finding finding = finding_of("forward", raced.layers, raced.late);
    finding.site.branch = stage.branch;
    finding.site.op = stage.op;
    finding.site.rows = to_ints(raced.rows);
    if (finding.site.rows.size() > kMostRows) finding.site.rows.resize(kMostRows);
    finding.site.detail["row_count"] = raced.rows.size();
    finding.facts["tensor"] = stage.tensor;
    all.push_back(std::move(finding));
  }
  if (!gradients_.layers.empty()) {
    Finding finding = finding_of("backward", gradients_.layers, gradients_.late);
    finding.site.detail["tensors"] = gradients_.tensors;
    all.push_back(std::move(finding));
  }
  return all;
}

}  // namespace harness::checks
