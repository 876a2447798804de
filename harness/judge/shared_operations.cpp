#include "harness/judge/shared_operations.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <span>
#include <string_view>

#include "harness/judge/patterns.h"

namespace harness {
namespace {

constexpr std::array<std::string_view, 3> kAttends = {"attend_cmp", "attend_sel", "attend_win"};
constexpr std::array<std::string_view, 3> kNorms = {"norm1", "norm2", "norm_f"};
constexpr std::array<std::string_view, 2> kProjections = {"project", "rope"};
constexpr std::array<std::string_view, 10> kSeams = {"attend_cmp",
                                                     "attend_sel",
                                                     "attend_win",
                                                     "attention",
                                                     "compress",
                                                     "gate",
                                                     "project",
                                                     "rope",
                                                     "score",
                                                     "select"};

struct Shared {
  std::span<const std::string_view> places;
  bool same_rows = false;  // and of one branch
};
constexpr std::array kShared = {
    Shared{kAttends}, Shared{kNorms}, Shared{kProjections, true}, Shared{kSeams}};

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
  for (const Shared& shared : kShared) {
    const auto& places = shared.places;
    const auto is_place = [&](const Finding& finding) {
      return std::find(places.begin(), places.end(), finding.site.op) != places.end();
    };
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
