#include "harness/cli/running/command_case.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "harness/judge/asked.h"
#include "harness/scenario/case_json.h"
#include "nsa/base/secrets.h"

namespace harness::cli {
namespace {

std::vector<std::string>& stored_words() {
  static std::vector<std::string> words;
  return words;
}

// The last word that names a Python file, else the program.
std::string script_of(const std::vector<std::string>& argv) {
  const auto script = std::find_if(
      argv.begin(), argv.end(), [](const std::string& word) { return word.ends_with(".py"); });
  return std::filesystem::path(script != argv.end() ? *script : argv.front()).stem().string();
}

// "" where it is gone: the command may do without.
std::string own_folder() {
  std::error_code error;
  const std::string folder = std::filesystem::current_path(error).string();
  return error ? "" : folder;
}

std::string scenario_name(const std::vector<std::string>& argv) {
  constexpr std::size_t kLongest = 64;
  std::string name;
  for (const unsigned char c : script_of(argv).substr(0, kLongest)) {
    name += std::isalnum(c) != 0 ? static_cast<char>(std::tolower(c)) : '_';
  }
  return name.empty() ? "command" : name;
}

}  // namespace

const std::vector<std::string>& words_after_dashes() {
  return stored_words();
}

std::vector<std::string> without_words_after_dashes(std::vector<std::string> words) {
  const auto dashes = std::find(words.begin(), words.end(), "--");
  if (words.size() < 2 || words[1] != "run" || dashes == words.end()) return words;
  stored_words().assign(dashes + 1, words.end());
  words.erase(dashes, words.end());
  return words;
}

Case case_of_command(const CommandConfig& command, double budget_seconds) {
  nlohmann::json stored_command = {{"argv", kept_words(command)}, {"directory", own_folder()}};
  if (command.watch) stored_command["watch"] = true;
  const nlohmann::json document = {{"version", 1},
                                   {"scenario", scenario_name(command.argv)},
                                   {"kind", kCommandKind},
                                   {"command", stored_command},
                                   {"budget", {{"seconds", budget_seconds}}},
                                   {"checks",
                                    {"process_clean",
                                     "progress",
                                     kSaysScope,
                                     "gradients_arrived",
                                     "gradients_agree",
                                     "parameters_agree",
                                     "data_distinct",
                                     "collectives_agree",
                                     "finite"}}};
  const nlohmann::json stored = {{"id", ""},
                                 {"path", ""},
                                 {"profile", ""},
                                 {"data", nlohmann::json::array()},
                                 {"text", document.dump(2) + "\n"},
                                 {"scenario", document}};
  Case the_case = case_from_json(stored.dump(), "the command line");
  the_case.scenario.command.argv = command.argv;  // with what is not stored
  the_case.scenario.command.keeps_arguments = command.keeps_arguments;
  the_case.id = case_id(the_case);
  return the_case;
}

std::vector<std::string> kept_command_line(const std::vector<std::string>& words,
                                           bool keeps_arguments) {
  const auto dashes = std::find(words.begin(), words.end(), "--");
  std::vector<std::string> kept = nsa::words_without_secrets({words.begin(), dashes});
  if (dashes == words.end()) return kept;
  kept.emplace_back("--");
  CommandConfig command;
  command.argv.assign(dashes + 1, words.end());
  command.keeps_arguments = keeps_arguments;
  for (std::string& word : kept_words(command)) kept.push_back(std::move(word));
  return kept;
}

}  // namespace harness::cli
