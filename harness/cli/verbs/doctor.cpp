#include "harness/cli/machine/doctor.h"

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include <CLI/CLI.hpp>

#include "harness/cli/verbs.h"
#include "harness/scenario/exit_code.h"

namespace harness::cli {
namespace {

struct DoctorArguments {
  std::string database;
  bool json = false;
};

int doctor(const DoctorArguments& arguments) {
  bool failed = false;
  auto entries = nlohmann::json::array();
  for (const Fact& fact :
       examine(database_path(arguments.database), look_at_machine(), find_paths())) {
    failed = failed || fact.health == Health::failed;
    entries.push_back({{"name", fact.name}, {"health", name_of(fact.health)}, {"text", fact.text}});
    if (!arguments.json)
      std::cout << name_of(fact.health) << "\t" << fact.name << ": " << fact.text << "\n";
  }
  const int code = failed ? kExitError : kExitPass;
  if (arguments.json) {
    const nlohmann::json all = {{"exit", code}, {"facts", entries}};
    std::cout << all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
  }
  return code;
}

}  // namespace

Action add_doctor(CLI::App& command) {
  const auto arguments = std::make_shared<DoctorArguments>();
  command.add_option("--db",
                     arguments->database,
                     "The database (default: NSA_HARNESS_DB, or in your data folder)");
  command.add_flag("--json", arguments->json, "Print one object instead of lines");
  return [arguments] { return doctor(*arguments); };
}

}  // namespace harness::cli
