#include "harness/checks/attention/invariance/stream_races.h"

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "harness/checks/artefacts.h"
#include "harness/checks/attention/invariance/first_departure.h"

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

std::vector<StageApart> stages_apart(const File& a, const File& b) {
  return first_departures([&](const oracles::StageRow& stage) -> std::optional<std::set<int>> {
    if (!differ(a, b, name_of(stage))) return std::nullopt;
    Sameness same;
    same.bit_by_bit = true;
    return rows_apart(a.at(name_of(stage)), b.at(name_of(stage)), row_axis_of(stage), same);
  });
}

std::set<std::string> other_gradients(const File& a, const File& b) {
  std::set<std::string> names;
  for (const auto& [name, view] : a.tensors()) {
    if ((name == "dx" || name.starts_with("g.")) && differ(a, b, name)) names.insert(name);
  }
  return names;
}

bool same(const File& a, const File& b) {
  return stages_apart(a, b).empty() && other_gradients(a, b).empty();
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
  const std::vector<StageApart> roots = stages_apart(in_series, other);
  for (const StageApart& root : roots) {
    Departure raced = root.departure("RACE.STREAM", "forward", layer);
    raced.site.detail["late"] = {late};
    found_.add(std::move(raced));
  }
  if (!roots.empty()) return true;
  const std::set<std::string> gradients = other_gradients(in_series, other);
  if (gradients.empty()) return false;
  Departure raced("RACE.STREAM", "backward");
  raced.site = site_of_layer(0, layer);
  raced.site.step = 1;
  raced.site.phase = "backward";
  raced.site.detail["late"] = {late};
  raced.site.detail["tensors"] = gradients;
  found_.add(std::move(raced));
  return true;
}

}  // namespace harness::checks
