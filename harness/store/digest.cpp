#include "harness/store/digest.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>

#include "harness/evidence/step_fold.h"
#include "harness/evidence/torch_types.h"
#include "nsa/base/error.h"
#include "nsa/base/text.h"

namespace harness {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Arrivals, rank, steps, parameters, once, others)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PhaseTime, process, phase, ms)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(FileRow, process, path, bytes, hash)

namespace {

using nlohmann::json;

void take_arrivals(const Evidence& evidence, Digest& digest) {
  std::map<int, std::map<std::string, bool>> once;  // rank -> parameter -> in every step
  std::map<int, std::set<std::int64_t>> steps;
  for (const auto& row : evidence.gradients) {
    if (row.process < 0) continue;
    const Gradient& gradient = row.row;
    steps[row.process].insert(gradient.step);
    const bool good =
        gradient.reachable == Reach::yes && gradient.ready_count == 1 && gradient.state != "none";
    const auto [at, is_new] = once[row.process].try_emplace(gradient.param, good);
    at->second = at->second && good;
  }
  for (const auto& [rank, params] : once) {
    Arrivals arrivals;
    arrivals.rank = rank;
    arrivals.steps = static_cast<std::int64_t>(steps[rank].size());
    arrivals.parameters = static_cast<std::int64_t>(params.size());
    for (const auto& [param, good] : params) {
      if (good) {
        ++arrivals.once;
      } else {
        arrivals.others.push_back(param);
      }
    }
    digest.arrivals.push_back(std::move(arrivals));
  }
}

// From the beginning of each phase to that of the next one of the same process.
void take_phases(const Evidence& evidence, Digest& digest) {
  std::map<int, std::vector<std::pair<std::int64_t, std::string>>> begins;
  for (const auto& row : evidence.phases) begins[row.process].emplace_back(row.t_ms, row.row.phase);
  for (const auto& row : evidence.done) begins[row.process].emplace_back(row.t_ms, "");
  std::map<int, std::map<std::string, std::int64_t>> folded;
  for (const auto& stretch : evidence.stretches) {
    for (const Stretch::OfRank& rank : stretch.row.of_ranks) {
      begins[rank.rank].emplace_back(rank.begin_ms, "");
      for (const auto& [phase, ms] : rank.phase_ms) folded[rank.rank][phase] += ms;
    }
  }
  for (auto& [process, list] : begins) {
    std::stable_sort(
        list.begin(), list.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<PhaseTime> total;  // in the order in which phases first began
    for (std::size_t i = 0; i + 1 < list.size(); ++i) {
      const std::string& phase = list[i].second;
      if (phase.empty()) continue;
      auto at = std::find_if(
          total.begin(), total.end(), [&](const PhaseTime& known) { return known.phase == phase; });
      if (at == total.end()) at = total.insert(total.end(), {process, phase, 0});
      at->ms += list[i + 1].first - list[i].first;
    }
    for (PhaseTime& time : total) time.ms += folded[process][time.phase];
    digest.phases.insert(digest.phases.end(), total.begin(), total.end());
  }
  std::stable_sort(
      digest.phases.begin(), digest.phases.end(), [](const PhaseTime& a, const PhaseTime& b) {
        return (a.process < 0) < (b.process < 0);
      });
}

void take_files(const Evidence& evidence, Digest& digest) {
  for (const auto& row : evidence.artefacts) {
    digest.files.push_back({row.process, row.row.path, row.row.bytes, row.row.hash});
  }
  std::sort(digest.files.begin(), digest.files.end(), [](const FileRow& a, const FileRow& b) {
    return a.path < b.path;
  });
}

void take_last_lines(const Evidence& evidence, Digest& digest) {
  const bool well =
      std::all_of(evidence.exited.begin(), evidence.exited.end(), [](const auto& row) {
        return row.row.exit_code == 0 && row.row.signal == 0;
      });
  if (well && evidence.stopped.empty()) return;
  for (const auto& fact : evidence.facts) {
    if (fact.process != kController || fact.row.name != kLastLinesFact) continue;
    const std::size_t end = std::min(fact.row.value.find('\n'), fact.row.value.size() - 1);
    digest.last_lines.emplace_back(fact.row.value.substr(0, end), fact.row.value.substr(end + 1));
  }
}

// The upper one of two; NaN where one of them is.
double median(std::vector<double> values) {
  const auto not_a_number = [](double value) { return std::isnan(value); };
  const auto wrong = std::find_if(values.begin(), values.end(), not_a_number);
  if (wrong != values.end()) return *wrong;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Of steps that were measured beside a control.
void take_medians(Digest& digest) {
  const auto steps = digest.series.find("step_ms");
  const auto controls = digest.series.find("control_ms");
  if (steps == digest.series.end() || controls == digest.series.end()) return;
  digest.metrics.emplace_back(kStepMs, median(steps->second));
  digest.metrics.emplace_back(kControlMs, median(controls->second));
}

void take_samples(const Evidence& evidence, Digest& digest) {
  std::map<std::string, std::map<int, std::map<std::int64_t, double>>>
      values;  // metric, rank, step
  std::map<std::string, double> last;
  for (const auto& row : evidence.samples) {
    if (row.process < 0) continue;
    values[row.row.metric][row.process][row.row.step] = row.row.value.value;
    if (row.process == 0) last[row.row.metric] = row.row.value.value;
  }
  for (const auto& stretch : evidence.stretches) {
    std::map<std::int64_t, double>& losses = values["loss"][stretch.row.of_ranks.front().rank];
    for (const auto& [step, loss] : losses_of(stretch.row)) losses[step] = loss;
  }
  for (const auto& [metric, by_rank] : values) {
    for (const auto& [step, value] : by_rank.begin()->second) {
      digest.series[metric].push_back(value);
    }
  }
  // No sample may stand beside what is counted below.
  for (const char* counted :
       {"collectives", "collective_bytes", "operators", kStepMs, kControlMs}) {
    last.erase(counted);
  }
  digest.metrics.assign(last.begin(), last.end());
  take_medians(digest);
}

// What rank 0 handed to collectives in its last step. Nothing where some of it cannot be told in bytes.
void take_collectives(const Evidence& evidence, Digest& digest) {
  std::int64_t step = 0;
  for (const auto& row : evidence.collectives) {
    if (row.process == 0) step = std::max(step, row.row.step);
  }
  std::int64_t count = 0;
  std::int64_t bytes = 0;
  bool told = step > 0;
  for (const auto& row : evidence.collectives) {
    if (row.process != 0 || row.row.step != step) continue;
    const std::int64_t each = torch_type_bytes(row.row.dtype);
    told = told && (each > 0 || row.row.count == 0);
    ++count;
    bytes += each * row.row.count;
  }
  if (step > 0) digest.metrics.emplace_back("collectives", static_cast<double>(count));
  if (told) digest.metrics.emplace_back("collective_bytes", static_cast<double>(bytes));
}

// All operators of rank 0, from its last heartbeat: the one that is written when all is done.
void take_operators(const Evidence& evidence, Digest& digest) {
  std::optional<std::int64_t> operators;
  for (const auto& row : evidence.heartbeats) {
    if (row.process != 0 || row.row.phase != "done") continue;
    operators = row.row.counters.operators_forward + row.row.counters.operators_backward;
  }
  if (operators) digest.metrics.emplace_back("operators", static_cast<double>(*operators));
}

json series_json(const Digest& digest) {
  json all = json::object();
  for (const auto& [metric, values] : digest.series) {
    all[metric] = std::vector<Real>(values.begin(), values.end());
  }
  return all;
}

}  // namespace

std::optional<double> Digest::metric(std::string_view name) const {
  const auto at = std::find_if(
      metrics.begin(), metrics.end(), [&](const auto& metric) { return metric.first == name; });
  return at == metrics.end() ? std::nullopt : std::optional(at->second);
}

Digest digest_of(const Evidence& evidence) {
  Digest digest;
  digest.recorded = true;
  for (const auto& row : evidence.hellos) {
    if (row.process != 0) continue;
    digest.device = row.row.device;
    digest.backend = row.row.backend;
    digest.torch_version = row.row.torch_version;
  }
  for (const auto& row : evidence.facts) {
    if (row.process == 0 && row.row.name == "parameters") digest.parameters = row.row.value;
  }
  take_arrivals(evidence, digest);
  take_phases(evidence, digest);
  take_files(evidence, digest);
  take_last_lines(evidence, digest);
  take_samples(evidence, digest);
  take_collectives(evidence, digest);
  take_operators(evidence, digest);
  std::sort(digest.metrics.begin(), digest.metrics.end());
  return digest;
}

std::string digest_text(const Digest& digest) {
  json document = {{"device", digest.device},
                   {"backend", digest.backend},
                   {"torch_version", digest.torch_version},
                   {"parameters", digest.parameters},
                   {"arrivals", digest.arrivals},
                   {"phases", digest.phases},
                   {"files", digest.files},
                   {"series", series_json(digest)}};
  if (!digest.last_lines.empty()) document["last_lines"] = digest.last_lines;
  return document.dump(-1, ' ', false, json::error_handler_t::replace);
}

Digest digest_from(std::string_view text) {
  try {
    const json document = json::parse(text);
    Digest digest;
    digest.recorded = true;
    document.at("device").get_to(digest.device);
    document.at("backend").get_to(digest.backend);
    document.at("torch_version").get_to(digest.torch_version);
    document.at("parameters").get_to(digest.parameters);
    document.at("arrivals").get_to(digest.arrivals);
    document.at("phases").get_to(digest.phases);
    document.at("files").get_to(digest.files);
    if (document.contains("last_lines")) document.at("last_lines").get_to(digest.last_lines);
    for (const auto& [metric, values] : document.at("series").items()) {
      for (const Real& value : values.get<std::vector<Real>>()) {
        digest.series[metric].push_back(value);
      }
    }
    return digest;
  } catch (const json::exception& error) {
    throw nsa::Error(std::string("a case's digest: ") + error.what());
  }
}

}  // namespace harness
