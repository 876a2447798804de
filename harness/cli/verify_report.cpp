#include "harness/cli/verify_report.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <limits>

#include "harness/cli/find_run.h"
#include "harness/cli/output.h"
#include "harness/cli/paths.h"
#include "harness/cli/verbs.h"
#include "harness/run/build_info.h"
#include "harness/scenario/exit_code.h"
#include "harness/store/verify.h"
#include "nsa/base/error.h"
#include "nsa/base/file.h"
#include "nsa/base/strict_json.h"
#include "reports/report.h"

namespace harness::cli {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{256} << 20;

// The run that a report says it is about, "" where it says none: what it says of it is compared all the same.
std::string named_in(std::string_view report) {
  constexpr std::string_view kRow = "\n| Run | ";
  const std::size_t at = report.find(kRow);
  if (at == std::string_view::npos) return "";
  const std::string_view name = report.substr(at + kRow.size());
  return std::string(name.substr(0, name.find_first_of(", |\n")));
}

std::optional<RunRecord> run_of(const Store& store,
                                const std::string& words,
                                const std::string& file,
                                std::string_view report) {
  if (!words.empty()) return find_run(store, words);
  // A copy, such as a night's artefact, lies in no run's folder.
  if (auto named = store.run_named(named_in(report))) return named;
  const auto folder = std::filesystem::absolute(file).lexically_normal().parent_path();
  for (const RunRecord& run : store.runs(0, std::numeric_limits<std::int64_t>::max())) {
    if (folder == std::filesystem::path(run.folder).lexically_normal()) return run;
  }
  return find_run(store, "last");
}

std::string_view line_at(std::string_view text, std::size_t at) {
  if (at >= text.size()) return "nothing";
  const std::size_t begin = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;
  return text.substr(begin, text.find('\n', at) - begin);
}

// The first line that differs, "" where none does.
std::string difference(const std::string& found, const std::string& wanted) {
  const auto [mine, other] = std::ranges::mismatch(found, wanted);
  if (mine == found.end() && other == wanted.end()) return "";
  const auto at = static_cast<std::size_t>(mine - found.begin());
  const auto line = std::count(found.begin(), mine, '\n') + 1;
  return std::to_string(line) + ": found \"" + nsa::shortened(line_at(found, at)) +
         "\", the database gives \"" + nsa::shortened(line_at(wanted, at)) + "\"";
}

std::string counted(std::int64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace

int verify_report(const Store& store, const std::string& run, const std::string& file) {
  const std::string found = nsa::read_file(file, kMostBytes);
  const std::optional<RunRecord> about = run_of(store, run, file, found);
  if (!about) return kExitNothing;
  reports::ReportRequest request;
  request.runs = {*about};
  request.check_about = check_about();
  const std::string differs = difference(found, reports::render_report(store, request));
  if (!differs.empty()) {
    const bool other_program = about->provenance.source_hash != built_source_hash();
    std::cout << "DIFFERS " << file << ":" << differs
              << (other_program ? " (another version of this program made the run)" : "") << "\n";
  }
  const Verified verified = verify_run(store, *about);
  for (const std::string& line : verified.wrong) std::cout << "DIFFERS " << line << "\n";
  std::cout << "run " << about->name << ": the report is "
            << (differs.empty() ? "what the database gives" : "not what the database gives") << "; "
            << counted(verified.cases, "case") << " compared with the folder; of the ranks' files "
            << verified.files << " as recorded, " << verified.files_gone << " not kept\n";
  return differs.empty() && verified.wrong.empty() ? kExitPass : kExitError;
}

}  // namespace harness::cli
