// A script for bash, made from the verbs and options that the program really has.
#include <iostream>
#include <memory>

#include <CLI/CLI.hpp>

#include "harness/cli/verbs.h"
#include "harness/scenario/exit_code.h"
#include "nsa/base/text.h"

namespace harness::cli {
namespace {

std::vector<std::string> words_of(const CLI::App& command) {
  std::vector<std::string> words;
  for (const CLI::App* part : command.get_subcommands([](const CLI::App*) { return true; })) {
    words.push_back(part->get_name());
  }
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) words.push_back("--" + name);
  }
  return words;
}

// Options of a verb, those of its parts as well: `db prune --keep`.
std::vector<std::string> all_words_of(const CLI::App& command) {
  std::vector<std::string> words = words_of(command);
  for (const CLI::App* part : command.get_subcommands([](const CLI::App*) { return true; })) {
    for (const std::string& word : words_of(*part)) words.push_back(word);
  }
  return words;
}

int print_script(const CLI::App& program) {
  std::cout << "_nsa_harness() {\n"
               "  local word=${COMP_WORDS[COMP_CWORD]} words=\n"
               "  case $COMP_CWORD:${COMP_WORDS[1]} in\n"
            << "    1:*) words='help " << nsa::join(words_of(program), " ") << "' ;;\n";
  for (const CLI::App* verb : program.get_subcommands([](const CLI::App*) { return true; })) {
    std::cout << "    *:" << verb->get_name() << ") words='" << nsa::join(all_words_of(*verb), " ")
              << "' ;;\n";
  }
  std::cout
      << "  esac\n"
         "  if [[ $COMP_CWORD -eq 1 || $word == -* || ${COMP_WORDS[1]} == db ]]; then\n"
         "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
         "  fi\n"
         "  [[ ${#COMPREPLY[@]} -gt 0 ]] || mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n"
         "}\n"
         "complete -o filenames -F _nsa_harness nsa-harness ./nsa-harness\n";
  return kExitPass;
}

}  // namespace

Action add_completion(CLI::App& command) {
  const auto shell = std::make_shared<std::string>("bash");
  command.add_option("shell", *shell, "The shell: bash")
      ->check(CLI::IsMember({"bash"}))
      ->capture_default_str();
  return [shell, &command] { return print_script(*command.get_parent()); };
}

}  // namespace harness::cli
