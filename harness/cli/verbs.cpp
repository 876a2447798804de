#include "harness/cli/verbs.h"

#include <algorithm>
#include <cerrno>
#include <exception>
#include <filesystem>
#include <iostream>
#include <new>

#include <CLI/CLI.hpp>

#include "harness/cli/output.h"
#include "harness/cli/running/command_case.h"
#include "harness/cli/signals.h"
#include "harness/scenario/exit_code.h"
#include "nsa/base/error.h"
#include "nsa/base/yaml.h"

namespace harness::cli {
namespace {

std::vector<std::string>& words() {
  static std::vector<std::string> words;
  return words;
}

constexpr const char* kAbout =
    "Runs Native Sparse Attention training cases, judges what was observed against an independent\n"
    "oracle, stores everything and writes the report.";

constexpr const char* kExitCodes =
    "Exit codes: 0 passed, 1 failed, 2 inconclusive, 3 bad usage or scenario, 4 nothing judged,\n"
    "5 interrupted or incomplete, 6 error of the harness or the machine, 70 internal error.";

// A result that nobody got is none, however well it was made.
int with_what_was_printed(int code) {
  if (std::cout.flush()) return code;
  log_line("stdout was lost: what was to be printed did not arrive");
  return code == kExitPass ? kExitIncomplete : code;
}

// 0 for --help, else bad usage.
int parse_failure(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
    return app.exit(error) == 0 ? with_what_was_printed(kExitPass) : kExitInternal;
  }
  std::string hint = " (nsa-harness --help)";
  for (const CLI::App* command : app.get_subcommands())
    hint = " (nsa-harness " + command->get_name() + " --help)";
  log_line(error.what() + hint);
  return kExitUsage;
}

// "help" and "help VERB" as people type them: what --help says.
std::vector<std::string> without_help_verb(std::vector<std::string> given) {
  if (given.size() < 2 || given[1] != "help") return given;
  given.erase(given.begin() + 1);
  given.emplace_back("--help");
  return given;
}

// CLI11 says only that a verb is missing when it does not know the word.
void refuse_unknown_verb(const std::vector<std::string>& given) {
  if (given.size() < 2 || given[1].empty() || given[1].front() == '-') return;
  std::vector<std::string> names;
  for (const Verb& verb : verbs()) names.emplace_back(verb.name);
  if (std::find(names.begin(), names.end(), given[1]) == names.end()) {
    nsa::throw_unknown_name({}, "verb", given[1], names);
  }
}

// An empty word is a variable of somebody's script that was not set. No option means anything by it; one whose value may be left
// out has such a word where it was.
void refuse_empty_words(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_expected_min() == 0) continue;
    for (const std::string& word : option->results()) {
      if (word.empty()) {
        throw nsa::Error(option->get_name() + ": found an empty word, wanted a value");
      }
    }
  }
  for (const CLI::App* part : command.get_subcommands()) refuse_empty_words(*part);
}

int guarded(const Action& action) {
  try {
    return action();
  } catch (const nsa::Error& error) {
    log_line(error.what());
    return exit_code(error);
  } catch (const std::filesystem::filesystem_error& error) {  // of a path that the user gave
    log_line(error.what());
    const bool full =
        error.code() == std::errc::no_space_on_device || error.code().value() == EDQUOT;
    return full ? kExitIncomplete : kExitUsage;
  } catch (const std::bad_alloc&) {
    log_line("internal error: out of memory");
  } catch (const std::exception& error) {
    log_line(std::string("internal error: ") + error.what());
  }
  return kExitInternal;
}

}  // namespace

const std::vector<Verb>& verbs() {
  static const std::vector<Verb> list = {
      {"run",
       "Run scenarios, judge them, store everything, write the report",
       "nsa-harness run scenarios/ddp_onestep.yaml --set parallel.ranks=4 --set "
       "fault=averaged_twice",
       add_run},
      {"list",
       "Show scenarios, checks and faults, every key of a scenario, or the stored runs",
       "nsa-harness list --schema",
       add_list},
      {"report",
       "Write the report of the last run, of one run, or of a range",
       "nsa-harness report --since yesterday",
       add_report},
      {"compare",
       "Compare two stored runs, case by case by their content",
       "nsa-harness compare 41 last",
       add_compare},
      {"history",
       "Show what a case took over the nights, and what is said of each night",
       "nsa-harness history throughput --nights 14",
       add_history},
      {"baseline",
       "Accept the times of a run as what they are meant to be, or show what was accepted",
       "nsa-harness baseline accept throughput --run last --because 'a larger model'",
       add_baseline},
      {"bisect",
       "Find the commit that made a test fail or a case slower; builds are kept",
       "nsa-harness bisect --commits v1 HEAD --slower './nsa-harness run "
       "scenarios/throughput.yaml'",
       add_bisect},
      {"judge",
       "Judge a stored run again; the new verdicts stand beside the old",
       "nsa-harness judge last",
       add_judge},
      {"explain",
       "Explain a code, or the findings of a stored case",
       "nsa-harness explain GRAD.MISSING",
       add_explain},
      {"bundle",
       "Put a stored case that failed into one file, made smaller, for a colleague",
       "nsa-harness bundle last 1 --out failure.tar.zst",
       add_bundle},
      {"replay",
       "Run the case of a bundle here, and tell whether it fails in the same way",
       "nsa-harness replay failure.tar.zst --out replayed",
       add_replay},
      {"diagnose",
       "Find what a stored failure depends on: take things away from its case until it is gone",
       "nsa-harness diagnose last 3 --budget 60",
       add_diagnose},
      {"attach",
       "Look at processes that hang at this moment: stacks, waits, a verdict",
       "nsa-harness attach 4711",
       add_attach},
      {"join",
       "The agent beside a rank; the launcher of run --launcher starts it, not you",
       "nsa-harness join",
       add_join},
      {"golden",
       "Compare somebody else's tensors with the oracle and the model, stage by stage",
       "nsa-harness golden mine.safetensors --export exported",
       add_golden},
      {"selftest",
       "Plant every fault at drawn places, beside the same case without it; count what is found",
       "nsa-harness selftest --part 1/3 --seed 7",
       add_selftest},
      {"nightly",
       "Run one night: look at the machine, run cases, report, delete old files",
       "nsa-harness nightly --budget 3h",
       add_nightly},
      {"db",
       "Care of the database: check, rebuild, merge, prune, vacuum, export",
       "nsa-harness db prune --keep 90d",
       add_db},
      {"doctor", "Look at this machine and this build", "nsa-harness doctor --json", add_doctor},
      {"version", "Say what this program was built from", "nsa-harness version", add_version},
      {"completion",
       "Print a script that completes verbs and options in bash",
       "nsa-harness completion bash > ~/.local/share/bash-completion/completions/nsa-harness",
       add_completion},
  };
  return list;
}

const std::vector<std::string>& command_words() {
  return words();
}

int run_command_line(int argc, char** argv) {
  survive_failed_writes();
  words().assign(argv, argv + argc);
  if (!words().empty()) words().front() = "nsa-harness";
  std::vector<std::string> given = without_words_after_dashes(without_help_verb(words()));
  const int known = guarded([&] {
    refuse_unknown_verb(given);
    return kExitPass;
  });
  if (known != kExitPass) return known;
  CLI::App app(kAbout, "nsa-harness");
  app.footer(kExitCodes);
  app.require_subcommand(1);
  app.set_version_flag("--version", version_line());
  std::vector<std::pair<CLI::App*, Action>> actions;
  for (const Verb& verb : verbs()) {
    CLI::App* command = app.add_subcommand(verb.name, verb.about);
    command->footer(std::string("Example: ") + verb.example);
    actions.emplace_back(command, verb.add(*command));
  }
  try {
    std::vector<std::string> last_first(given.rbegin(), given.rend() - (given.empty() ? 0 : 1));
    app.parse(last_first);
  } catch (const CLI::ParseError& error) {
    return parse_failure(app, error);
  }
  for (const auto& [command, action] : actions) {
    if (!command->parsed()) continue;
    return with_what_was_printed(guarded([&, app = command, act = action] {
      refuse_empty_words(*app);
      return act();
    }));
  }
  return kExitInternal;
}

}  // namespace harness::cli
