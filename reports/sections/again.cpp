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

// What validate() made of a Spec is gone with it, and so is the path of its own modules.
bool is_kernel(const CaseView& one) {
  return one.the_case && one.the_case->scenario.is_foreign();
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
  if (command.starts_with(name + " "))
    command = quoted(program_of(run)) + command.substr(name.size());
  const std::string folder = run.option("directory");
  return folder.empty() ? command : "cd " + quoted(folder) + " && " + command;
}

std::string case_again(const CaseView& one) {
  if (is_kernel(one)) {
    return "# in Python: nsa_harness.validate(\"" + one.the_case->scenario.kernel.callable +
           "\", spec) with the same spec";
  }
  if (!is_known(one)) return run_again(one.run);
  std::vector<std::string> words = words_of(one, program_of(one.run));
  const std::string database = one.run.option("database");
  if (!database.empty()) words.insert(words.end(), {"--db", database});
  return nsa::shell_text(words);
}

std::string case_again_in_checkout(const CaseView& one) {
  return is_known(one) && !is_kernel(one) ? nsa::shell_text(words_of(one, "./nsa-harness")) : "";
}

}  // namespace reports
