#include <iostream>
#include <memory>

#include <CLI/CLI.hpp>

#include "harness/cli/explain/case.h"
#include "harness/cli/explain/code.h"
#include "harness/cli/find_run.h"
#include "harness/cli/output.h"
#include "harness/cli/paths.h"
#include "harness/cli/verbs.h"
#include "harness/scenario/exit_code.h"
#include "nsa/base/error.h"
#include "nsa/base/yaml.h"

namespace harness::cli {
namespace {

struct ExplainArguments {
  std::vector<std::string> words;
  std::string database;
  bool json = false;
  bool markdown = false;
};

int explain_all(const ExplainArguments& arguments) {
  const CodeUses uses = code_uses(find_paths().scenarios());
  if (arguments.markdown) {
    std::cout << codes_markdown(uses);
  } else if (arguments.json) {
    auto codes = nlohmann::json::array();
    for (const Code& code : all_codes()) codes.push_back(code_json(code, uses));
    std::cout << nlohmann::json({{"codes", std::move(codes)}}).dump() << "\n";
  } else {
    std::cout << codes_text();
  }
  return kExitPass;
}

int explain_code(const ExplainArguments& arguments) {
  const Code* code = find_code(arguments.words[0]);
  if (code == nullptr) {
    if (arguments.words[0].find('.') == std::string::npos) {  // a code has a point
      throw nsa::Error(
          "explain " + arguments.words[0] +
          ": found one word that is no code, wanted a code, or a run and one of its cases");
    }
    nsa::throw_unknown_name({}, "code", arguments.words[0], code_names());
  }
  const CodeUses uses = code_uses(find_paths().scenarios());
  if (arguments.json) {
    std::cout << code_json(*code, uses).dump() << "\n";
  } else {
    std::cout << code_text(*code, uses);
  }
  return kExitPass;
}

int explain_case(const ExplainArguments& arguments) {
  const auto store = Store::open_read_only(database_path(arguments.database));
  const auto run = find_run(*store, arguments.words[0]);
  if (!run) return kExitNothing;
  const CaseRecord record = find_case(*store, *run, arguments.words[1]);
  if (!record.judgement) {
    log_line("case " + record.label + " was never judged");
    return kExitNothing;
  }
  if (arguments.json) {
    nlohmann::json object = case_json(record);
    object["run"] = run->name;
    std::cout << object.dump() << "\n";
  } else {
    std::cout << case_text(record);
  }
  return kExitPass;
}

int explain(const ExplainArguments& arguments) {
  const std::size_t words = arguments.words.size();
  if (arguments.markdown && (words > 0 || arguments.json)) {
    throw nsa::Error("explain: --markdown prints all codes, and nothing may stand beside it");
  }
  if (words == 0) return explain_all(arguments);
  return words == 1 ? explain_code(arguments) : explain_case(arguments);
}

}  // namespace

Action add_explain(CLI::App& command) {
  const auto arguments = std::make_shared<ExplainArguments>();
  command
      .add_option("what",
                  arguments->words,
                  "A code, or a run (name, number or last) and one of its cases (label or number); "
                  "nothing: all codes")
      ->expected(0, 2);
  command.add_option("--db",
                     arguments->database,
                     "The database (default: NSA_HARNESS_DB, or in your data folder)");
  command.add_flag("--json", arguments->json, "Print one object instead of lines");
  command.add_flag("--markdown", arguments->markdown, "Print docs/codes.md");
  return [arguments] { return explain(*arguments); };
}

}  // namespace harness::cli
