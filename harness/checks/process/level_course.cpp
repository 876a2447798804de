#include "harness/checks/process/level_course.h"

#include "harness/checks/result.h"
#include "harness/checks/series.h"
#include "nsa/base/hash.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

constexpr int kAllDigits = 17;  // of a double

// A worker says that it is done; a process that is stopped afterwards did all it was asked.
bool ended_whole(const Evidence& evidence, int rank) {
  const Exited* exited = evidence.exit_of(rank);
  return evidence.finished(rank) && exited != nullptr && exited->exit_code == 0;
}

std::optional<std::string> end_of(const Evidence& evidence, bool all_well) {
  if (all_well) return "well";
  const From<Stopped>* first = nullptr;
  for (const auto& row : evidence.stopped) {
    if (first == nullptr || row.t_ms < first->t_ms) first = &row;
  }
  if (first == nullptr || first->row.reason == "peer_ended") return "failed";
  if (first->row.reason == "interrupted") return std::nullopt;
  return first->row.reason;
}

std::vector<std::string> losses_of(const Evidence& evidence) {
  std::vector<std::string> losses;
  const Series series = series_of(evidence, "loss");
  for (const auto& [place, row] : series.all()) {
    losses.push_back(std::to_string(place.first) + " " + std::to_string(place.second) + " " +
                     nsa::to_text(row->row.value.value, kAllDigits));
  }
  return losses;
}

// Of each rank one hash over those of all parameters.
std::vector<std::string> states_of(const Evidence& evidence) {
  const std::int64_t last = evidence.the_case.scenario.training.steps;
  std::map<int, Latest<std::string, ParameterHash>> hashes;
  for (const auto& row : evidence.parameters) {
    if (row.process >= 0 && row.row.step == last) hashes[row.process].put(row.row.param, row);
  }
  std::vector<std::string> states;
  for (const auto& [rank, of_rank] : hashes) {
    std::string all;
    for (const auto& [param, row] : of_rank.all()) all += param + " " + row->row.hash + "\n";
    states.push_back(std::to_string(rank) + " " + nsa::hash_hex(all));
  }
  return states;
}

}  // namespace

std::optional<OtherLevel> shown_at_level(const Evidence& evidence) {
  OtherLevel shown;
  shown.observe = evidence.the_case.scenario.observe;
  for (const int rank : all_ranks(evidence)) {
    if (evidence.exit_of(rank) == nullptr) return std::nullopt;
    if (!ended_whole(evidence, rank)) shown.ranks.push_back(rank);
  }
  const auto end = end_of(evidence, shown.ranks.empty());
  if (!end) return std::nullopt;
  shown.end = *end;
  shown.losses = losses_of(evidence);
  shown.parameters = states_of(evidence);
  return shown;
}

bool differ_in_level_alone(const Scenario& a, const Scenario& b) {
  if (a.observe == b.observe) return false;
  Scenario same = a;
  same.observe = b.observe;
  same.expect = b.expect;
  same.known = b.known;
  return same == b;
}

}  // namespace harness::checks
