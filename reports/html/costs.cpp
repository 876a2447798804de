#include <algorithm>
#include <cmath>
#include <map>

#include "nsa/base/text.h"
#include "reports/html/charts.h"
#include "reports/html/markup.h"
#include "reports/html/parts.h"
#include "reports/markdown.h"

namespace reports::html {
namespace {

constexpr const char* kPeak = "peak_bytes.";

using Parts = std::vector<Part>;

void add_part(Parts& parts, const std::string& name, double size, bool largest) {
  const auto at = std::find_if(
      parts.begin(), parts.end(), [&](const Part& known) { return known.name == name; });
  if (at == parts.end()) {
    parts.push_back({name, size});
  } else {
    at->size = largest ? std::max(at->size, size) : at->size + size;
  }
}

double sum_of(const Parts& parts) {
  double sum = 0.0;
  for (const Part& part : parts) sum += part.size;
  return sum;
}

// Of the rank that took longest, phase by phase.
Parts phases_of(const CaseView& one) {
  Parts parts;
  for (const harness::PhaseTime& phase : one.digest().phases) {
    if (phase.process >= 0) add_part(parts, phase.phase, static_cast<double>(phase.ms), true);
  }
  return parts;
}

Parts phases_of(const CaseView& one, int process) {
  Parts parts;
  for (const harness::PhaseTime& phase : one.digest().phases) {
    if (phase.process == process) {
      add_part(parts, phase.phase, static_cast<double>(phase.ms), false);
    }
  }
  return parts;
}

// Peaks of rank 0 by phase.
Parts peaks_of(const CaseView& one) {
  Parts parts;
  for (const auto& [name, value] : one.digest().metrics) {
    if (name.starts_with(kPeak) && std::isfinite(value)) {
      add_part(parts, name.substr(std::string(kPeak).size()), value, true);
    }
  }
  return parts;
}

std::string ms_text(double ms) {
  return ms >= 1000.0 ? nsa::to_text(ms / 1000.0, 3) + " s" : nsa::to_text(ms, 3) + " ms";
}

std::string times_line(const Parts& parts) {
  std::vector<std::string> words;
  for (const Part& part : parts) words.push_back(part.name + " " + ms_text(part.size));
  return nsa::join(words);
}

std::string peaks_line(const Parts& parts) {
  std::vector<std::string> words;
  for (const Part& part : parts) {
    words.push_back(part.name + " " + bytes_text(std::llround(part.size)));
  }
  return nsa::join(words);
}

std::string bar_row(const std::string& name, const std::string& bar, const std::string& words) {
  return "<li><span class=\"name\">" + text(name) + "</span>" + bar + "<span class=\"words\">" +
         text(words) + "</span></li>\n";
}

std::string bars(const std::string& title, const std::string& rows) {
  return rows.empty() ? ""
                      : "<h4>" + text(title) + "</h4>\n<ul class=\"bars\">\n" + rows + "</ul>\n";
}

// A bar a phase, since peaks do not add up.
std::string peaks_rows(const CaseView& one) {
  const Parts parts = peaks_of(one);
  double largest = 0.0;
  for (const Part& part : parts) largest = std::max(largest, part.size);
  std::string rows;
  for (const Part& part : parts) {
    rows += bar_row(part.name,
                    share_bar(largest > 0.0 ? part.size / largest : 0.0, -1.0, false),
                    bytes_text(std::llround(part.size)));
  }
  return rows;
}

struct Cost {  // of a scenario
  std::string name;
  Parts phases;  // the sum over its cases
  Parts peaks;   // the largest of its cases
  double process_bytes = 0.0;
  std::size_t cases = 0;
};

std::vector<Cost> costs_by_scenario(const ReportView& view) {
  std::vector<Cost> all;
  for (const Cases& cases : by_scenario(all_cases(view))) {
    Cost cost;
    cost.name = cases.front()->record.scenario;
    for (const CaseView* one : cases) {
      const Parts phases = phases_of(*one);
      if (!phases.empty()) ++cost.cases;
      for (const Part& part : phases) add_part(cost.phases, part.name, part.size, false);
      for (const Part& part : peaks_of(*one)) add_part(cost.peaks, part.name, part.size, true);
      cost.process_bytes =
          std::max(cost.process_bytes, one->digest().metric("rss_peak_bytes").value_or(0.0));
    }
    if (!cost.phases.empty() || cost.process_bytes > 0.0) all.push_back(std::move(cost));
  }
  return all;
}

}  // namespace

std::string costs(const ReportView& view) {
  std::vector<Cost> all = costs_by_scenario(view);
  std::stable_sort(all.begin(), all.end(), [](const Cost& a, const Cost& b) {
    return sum_of(a.phases) > sum_of(b.phases);
  });
  double longest = 0.0;
  double largest = 0.0;
  for (const Cost& cost : all) {
    longest = std::max(longest, sum_of(cost.phases));
    largest = std::max(largest, cost.process_bytes);
  }
  std::string times;
  for (const Cost& cost : all) {
    if (cost.phases.empty()) continue;
    const std::string cases =
        cost.cases == 1 ? "" : " (" + counted(static_cast<std::int64_t>(cost.cases), "case") + ")";
    times += bar_row(cost.name + cases,
                     parts_bar(cost.phases, longest),
                     ms_text(sum_of(cost.phases)) + ": " + times_line(cost.phases));
  }
  std::stable_sort(all.begin(), all.end(), [](const Cost& a, const Cost& b) {
    return a.process_bytes > b.process_bytes;
  });
  std::string memory;
  for (const Cost& cost : all) {
    if (!(cost.process_bytes > 0.0)) continue;
    const std::string tensors = cost.peaks.empty() ? "" : "; tensors: " + peaks_line(cost.peaks);
    memory += bar_row(cost.name,
                      share_bar(cost.process_bytes / largest, -1.0, false),
                      "process " + bytes_text(std::llround(cost.process_bytes)) + tensors);
  }
  return folded("Time by phase, of the slowest rank of each case",
                times.empty() ? "" : "<ul class=\"bars\">\n" + times + "</ul>\n") +
         folded("Peak memory of rank 0, the largest of each scenario; of tensors by phase",
                memory.empty() ? "" : "<ul class=\"bars\">\n" + memory + "</ul>\n");
}

std::string costs_of(const CaseView& one) {
  std::vector<int> processes;
  double longest = 0.0;
  for (const harness::PhaseTime& phase : one.digest().phases) {
    if (std::find(processes.begin(), processes.end(), phase.process) == processes.end()) {
      processes.push_back(phase.process);
      longest = std::max(longest, sum_of(phases_of(one, phase.process)));
    }
  }
  std::string times;
  for (const int process : processes) {
    const Parts parts = phases_of(one, process);
    times += bar_row(harness::process_name(process),
                     parts_bar(parts, longest),
                     ms_text(sum_of(parts)) + ": " + times_line(parts));
  }
  return bars("Time by phase, of phases that ended", times) +
         bars("Peak memory of tensors of rank 0 by phase", peaks_rows(one));
}

}  // namespace reports::html
