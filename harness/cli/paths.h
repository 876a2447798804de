// Where everything is: what belongs to this very binary, and where the user's runs go. Nothing is guessed from the current
// folder.
#pragma once

#include <string>
#include <vector>

#include "harness/scenario/manifest.h"
#include "harness/scenario/scenario.h"

namespace harness::cli {

struct Paths {
  std::string worker;    // beside the controller
  std::string manifest;  // share/nsa-harness/manifest.json above the controller's folder
  std::string corpus;    // corpus.txt beside the manifest: what a scenario without a text trains on
  std::string package;   // the folder that holds the Python package nsa_harness; "": not found
  std::string
      fingerprint;  // the library by which ranks of a command take fingerprints; "": not found
  std::string
      tree;  // holds configs and scenarios: NSA_HARNESS_TREE, else share/nsa-harness of the installed tree

  [[nodiscard]] std::string configs() const { return tree + "/configs"; }
  [[nodiscard]] std::string scenarios() const { return tree + "/scenarios"; }
};

// Throws: nsa::Error if this process cannot tell where its own binary is.
[[nodiscard]] Paths find_paths();

// `given` if not empty, else NSA_HARNESS_DB, else runs.db in the user's data folder. Absolute.
// Throws: nsa::Error if none is known.
[[nodiscard]] std::string database_path(const std::string& given);

// Where run folders are made: `out` if not empty, else `runs` beside the database. Absolute.
[[nodiscard]] std::string runs_folder(const std::string& database, const std::string& out);

// Files as they are, folders as the .yaml files in them at any depth, sorted. Throws: nsa::Error naming what is missing or
// holds no scenario.
[[nodiscard]] std::vector<std::string> scenario_files(const std::vector<std::string>& given);

// The manifest of the worker beside this controller. Throws: nsa::Error if there is none.
[[nodiscard]] Manifest load_own_manifest(const Paths& paths);

// The same with what needs no worker: kind `kernel`. An installation without a worker has nothing but that.
[[nodiscard]] bool has_worker(const Paths& paths);
[[nodiscard]] Manifest manifest_to_run(const Paths& paths);

// How the worker is started for something else than a rank, with the LibTorch that NSA_TORCH names.
[[nodiscard]] std::vector<std::string> worker_argv(const Paths& paths,
                                                   const std::vector<std::string>& arguments);

// The Python that runs a kernel of the user's own: NSA_HARNESS_PYTHON, else the first python3 on PATH; "" where there is none.
[[nodiscard]] std::string users_python();

// What is known here of scenarios: configurations, checks, corpus, `gpus`.
[[nodiscard]] ScenarioOptions scenario_options(const Paths& paths, int gpus);

}  // namespace harness::cli
