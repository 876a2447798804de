#include "reports/sections/again.h"

#include <vector>

#include "harness/scenario/bisect.h"
#include "nsa/base/text.h"
#include "reports/selftest_tally.h"

namespace reports {
namespace {

std::string value_of(const harness::RunRecord& run, const std::string& name) {
  for (const auto& [key, value] : run.provenance.command) {
    if (key == name) return value;
  }
  return "";
}

// Runs of older versions did not say which program they were.
std::string program_of(const harness::RunRecord& run) {
  const std::string program = value_of(run, "program");
  return program.empty() ? "nsa-harness" : program;
}

std::string quoted(const std::string& word) {
  return nsa::shell_text(std::vector<std::string>{word});
}

// Draws depend on the seed, the file and the number of the draw: all draws of this file are the same again.
std::string selftest_again(const CaseView& one) {
  std::vector<std::string> words = {program_of(one.run), "selftest", one.the_case->scenario.path};
  for (const auto& [key, value] : one.run.provenance.command) {
    if (key == "full-size") words.push_back("--" + key);
    if (key != "profile" && key != "seed" && key != "draws") continue;
    words.push_back("--" + key);
    words.push_back(value);
  }
  const std::string database = value_of(one.run, "database");
  if (!database.empty()) words.insert(words.end(), {"--db", database});
  return nsa::shell_text(words);
}

}  // namespace

std::string on_database(const harness::RunRecord& run, const std::string& words) {
  const std::string database = value_of(run, "database");
  return quoted(program_of(run)) + " " + words +
         (database.empty() ? "" : " --db " + quoted(database));
}

std::string run_again(const harness::RunRecord& run) {
  const std::string name = "nsa-harness";
  std::string command = run.provenance.argv;
  if (command.starts_with(name + " "))
    command = quoted(program_of(run)) + command.substr(name.size());
  const std::string folder = value_of(run, "directory");
  return folder.empty() ? command : "cd " + quoted(folder) + " && " + command;
}

std::string case_again(const CaseView& one) {
  if (!one.the_case || one.the_case->scenario.path.empty()) return run_again(one.run);
  if (is_selftest(one.run)) return selftest_again(one);
  std::vector<std::string> words = {program_of(one.run), "run", one.the_case->scenario.path};
  for (const auto& [key, value] : one.run.provenance.command) {
    if (key != "profile" && key != "seed" && key != "set") continue;
    words.push_back("--" + key);
    words.push_back(value);
  }
  auto point = one.the_case->point;
  if (harness::is_trial(*one.the_case) && !point.empty()) point.pop_back();
  for (const auto& [axis, value] : point) {
    words.emplace_back("--only");
    words.push_back(axis + "=" + value);
  }
  const std::string database = value_of(one.run, "database");
  if (!database.empty()) words.insert(words.end(), {"--db", database});
  return nsa::shell_text(words);
}

}  // namespace reports
