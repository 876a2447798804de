#include "reports/sections/again.h"

#include <vector>

#include "harness/scenario/bisect.h"
#include "nsa/base/text.h"
#include "reports/nights.h"
#include "reports/selftest_tally.h"

namespace reports {
namespace {

// Runs of older versions did not say which program they were.
std::string program_of(const harness::RunRecord& run) {
  const std::string program = run.option("program");
  return program.empty() ? "nsa-harness" : program;
}

// A kernel runs in the Python that ran it: "env NSA_HARNESS_PYTHON=..." before the program, none where the run did not name one.
std::vector<std::string> with_its_python(const harness::RunRecord& run) {
  for (const auto& [name, value] : run.provenance.environment) {
    if (name == "NSA_HARNESS_PYTHON" && !value.empty()) return {"env", name + "=" + value};
  }
  return {};
}

std::string quoted(const std::string& word) {
  return nsa::shell_text(std::vector<std::string>{word});
}

bool is_repeated(const std::string& option, bool selftest) {
  if (option == "profile" || option == "seed") return true;
  if (selftest) return option == "draws" || option == "full-size";
  return option == "set" || option == "launcher" || option == "listen";
}

bool is_known(const CaseView& one) {
  return one.the_case && !one.the_case->scenario.path.empty();
}

// Without the database. REQUIRES: is_known(one).
std::vector<std::string> words_of(const CaseView& one, const std::string& program) {
  // Draws depend on the seed, the file and the number of the draw: a self-test repeats all draws of this file.
  const bool selftest = is_selftest(one.run);
  std::vector<std::string> words = {
      program, selftest ? "selftest" : "run", one.the_case->scenario.path};
  for (const auto& [key, value] : one.run.provenance.command) {
    if (!is_repeated(key, selftest)) continue;
    words.push_back("--" + key);
    if (!value.empty()) words.push_back(value);
  }
  if (is_nightly(one.run)) {  // it chose the profile of each scenario by itself
    words.emplace_back("--profile");
    words.push_back(one.record.profile.empty() ? harness::kNoProfile : one.record.profile);
  }
  auto point = one.the_case->point;
  if (harness::is_trial(*one.the_case) && !point.empty()) point.pop_back();
  if (selftest) point.clear();
  std::erase_if(point, [](const auto& axis) { return axis.first == harness::kLaunchAxis; });
  for (const auto& [axis, value] : point) {
    words.emplace_back("--only");
    words.push_back(axis + "=" + value);
  }
  return words;
}

}  // namespace

std::string on_database(const harness::RunRecord& run, const std::string& words) {
  const std::string database = run.option("database");
  return quoted(program_of(run)) + " " + words +
         (database.empty() ? "" : " --db " + quoted(database));
}

std::string run_again(const harness::RunRecord& run) {
  const std::string name = "nsa-harness";
  std::string command = run.provenance.argv;
  if (command.starts_with(name + " ")) {
    std::vector<std::string> program = with_its_python(run);
    program.push_back(program_of(run));
    command = nsa::shell_text(program) + command.substr(name.size());
  }
  const std::string folder = run.option("directory");
  return folder.empty() ? command : "cd " + quoted(folder) + " && " + command;
}

std::string case_again(const CaseView& one) {
  if (!is_known(one)) return run_again(one.run);
  std::vector<std::string> words = words_of(one, program_of(one.run));
  const std::string database = one.run.option("database");
  if (!database.empty()) words.insert(words.end(), {"--db", database});
  if (one.the_case->scenario.is_foreign()) {
    const std::vector<std::string> python = with_its_python(one.run);
    words.insert(words.begin(), python.begin(), python.end());
  }
  return nsa::shell_text(words);
}

std::string bundle_again(const CaseView& one) {
  const std::string words =
      "bundle " + one.run.name + " " + std::to_string(one.record.position + 1);
  const bool is_kernel = one.the_case && one.the_case->scenario.is_foreign();
  const std::vector<std::string> python =
      is_kernel ? with_its_python(one.run) : std::vector<std::string>{};
  return (python.empty() ? "" : nsa::shell_text(python) + " ") + on_database(one.run, words);
}

std::string case_again_in_checkout(const CaseView& one) {
  return is_known(one) ? nsa::shell_text(words_of(one, "./nsa-harness")) : "";
}

}  // namespace reports
