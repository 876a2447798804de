#include <algorithm>
#include <cstddef>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include <CLI/CLI.hpp>

#include "harness/cli/find_run.h"
#include "harness/cli/output.h"
#include "harness/cli/paths.h"
#include "harness/cli/verbs.h"
#include "harness/evidence/rows.h"
#include "harness/scenario/case_json.h"
#include "harness/scenario/exit_code.h"
#include "harness/store/case_evidence.h"
#include "reports/comparison.h"
#include "reports/markdown.h"
#include "reports/paired_times.h"
#include "reports/partings.h"
#include "reports/result_differences.h"

namespace harness::cli {
namespace {

struct CompareArguments {
  std::string before;
  std::string now;
  std::vector<std::pair<std::string, std::string>> pairs;  // of further launches
  std::string database;
  bool json = false;
};

struct Compared {
  reports::Comparison comparison;
  reports::ResultDifferences results;
  std::vector<reports::Parting> partings;  // of trainings of the user's own
  std::vector<reports::PairedCell> paired;
  bool in_turn = false;  // several pairs: their times stand for those against earlier nights
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

nlohmann::json results_json(const reports::ResultDifferences& results) {
  auto series = nlohmann::json::array();
  for (const reports::SeriesDifference& one : results.series) {
    series.push_back({{"case", one.label},
                      {"result", one.result},
                      {"steps", one.steps},
                      {"steps_that_differ", one.others},
                      {"first_step", one.first},
                      {"before", Real(one.before)},
                      {"now", Real(one.now)},
                      {"largest_share", Real(one.largest)}});
  }
  auto tensors = nlohmann::json::array();
  for (const reports::TensorDifference& one : results.tensors) {
    tensors.push_back({{"case", one.label},
                       {"files", one.files},
                       {"differ", one.others},
                       {"only_in_one", one.missing}});
  }
  return {{"series", series},
          {"series_compared", results.series_compared},
          {"tensors", tensors},
          {"files_compared", results.files_compared}};
}

nlohmann::json partings_json(const std::vector<reports::Parting>& partings) {
  auto all = nlohmann::json::array();
  for (const reports::Parting& one : partings) {
    all.push_back({{"case", one.label}, {"steps", one.steps}});
    if (!one.step) continue;
    nlohmann::json& last = all.back();
    last["first_step"] = *one.step;
    last["differs"] = one.what;
    last["same"] = one.same;
    last["ranks"] = one.ranks;
    if (one.last_same) last["parameters_same_after"] = *one.last_same;
    if (!one.recorded) continue;
    last["recorded_step"] = *one.recorded;
    last["parameters"] = one.tensors;
    last["parameters_compared"] = one.tensors_compared;
  }
  return all;
}

nlohmann::json change_json(const history::PairedChange& change) {
  return {{"log", Real(change.change)}, {"low", Real(change.low)}, {"high", Real(change.high)}};
}

nlohmann::json paired_json(const std::vector<reports::PairedCell>& cells) {
  auto all = nlohmann::json::array();
  for (const reports::PairedCell& cell : cells) {
    all.push_back({{"case", cell.label},
                   {"pairs", cell.pairs},
                   {"before_ms", Real(cell.before_ms)},
                   {"now_ms", Real(cell.now_ms)},
                   {"step", change_json(cell.step)},
                   {"control", change_json(cell.control)},
                   {"step_beside_control", change_json(cell.beside)},
                   {"verdict", history::name_of(cell.verdict)},
                   {"reason", cell.reason}});
  }
  return all;
}

bool is_open(history::TimeVerdict verdict) {
  return verdict == history::TimeVerdict::unknown ||
         verdict == history::TimeVerdict::not_comparable;
}

// Cases whose times were measured and not judged.
std::ptrdiff_t unjudged_times(const Compared& compared) {
  const auto& cells = compared.comparison.times;
  const auto& paired = compared.paired;
  return compared.in_turn ? std::count_if(paired.begin(),
                                          paired.end(),
                                          [](const auto& cell) { return is_open(cell.verdict); })
                          : std::count_if(cells.begin(), cells.end(), [](const auto& cell) {
                              return is_open(cell.judgement.verdict);
                            });
}

int exit_code_of(const Compared& compared) {
  if (compared.comparison.in_both == 0) return compared.partings.empty() ? kExitNothing : kExitPass;
  const bool calm = compared.comparison.is_calm() && !reports::any_slower(compared.paired);
  if (!calm) return kExitFailed;
  return unjudged_times(compared) > 0 ? kExitInconclusive : kExitPass;
}

std::string library_of(const RunRecord& run) {
  std::string torch = "none";
  std::string cuda = "no CUDA";
  for (const auto& [name, value] : run.provenance.machine) {
    if (name == "torch") torch = value;
    if (name == "cuda") cuda = "CUDA " + value;
  }
  return "LibTorch " + torch + ", " + cuda;
}

// "" where both ran with the same one.
std::string libraries_line(const RunRecord& before, const RunRecord& now) {
  const std::string was = library_of(before);
  const std::string is = library_of(now);
  if (was == is) return "";
  return "Before: " + reports::escape(was) + ". Now: " + reports::escape(is) + ".\n\n";
}

std::vector<const CaseRecord*> commands_of(const std::vector<CaseRecord>& cases) {
  std::vector<const CaseRecord*> commands;
  for (const CaseRecord& one : cases) {
    if (one.skip_reason.empty() &&
        case_from_json(one.case_json, "the case " + one.label).scenario.is_command())
      commands.push_back(&one);
  }
  return commands;
}

reports::Training training_of(const RunRecord& run, const CaseRecord& record) {
  return {read_recorded(run, record).evidence, run.folder + "/" + record.folder};
}

// Of commands with the same words, and of the only ones of their runs: a script is often started with others the second time.
std::vector<reports::Parting> partings_of(const RunRecord& before,
                                          const std::vector<CaseRecord>& earlier,
                                          const RunRecord& now,
                                          const std::vector<CaseRecord>& later) {
  const std::vector<const CaseRecord*> were = commands_of(earlier);
  const std::vector<const CaseRecord*> are = commands_of(later);
  const bool lone = were.size() == 1 && are.size() == 1;
  std::vector<reports::Parting> partings;
  for (const CaseRecord* one : are) {
    for (const CaseRecord* other : were) {
      if (!lone && other->history_id != one->history_id) continue;
      try {
        auto parting =
            reports::find_parting(one->label, training_of(before, *other), training_of(now, *one));
        if (parting) partings.push_back(std::move(*parting));
      } catch (const nsa::Error& error) {
        log_line(one->label + ": its steps are not compared: " + error.what());
      }
      break;
    }
  }
  return partings;
}

Compared compare_both(const Store& store, const std::vector<reports::RunPair>& pairs) {
  const auto& [before, now] = pairs.front();
  const std::vector<CaseRecord> earlier = store.cases(before.id);
  const std::vector<CaseRecord> later = store.cases(now.id);
  Compared compared;
  compared.comparison = reports::compare_runs(store, before, earlier, now, later);
  compared.results = reports::compare_results(earlier, later);
  compared.partings = partings_of(before, earlier, now, later);
  compared.in_turn = pairs.size() > 1;
  compared.paired = reports::pair_times(store, pairs);
  if (compared.in_turn) compared.comparison.times.clear();
  return compared;
}

int compare(const CompareArguments& arguments) {
  const auto store = Store::open_read_only(database_path(arguments.database), &log_line);
  std::vector<std::pair<std::string, std::string>> words = arguments.pairs;
  words.insert(words.begin(), {arguments.before, arguments.now});
  std::vector<reports::RunPair> pairs;
  for (const auto& [before, now] : words) {
    const auto first = find_run(*store, before);
    const auto second = find_run(*store, now);
    if (!first || !second) return kExitNothing;
    pairs.emplace_back(*first, *second);
  }
  const auto& [before, now] = pairs.front();
  const Compared compared = compare_both(*store, pairs);
  const int code = exit_code_of(compared);
  if (arguments.json) {
    nlohmann::json object = comparison_json(compared.comparison);
    object["exit"] = code;
    object["before"] = before.name;
    object["now"] = now.name;
    object["results"] = results_json(compared.results);
    object["trainings"] = partings_json(compared.partings);
    object["paired"] = paired_json(compared.paired);
    std::cout << object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
    return code;
  }
  std::cout << "# " << reports::escape(now.name) << " against " << reports::escape(before.name)
            << "\n\n"
            << libraries_line(before, now) << reports::comparison_line(compared.comparison)
            << "\n\n"
            << reports::partings_text(compared.partings)
            << (compared.partings.empty() ? reports::results_text(compared.results) : "")
            << (compared.in_turn ? reports::paired_text(compared.paired) +
                                       reports::untimed_text(compared.comparison)
                                 : reports::comparison_text(compared.comparison));
  if (compared.comparison.in_both == 0 && compared.partings.empty()) {
    log_line("the two runs have no case in common that both judged");
  }
  if (code == kExitInconclusive) {
    log_line("nothing is worse, but times of " + std::to_string(unjudged_times(compared)) +
             " cases were not judged: UNKNOWN or NOT_COMPARABLE above");
  }
  return code;
}

}  // namespace

Action add_compare(CLI::App& command) {
  const auto arguments = std::make_shared<CompareArguments>();
  command.add_option("before", arguments->before, "A run's name or number, or last")->required();
  command.add_option("now", arguments->now, "The run that is compared with it")->required();
  command.add_option(
      "--pair",
      arguments->pairs,
      "A further launch of both, BEFORE NOW; repeatable. Times are then compared by pairs");
  command.add_option("--db",
                     arguments->database,
                     "The database (default: NSA_HARNESS_DB, or in your data folder)");
  command.add_flag("--json", arguments->json, "Print one object instead of lines");
  return [arguments] { return compare(*arguments); };
}

}  // namespace harness::cli
