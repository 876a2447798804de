#include "harness/checks/process/host_waits.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "harness/checks/result.h"

namespace harness::checks {
namespace {

struct Waits {
  double calls = 0.0;
  double waits = 0.0;

  [[nodiscard]] double a_call() const { return calls > 0.0 ? waits / calls : 0.0; }
};
using Places = std::map<std::pair<std::string, int>, Waits>;  // by seam and layer

// Of one process; a place that is not in it never waited. Nothing where it did not count.
std::optional<Places> waits_of(const Evidence& evidence, int process) {
  std::optional<Places> places;
  for (const auto& row : evidence.facts) {
    if (row.process != process || row.row.name != "host_waits") continue;
    const auto list = nlohmann::json::parse(row.row.value, nullptr, false);
    if (!list.is_array()) continue;
    if (!places) places.emplace();
    for (const auto& one : list) {
      const bool whole = one.is_array() && one.size() == 4 && one[0].is_string() &&
                         one[1].is_number_integer() && one[2].is_number() && one[3].is_number();
      if (!whole) continue;
      Waits& waits = (*places)[{one[0].get<std::string>(), one[1].get<int>()}];
      waits.calls += one[2].get<double>();
      waits.waits += one[3].get<double>();
    }
  }
  return places;
}

struct Storm {
  std::set<int> ranks;
  std::set<int> layers;
  double waits = 0.0;  // of one rank, the one that waited most, beyond the twin's
};

// A wait of one call in two and less is no habit: something was looked up once, or rarely.
constexpr double kHabit = 0.5;

std::map<std::string, Storm> storms_of(const Evidence& evidence, const Places& twin) {
  std::map<std::string, Storm> storms;
  for (const int rank : all_ranks(evidence)) {
    std::map<std::string, double> beyond;
    for (const auto& [place, waits] : waits_of(evidence, rank).value_or(Places{})) {
      const auto there = twin.find(place);
      const double usual = there == twin.end() ? 0.0 : there->second.a_call();
      if (!(waits.a_call() > usual + kHabit)) continue;
      Storm& storm = storms[place.first];
      storm.ranks.insert(rank);
      storm.layers.insert(place.second);
      beyond[place.first] += waits.waits - usual * waits.calls;
    }
    for (const auto& [seam, waits] : beyond) {
      storms[seam].waits = std::max(storms[seam].waits, waits);
    }
  }
  return storms;
}

Finding finding_of(const std::string& seam, const Storm& storm, double steps) {
  Finding finding = make_finding("SLOW.SYNC_STORM", "more_than_twin");
  finding.site.op = seam;
  finding.site.ranks = {storm.ranks.begin(), storm.ranks.end()};
  finding.site.layers = {storm.layers.begin(), storm.layers.end()};
  finding.site.phase = "forward";
  finding.site.detail["host_waits_per_step"] = storm.waits / steps;
  return finding;
}

}  // namespace

std::vector<Finding> host_waits(const Evidence& evidence) {
  const auto twin = waits_of(evidence, kTwin);
  if (!twin) return {};
  const double steps =
      std::max(1.0, static_cast<double>(evidence.the_case.scenario.training.steps));
  std::vector<Finding> findings;
  for (const auto& [seam, storm] : storms_of(evidence, *twin)) {
    findings.push_back(finding_of(seam, storm, steps));
  }
  return findings;
}

}  // namespace harness::checks
