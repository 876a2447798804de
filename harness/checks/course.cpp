#include "harness/checks/course.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "harness/checks/data_of.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

Course recorded(const Evidence& evidence) {
  Course course;
  course.as_recorded = true;
  course.sat_out = sat_out_steps(evidence);
  std::map<int, std::string> by_index;
  std::set<std::int64_t> steps;
  for (const auto& row : evidence.gradients) {
    by_index.emplace(row.row.index, row.row.param);
    steps.insert(row.row.step);
    std::int64_t& first = course.first_step.emplace(row.row.param, row.row.step).first->second;
    first = std::min(first, row.row.step);
  }
  for (const auto& row : evidence.parameters) steps.insert(row.row.step);
  for (const auto& [index, param] : by_index) course.params.push_back(param);
  course.steps.assign(steps.begin(), steps.end());
  return course;
}

// Of every rank and step, what the longest scored part of its sequences leaves without influence.
void add_masked(const Scenario& scenario, Course& course) {
  const oracles::DataConfig data = data_of(scenario);
  if (!data.ragged && data.documents == 1) return;
  for (int rank = 0; rank < data.world; ++rank) {
    for (const std::int64_t step : course.steps) {
      course.masked[{rank, step}] =
          uninfluential(scenario.model, longest_scored(data, rank, step)).zero;
    }
  }
}

}  // namespace

std::set<std::pair<int, std::int64_t>> sat_out_steps(const Evidence& evidence) {
  std::set<std::pair<int, std::int64_t>> steps;
  for (const auto& fact : evidence.facts) {
    if (fact.process < 0 || fact.row.name != kSatOutFact) continue;
    if (const auto step = nsa::parse_int(fact.row.value)) steps.emplace(fact.process, *step);
  }
  return steps;
}

bool any_rank_reports(const Evidence& evidence, std::string_view fact) {
  return std::any_of(evidence.facts.begin(), evidence.facts.end(), [&](const auto& row) {
    return row.process >= 0 && row.row.name == fact;
  });
}

Course Course::of(const Evidence& evidence) {
  const Scenario& scenario = evidence.the_case.scenario;
  if (scenario.is_command()) return recorded(evidence);
  Course course;
  course.params = parameter_names(scenario.model);
  course.steps.resize(static_cast<std::size_t>(scenario.training.steps));
  std::iota(course.steps.begin(), course.steps.end(), std::int64_t{1});
  // The last position predicts nothing, and nothing before it sees it.
  course.expected = uninfluential(scenario.model, scenario.training.seq_len - 1);
  add_masked(scenario, course);
  return course;
}

}  // namespace harness::checks
