#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include <CLI/CLI.hpp>

#include "harness/cli/find_run.h"
#include "harness/cli/output.h"
#include "harness/cli/paths.h"
#include "harness/cli/verbs.h"
#include "harness/evidence/rows.h"
#include "harness/scenario/exit_code.h"
#include "reports/comparison.h"
#include "reports/markdown.h"

namespace harness::cli {
namespace {

struct CompareArguments {
  std::string before;
  std::string now;
  std::string database;
  bool json = false;
};

nlohmann::json comparison_json(const reports::Comparison& comparison) {
  auto cells = nlohmann::json::array();
  for (const reports::CellDifference& cell : comparison.cells) {
    cells.push_back({{"change", reports::name_of(cell.change)},
                     {"scenario", cell.scenario},
                     {"case", cell.label},
                     {"before", cell.before},
                     {"now", cell.now},
                     {"reason", cell.reason}});
  }
  auto values = nlohmann::json::array();
  for (const reports::ValueDifference& value : comparison.values) {
    values.push_back({{"case", value.label},
                      {"metric", value.metric},
                      {"before", Real(value.before)},
                      {"now", Real(value.now)}});
  }
  return {{"cells", cells},
          {"same", comparison.same},
          {"in_both", comparison.in_both},
          {"values", values},
          {"values_compared", comparison.values_compared},
          {"not_comparable", comparison.not_comparable},
          {"around", comparison.around}};
}

int exit_code_of(const reports::Comparison& comparison) {
  if (comparison.in_both == 0) return kExitNothing;
  return comparison.is_calm() ? kExitPass : kExitFailed;
}

int compare(const CompareArguments& arguments) {
  const auto store = Store::open_read_only(database_path(arguments.database), &log_line);
  const auto before = find_run(*store, arguments.before);
  const auto now = find_run(*store, arguments.now);
  if (!before || !now) return kExitNothing;
  const reports::Comparison comparison =
      reports::compare_runs(*store, *before, store->cases(before->id), *now, store->cases(now->id));
  const int code = exit_code_of(comparison);
  if (arguments.json) {
    nlohmann::json object = comparison_json(comparison);
    object["exit"] = code;
    object["before"] = before->name;
    object["now"] = now->name;
    std::cout << object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
    return code;
  }
  std::cout << "# " << reports::escape(now->name) << " against " << reports::escape(before->name)
            << "\n\n"
            << reports::comparison_line(comparison) << "\n\n"
            << reports::comparison_text(comparison);
  if (comparison.in_both == 0) log_line("the two runs have no case in common that both judged");
  return code;
}

}  // namespace

Action add_compare(CLI::App& command) {
  const auto arguments = std::make_shared<CompareArguments>();
  command.add_option("before", arguments->before, "A run's name or number, or last")->required();
  command.add_option("now", arguments->now, "The run that is compared with it")->required();
  command.add_option("--db",
                     arguments->database,
                     "The database (default: NSA_HARNESS_DB, or in your data folder)");
  command.add_flag("--json", arguments->json, "Print one object instead of lines");
  return [arguments] { return compare(*arguments); };
}

}  // namespace harness::cli
