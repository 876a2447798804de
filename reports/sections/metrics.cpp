// Samples of rank 0, the time that each phase took, and the loss where there are enough steps to draw. Of cases
// that passed a long report tells the smallest, the middle and the largest of each.
#include <algorithm>
#include <cmath>
#include <map>

#include "nsa/base/text.h"
#include "reports/markdown.h"
#include "reports/sections/by_scenario.h"
#include "reports/sections/list.h"
#include "reports/sections/wording.h"

namespace reports::section {
namespace {

std::string samples(const CaseView& one) {
  if (one.digest().metrics.empty()) return "";
  Table table({"metric (rank 0, last step)", "value"});
  for (const auto& [name, value] : one.digest().metrics)
    table.row({escape(name), shown_number(value, 6)});
  return table.text();
}

using PhaseMs = std::map<std::pair<std::string, int>, std::int64_t>;  // by phase and process

// In which phase one rank takes longer than the others, by far. In a backward the others wait for the slow one.
std::string slowest(const std::vector<std::string>& names, const PhaseMs& ms) {
  constexpr double kSlower = 1.5;  // times the slowest of the others
  constexpr double kShareOfItsTime = 0.05;
  std::map<int, std::int64_t> of_rank;
  for (const auto& [key, time] : ms) {
    if (key.second >= 0) of_rank[key.second] += time;
  }
  std::string text;
  for (const std::string& name : names) {
    if (name == "backward") continue;
    std::vector<std::pair<std::int64_t, int>> times;
    for (const auto& [rank, all] : of_rank) {
      const auto at = ms.find({name, rank});
      if (at != ms.end()) times.emplace_back(at->second, rank);
    }
    if (times.size() < 2) continue;
    std::sort(times.rbegin(), times.rend());
    const auto [time, rank] = times.front();
    const std::int64_t next = times[1].first;
    const bool matters =
        static_cast<double>(time) > kShareOfItsTime * static_cast<double>(of_rank.at(rank));
    if (!matters || static_cast<double>(time) < kSlower * static_cast<double>(next)) continue;
    text += "Slowest in " + escape(name) + ": " + harness::process_name(rank) + " with " +
            grouped(time) + " ms; " + (times.size() == 2 ? "the other one" : "the others") +
            " took " + (times.size() == 2 ? "" : "at most ") + grouped(next) + " ms.\n";
  }
  return text.empty() ? "" : text + "\n";
}

// One row a phase in the order of time, one column a process.
std::string phases(const CaseView& one) {
  std::vector<int> processes;
  std::vector<std::string> names;
  PhaseMs ms;
  for (const harness::PhaseTime& phase : one.digest().phases) {
    if (std::find(processes.begin(), processes.end(), phase.process) == processes.end()) {
      processes.push_back(phase.process);
    }
    if (std::find(names.begin(), names.end(), phase.phase) == names.end())
      names.push_back(phase.phase);
    ms[{phase.phase, phase.process}] = phase.ms;
  }
  if (names.empty()) return "";
  std::vector<std::string> header = {"phase, ms"};
  for (const int process : processes) header.push_back(escape(harness::process_name(process)));
  Table table(header);
  for (const std::string& name : names) {
    std::vector<std::string> cells = {escape(name)};
    for (const int process : processes) {
      const auto at = ms.find({name, process});
      cells.push_back(at == ms.end() ? "–" : grouped(at->second));
    }
    table.row(std::move(cells));
  }
  return table.text() + slowest(names, ms);
}

std::string loss_chart(const CaseView& one) {
  constexpr std::size_t kFewestSteps = 3;
  const auto losses = one.digest().series.find("loss");
  if (losses == one.digest().series.end()) return "";
  const std::vector<double>& values = losses->second;
  const bool finite =
      std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
  if (values.size() < kFewestSteps || !finite) return "";
  std::vector<std::string> numbers;
  // Of a long run so many, each as far from the next: viewers refuse a chart of more than 50,000 characters.
  constexpr std::size_t kMostPoints = 1'000;
  const std::size_t every = (values.size() + kMostPoints - 1) / kMostPoints;
  for (std::size_t i = 0; i < values.size(); i += every)
    numbers.push_back(nsa::to_text(values[i], 5));
  const std::string text =
      "xychart-beta\n    title \"loss of the first rank\"\n    x-axis \"step\" 1 --> " +
      std::to_string(values.size()) + "\n    line [" + nsa::join(numbers) + "]\n";
  return code_block(text, "mermaid") + "\n";
}

std::string metrics_of_case(const ReportView& view, const CaseView& one) {
  const std::string shown = samples(one) + phases(one) + loss_chart(one);
  return shown.empty() ? "" : "### " + case_name(view, one) + "\n\n" + shown;
}

struct Spread {  // of one metric over the cases of a group
  std::string name;
  bool is_count = false;
  std::vector<double> values;

  [[nodiscard]] std::string text(std::size_t at) const {
    return is_count ? grouped(std::llround(values[at])) : nsa::to_text(values[at], 6);
  }
};

void add(std::vector<Spread>& spreads, const std::string& name, bool is_count, double value) {
  auto at = std::find_if(
      spreads.begin(), spreads.end(), [&](const Spread& known) { return known.name == name; });
  if (at == spreads.end()) at = spreads.insert(at, {name, is_count, {}});
  at->values.push_back(value);
}

// Of the rank that took longest; the twin and the controller do other work.
std::vector<std::pair<std::string, std::int64_t>> longest_phases(const CaseView& one) {
  std::vector<std::pair<std::string, std::int64_t>> longest;
  for (const harness::PhaseTime& phase : one.digest().phases) {
    if (phase.process < 0) continue;
    auto at = std::find_if(longest.begin(), longest.end(), [&](const auto& known) {
      return known.first == phase.phase;
    });
    if (at == longest.end()) at = longest.insert(at, {phase.phase, phase.ms});
    at->second = std::max(at->second, phase.ms);
  }
  return longest;
}

std::string metrics_of_group(const ReportView& view, const Cases& group) {
  if (group.size() == 1) return metrics_of_case(view, *group.front());
  std::vector<Spread> metrics;
  std::vector<Spread> times;
  for (const CaseView* one : group) {
    for (const auto& [name, value] : one->digest().metrics)
      add(metrics, escape(name), false, value);
    for (const auto& [phase, ms] : longest_phases(*one)) {
      add(times, "phase " + escape(phase) + ", ms", true, static_cast<double>(ms));
    }
  }
  metrics.insert(metrics.end(), times.begin(), times.end());
  Table table({"metric (rank 0, last step; of a phase the slowest rank)",
               "cases",
               "smallest",
               "median",
               "largest"});
  for (Spread& spread : metrics) {
    auto& values = spread.values;
    std::sort(values.begin(), values.end(), [](double a, double b) {
      return std::isnan(b) ? !std::isnan(a) : a < b;  // what is no number comes last
    });
    table.row({spread.name,
               std::to_string(values.size()),
               spread.text(0),
               spread.text(values.size() / 2),
               spread.text(values.size() - 1)});
  }
  return table.empty() ? "" : "### " + titled(view, group) + "\n\n" + table.text();
}

std::string metrics_body(const ReportView& view) {
  return told(view,
              "Metrics and timings of what passed or is known to fail",
              &metrics_of_case,
              &metrics_of_group);
}

}  // namespace

Section metrics() {
  return {"Metrics and timings", &metrics_body, false};
}

}  // namespace reports::section
