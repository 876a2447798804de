#include "harness/cli/diagnose/run_experiments.h"

#include <chrono>
#include <map>
#include <memory>

#include "harness/cli/output.h"
#include "harness/diagnose/recorded.h"

namespace harness::cli {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

std::function<std::vector<Case>(std::size_t, const std::vector<const CaseRecord*>&)>
experiments_within(double seconds, const Pairs& command) {
  const auto begun = std::make_shared<std::map<std::size_t, Clock::time_point>>();
  return [seconds, command, begun](std::size_t point,
                                   const std::vector<const CaseRecord*>& ran) -> std::vector<Case> {
    const std::optional<Diagnosis> diagnosis = diagnosis_of(command, ran);
    if (!diagnosis || !diagnosis->next) return {};
    const Clock::time_point begin = begun->emplace(point, Clock::now()).first->second;
    if (seconds_since(begin) + diagnosis->next_seconds > seconds) return {};
    return {*diagnosis->next};
  };
}

std::string diagnosis_lines(const Pairs& command, const std::vector<CaseRecord>& records) {
  RunRecord run;
  run.provenance.command = command;
  std::string lines;
  for (const RecordedDiagnosis& one : diagnoses_of(run, records)) {
    std::string text = to_lines(one);
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      lines += without_controls(text.substr(begin, end - begin)) + "\n";
      begin = end + 1;
    }
  }
  return lines;
}

}  // namespace harness::cli
