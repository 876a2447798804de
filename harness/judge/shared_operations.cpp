#include "harness/judge/shared_operations.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string_view>
#include <vector>

#include "harness/judge/patterns.h"
#include "oracles/attention/stage_table.h"

namespace harness {
namespace {

struct Shared {
  std::set<std::string_view> places;
  bool same_rows = false;  // and of one branch
};

std::set<std::string_view> ops_where(bool (*fits)(const oracles::StageRow&)) {
  std::set<std::string_view> ops;
  for (const oracles::StageRow& row : oracles::kStageTable) {
    if (fits(row)) ops.insert(row.op);
  }
  return ops;
}

const std::vector<Shared>& all_shared() {
  using Row = oracles::StageRow;
  static const std::vector<Shared> kShared = {
      {ops_where([](const Row& row) { return row.op.starts_with("attend_"); })},
      {{"norm1", "norm2", "norm_f"}},
      {ops_where([](const Row& row) { return is_projected(row); }), true},
      {ops_where([](const Row&) { return true; })}};
  return kShared;
}

// Where both say how many rows are wrong.
bool same_rows(const Site& a, const Site& b) {
  const auto rows = [](const Site& site) {
    return site.detail.value("row_count", std::int64_t{0});
  };
  return a.branch == b.branch && rows(a) > 0 && rows(a) == rows(b);
}

// The final norm is in no layer.
bool same_layers(const Site& a, const Site& b) {
  return a.layers.empty() || b.layers.empty() || a.layers == b.layers;
}

bool is_alike(const Finding& a, const Finding& b) {
  return a.code == b.code && a.variant == b.variant && law_of(a.site).empty() &&
         law_of(b.site).empty() && a.site.ranks == b.site.ranks && a.site.step == b.site.step &&
         same_layers(a.site, b.site);
}

}  // namespace

std::vector<std::pair<std::size_t, std::size_t>> wrong_at_all_places(
    const std::vector<const Finding*>& told) {
  std::vector<std::pair<std::size_t, std::size_t>> same;
  for (const Shared& shared : all_shared()) {
    const auto& places = shared.places;
    const auto is_place = [&](const Finding& finding) { return places.count(finding.site.op) > 0; };
    for (std::size_t first = 0; first < told.size(); ++first) {
      if (!is_place(*told[first])) continue;
      std::vector<std::size_t> others;
      std::set<std::string> ops = {told[first]->site.op};
      for (std::size_t at = first + 1; at < told.size(); ++at) {
        if (shared.same_rows && !same_rows(told[first]->site, told[at]->site)) continue;
        const bool alike = std::all_of(others.begin(), others.end(), [&](std::size_t other) {
          return is_alike(*told[other], *told[at]);
        });
        if (!alike || !is_place(*told[at]) || !is_alike(*told[first], *told[at])) continue;
        others.push_back(at);
        ops.insert(told[at]->site.op);
      }
      if (ops.size() < places.size()) continue;
      for (const std::size_t at : others) same.emplace_back(at, first);
      break;
    }
  }
  return same;
}

}  // namespace harness
