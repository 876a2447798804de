#include "harness/cli/bundle/tries.h"

#include <cstdlib>
#include <filesystem>

#include "harness/cli/paths.h"
#include "harness/cli/running/case_needs.h"
#include "harness/cli/running/run_options.h"
#include "harness/cli/verbs.h"
#include "harness/scenario/known_names.h"
#include "nsa/base/error.h"
#include "nsa/base/file.h"
#include "nsa/base/hash.h"

namespace harness::cli {
namespace {

namespace fs = std::filesystem;

std::string make_folder_in(const std::string& beside) {
  std::error_code error;
  fs::create_directories(beside, error);
  std::string folder = beside + "/tries_XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) {
    throw nsa::Error(nsa::system_error_text("make the folder", folder));
  }
  return folder;
}

std::string written_text(const std::string& text, const std::string& folder) {
  const std::string path = folder + "/" + nsa::hash_hex(text) + ".txt";
  std::error_code error;
  if (!fs::exists(path, error)) nsa::write_durably(path, text);
  return path;
}

}  // namespace

Case case_to_run(const Case& the_case,
                 const std::string& text,
                 const std::string& folder,
                 const Paths& paths,
                 const Manifest& manifest,
                 const Machine& machine) {
  const std::string where = "the bundle's case";
  Case here = case_from_json(case_to_json(the_case), where);
  const ScenarioOptions options = scenario_options(paths, static_cast<int>(machine.gpus.size()));
  require_known_names(here, options.known_checks, manifest, where);
  // A case that reads none must name one that exists.
  here.scenario.training.data.text = {reads_text(here) ? written_text(text, folder) : paths.corpus};
  return here;
}

Tries::Tries(const std::string& beside,
             std::string text,
             const Paths& paths,
             const Manifest& manifest)
    : folder_(make_folder_in(beside)), text_(std::move(text)), paths_(paths), manifest_(manifest) {
  RunOptions options;
  options.database = folder_ + "/runs.db";
  options.out = folder_ + "/runs";
  options.quiet = true;
  plan_ = empty_plan(options, paths);
  complete_plan(plan_, options, paths, manifest, command_words(), {{"verb", "bundle"}});
}

Tries::~Tries() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

std::string Tries::unrunnable(const Case& the_case) const {
  try {
    (void)case_to_run(the_case, text_, folder_, paths_, manifest_, plan_.machine);
  } catch (const nsa::Error& error) {
    return error.what();
  }
  return missing_requirement(the_case.scenario, plan_.machine, manifest_);
}

Judgement Tries::run(const Case& the_case) {
  RunPlan plan = plan_;
  plan.cases = {case_to_run(the_case, text_, folder_, paths_, manifest_, plan_.machine)};
  plan.unmet.emplace_back();
  RunSession session(std::move(plan));
  session.run();
  const std::optional<Judgement> judgement = session.records().front().judgement;
  std::error_code ignored;
  fs::remove_all(session.record().folder, ignored);  // its tensors may be gigabytes
  return judgement.value_or(Judgement());
}

}  // namespace harness::cli
