#include "harness/checks/process/host_waits.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "harness/checks/departures.h"

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

// A wait of one call in two and less is no habit: something was looked up once, or rarely.
constexpr double kHabit = 0.5;

// Of one rank, beyond the twin's: what waits most decides.
void add_storms(const Evidence& evidence, int rank, const Places& twin, Departures& storms) {
  const double steps =
      std::max(1.0, static_cast<double>(evidence.the_case.scenario.training.steps));
  std::map<std::string, double> beyond;
  std::map<std::string, std::vector<int>> layers;
  for (const auto& [place, waits] : waits_of(evidence, rank).value_or(Places{})) {
    const auto there = twin.find(place);
    const double usual = there == twin.end() ? 0.0 : there->second.a_call();
    if (!(waits.a_call() > usual + kHabit)) continue;
    layers[place.first].push_back(place.second);
    beyond[place.first] += waits.waits - usual * waits.calls;
  }
  for (const auto& [seam, waits] : beyond) {
    Departure storm("SLOW.SYNC_STORM", "more_than_twin");
    storm.site = site_of_rank(rank);
    storm.site.layers = layers.at(seam);
    storm.site.op = seam;
    storm.site.phase = "forward";
    storm.site.detail["host_waits_per_step"] = waits / steps;
    storm.error = waits;
    storms.add(std::move(storm));
  }
}

}  // namespace

std::vector<Finding> host_waits(const Evidence& evidence) {
  const auto twin = waits_of(evidence, kTwin);
  if (!twin) return {};
  Departures storms;
  for (const int rank : all_ranks(evidence)) add_storms(evidence, rank, *twin, storms);
  return storms.findings();
}

}  // namespace harness::checks
