// Times: every row carries the time at which its process wrote it, and the clock of a process never goes back. A row is written
// when what it tells of has happened, so a loaded machine only moves it to a later time.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "harness/judge/audit/relations.h"
#include "nsa/base/text.h"

namespace harness::audit {
namespace {

constexpr double kRoundedMs = 2.0;  // two times that are cut to whole milliseconds
// What lies between the controller's row and what it tells of: it writes the row before the process can write anything, and learns
// of the end after it.
constexpr std::int64_t kControllerMs = 1000;
constexpr double kSameNumber = 1e-9;

using StepKey = std::pair<int, std::int64_t>;  // process, step

struct Measured {
  double ms = 0.0;
  std::int64_t t_ms = 0;
};

bool is_timed(const Evidence& evidence) {
  const std::string& kind = evidence.the_case.scenario.kind;
  return kind == "throughput" || kind == "sweep";
}

std::map<StepKey, Measured> samples_named(const Evidence& evidence, std::string_view metric) {
  std::map<StepKey, Measured> samples;
  for (const From<Sample>& from : evidence.samples) {
    if (from.process < 0 || from.row.metric != metric) continue;
    samples[{from.process, from.row.step}] = {from.row.value, from.t_ms};
  }
  return samples;
}

bool is_work(const std::string& phase) {
  return phase == "forward" || phase == "backward" || phase == "optimizer" || phase == "graph";
}

// When the clock of a step ran for certain: from its first phase on, of a sweep from the second step's forward on.
struct Span {
  std::optional<std::int64_t> begin;
  std::int64_t end = std::numeric_limits<std::int64_t>::min();
};

std::map<StepKey, Span> worked_spans(const Evidence& evidence) {
  const bool sweeps = evidence.the_case.scenario.kind == "sweep";
  std::map<StepKey, Span> spans;
  for (const From<Phase>& from : evidence.phases) {
    if (from.process < 0) continue;
    Span& span = spans[{from.process, from.row.step}];
    if (from.row.phase == (sweeps ? "forward" : "data")) {
      const std::int64_t known = span.begin.value_or(from.t_ms);
      span.begin = sweeps ? std::max(known, from.t_ms) : std::min(known, from.t_ms);
    }
    if (is_work(from.row.phase)) span.end = std::max(span.end, from.t_ms);
  }
  return spans;
}

std::string step_text(const StepKey& key) {
  return "step " + std::to_string(key.second) + " of " + process_name(key.first);
}

std::string took(const StepKey& key, double ms) {
  return step_text(key) + " took " + nsa::to_text(ms, 4) + " ms by its sample";
}

}  // namespace

std::string speed_is_tokens_by_time(const Record& record) {
  const Evidence& evidence = record.evidence();
  const nsa::TrainingConfig& training = evidence.the_case.scenario.training;
  if (evidence.the_case.scenario.kind != "throughput") return "";
  const auto tokens =
      static_cast<double>(training.batch_size * training.seq_len * training.accumulate);
  const auto times = samples_named(evidence, "step_ms");
  for (const auto& [key, speed] : samples_named(evidence, "tokens_per_s")) {
    const auto at = times.find(key);
    if (at == times.end()) continue;
    const double wanted = tokens / at->second.ms * 1000.0;
    if (std::abs(speed.ms - wanted) <= kSameNumber * wanted) continue;
    return took(key, at->second.ms) + ", which is " + nsa::to_text(wanted, 4) +
           " tokens per second, and its other sample says " + nsa::to_text(speed.ms, 4);
  }
  return "";
}

std::string step_is_as_long_as_its_phases(const Record& record) {
  const Evidence& evidence = record.evidence();
  if (!is_timed(evidence)) return "";
  const auto spans = worked_spans(evidence);
  for (const auto& [key, step] : samples_named(evidence, "step_ms")) {
    const auto at = spans.find(key);
    if (at == spans.end() || !at->second.begin || at->second.end < *at->second.begin) continue;
    const std::int64_t passed = at->second.end - *at->second.begin;
    if (step.ms + kRoundedMs >= static_cast<double>(passed)) continue;
    return took(key, step.ms) + ", and its phases began over " + std::to_string(passed) + " ms";
  }
  return "";
}

// From the last row before the step to the first one after it.
std::string step_fits_between_its_rows(const Record& record) {
  const Evidence& evidence = record.evidence();
  if (evidence.the_case.scenario.kind != "throughput") return "";
  const auto losses = samples_named(evidence, "loss");
  const auto steps = samples_named(evidence, "step_ms");
  for (const auto& [key, step] : steps) {
    const auto after = losses.find(key);
    const auto before = steps.find({key.first, key.second - 1});
    if (after == losses.end() || before == steps.end()) continue;
    const std::int64_t room = after->second.t_ms - before->second.t_ms;
    if (step.ms <= static_cast<double>(room) + kRoundedMs) continue;
    return took(key, step.ms) + ", and " + std::to_string(room) +
           " ms lie between the row before it and the row after it";
  }
  return "";
}

// By the controller's clock. Steps do not overlap.
std::string steps_fit_into_the_process(const Record& record) {
  const Evidence& evidence = record.evidence();
  if (!is_timed(evidence)) return "";
  std::map<int, double> sums;
  for (const auto& [key, step] : samples_named(evidence, "step_ms")) sums[key.first] += step.ms;
  for (const auto& [process, sum] : sums) {
    const int number = process;
    const auto started =
        std::find_if(evidence.started.begin(), evidence.started.end(), [&](const auto& from) {
          return from.row.process_started == number;
        });
    const auto exited =
        std::find_if(evidence.exited.begin(), evidence.exited.end(), [&](const auto& from) {
          return from.row.process_ended == number;
        });
    if (started == evidence.started.end() || exited == evidence.exited.end()) continue;
    const std::int64_t lived = exited->t_ms - started->t_ms;
    if (sum <= static_cast<double>(lived + kControllerMs)) continue;
    return "the steps of " + process_name(number) + " took " + nsa::to_text(sum, 6) +
           " ms together by their samples, and it lived " + std::to_string(lived) +
           " ms by the controller's clock";
  }
  return "";
}

std::string nothing_is_written_after_the_end(const Record& record) {
  const Evidence& evidence = record.evidence();
  std::map<int, std::int64_t> ended;
  for (const From<Exited>& from : evidence.exited) {
    auto& latest = ended.try_emplace(from.row.process_ended, from.t_ms).first->second;
    latest = std::max(latest, from.t_ms);
  }
  const auto is_late = [&](const auto& from) {
    const auto at = ended.find(from.process);
    return at != ended.end() && from.t_ms > at->second + kControllerMs;
  };
  const auto text = [&](int process, std::int64_t t_ms, const std::string& what) {
    return process_name(process) + " had ended after " + std::to_string(ended.at(process)) +
           " ms by the controller's clock, and wrote after " + std::to_string(t_ms) +
           " ms: " + what;
  };
  for (const From<Phase>& from : evidence.phases) {
    if (is_late(from)) {
      return text(from.process,
                  from.t_ms,
                  "phase " + from.row.phase + " of step " + std::to_string(from.row.step));
    }
  }
  for (const From<Heartbeat>& from : evidence.heartbeats) {
    if (is_late(from)) return text(from.process, from.t_ms, "a heartbeat");
  }
  for (const From<Done>& from : evidence.done) {
    if (is_late(from)) return text(from.process, from.t_ms, "that it is done");
  }
  return "";
}

}  // namespace harness::audit
