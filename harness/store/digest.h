// What reports and history read of a case's evidence, taken once when the case ends. The evidence itself, hundreds of
// kilobytes a case, stays in the run's folder.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/evidence/evidence.h"

namespace harness {

// Metrics that history compares: medians over the measured steps, in milliseconds.
inline constexpr const char* kStepMs = "step_ms.median";
inline constexpr const char* kControlMs = "control_ms.median";

struct Arrivals {  // the gradient ledger of one rank
  int rank = 0;
  std::int64_t steps = 0;
  std::int64_t parameters = 0;      // named in the ledger
  std::int64_t once = 0;            // of them: reached, ready once, not none, in every step
  std::vector<std::string> others;  // the rest, by name
};

struct PhaseTime {
  int process = 0;
  std::string phase;
  std::int64_t ms = 0;
};

struct FileRow {  // an artefact as it was written
  int process = 0;
  std::string path;  // relative to the case's folder
  std::int64_t bytes = 0;
  std::string hash;
};

struct Digest {
  bool recorded = false;  // false: nothing was ever taken
  std::string device, backend, torch_version, parameters;
  std::vector<Arrivals> arrivals;
  std::vector<PhaseTime> phases;  // ranks first, then the twin
  std::vector<FileRow> files;     // by path
  // If a process did not end well: names of files in the case's folder, and the last lines that stand in them.
  std::vector<std::pair<std::string, std::string>> last_lines;
  std::map<std::string, std::vector<double>>
      series;  // of the lowest rank that has any, in order of steps
  std::vector<std::pair<std::string, double>>
      metrics;  // of rank 0: its samples' last values, last step's collectives, operators; by name

  [[nodiscard]] std::optional<double> metric(std::string_view name) const;
};

[[nodiscard]] Digest digest_of(const Evidence& evidence);

// As JSON without `metrics`, which have a table of their own. NaN survives.
[[nodiscard]] std::string digest_text(const Digest& digest);
// Throws: nsa::Error.
[[nodiscard]] Digest digest_from(std::string_view text);

}  // namespace harness
