#include "harness/cli/paths.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <unistd.h>

#include "harness/checks/list.h"
#include "harness/run/build_info.h"
#include "nsa/base/error.h"

namespace harness::cli {
namespace {

namespace fs = std::filesystem;
using nsa::Error;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

}  // namespace

Paths find_paths() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (error) throw Error("cannot tell where this program is: /proc/self/exe: " + error.message());
  const fs::path share = self.parent_path().parent_path() / "share" / "nsa-harness";
  Paths paths;
  paths.worker = (self.parent_path() / "nsa-harness-worker").string();
  paths.manifest = (share / "manifest.json").string();
  paths.corpus = (share / "corpus.txt").string();
  const std::string tree = variable("NSA_HARNESS_TREE");
  // In a wheel this program lies in the package: nsa_harness/bin/nsa-harness.
  const fs::path above = self.parent_path().parent_path();
  for (const fs::path& folder : {above.parent_path(), fs::path(tree) / "python"}) {
    if (fs::exists(folder / "nsa_harness" / "kernel_process.py", error))
      paths.package = fs::absolute(folder).lexically_normal().string();
  }
  const fs::path library = above / "lib" / "libnsa_fingerprint.so";
  if (fs::is_regular_file(library, error)) paths.fingerprint = library.string();
  paths.tree = tree.empty() ? share.string() : fs::absolute(tree).lexically_normal().string();
  return paths;
}

std::string database_path(const std::string& given) {
  std::string path = given.empty() ? variable("NSA_HARNESS_DB") : given;
  if (path.empty()) {
    std::string data = variable("XDG_DATA_HOME");
    const std::string home = variable("HOME");
    if (data.empty() && !home.empty()) data = home + "/.local/share";
    if (data.empty()) {
      throw Error(
          "no place for the database: found neither HOME nor XDG_DATA_HOME, wanted --db FILE");
    }
    path = data + "/nsa-harness/runs.db";
  }
  return fs::absolute(path).lexically_normal().string();
}

std::string runs_folder(const std::string& database, const std::string& out) {
  const fs::path folder =
      out.empty() ? fs::path(database).parent_path() / "runs" : fs::absolute(out);
  return folder.lexically_normal().string();
}

std::vector<std::string> scenario_files(const std::vector<std::string>& given) {
  std::vector<std::string> files;
  for (const std::string& path : given) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      files.push_back(path);  // a missing file is told when it is read
      continue;
    }
    std::vector<std::string> inside;
    for (fs::recursive_directory_iterator at(path, error), end; !error && at != end;
         at.increment(error)) {
      if (at->path().extension() == ".yaml") inside.push_back(at->path().string());
    }
    if (error) throw Error("cannot read " + path + ": " + error.message());
    if (inside.empty())
      throw Error(nsa::Location{path}, "found no scenario (.yaml) in this folder");
    std::sort(inside.begin(), inside.end());
    files.insert(files.end(), inside.begin(), inside.end());
  }
  return files;
}

Manifest load_own_manifest(const Paths& paths) {
  std::error_code error;
  if (!fs::exists(paths.manifest, error)) {
    throw Error(
        nsa::Location{paths.manifest},
        "found no manifest, wanted the one that is built with the worker: nothing can be run "
        "with this build");
  }
  return load_manifest(paths.manifest);
}

bool has_worker(const Paths& paths) {
  std::error_code error;
  return fs::exists(paths.manifest, error);
}

Manifest manifest_to_run(const Paths& paths) {
  Manifest manifest;
  if (has_worker(paths)) {
    manifest = load_own_manifest(paths);
  } else {
    manifest.source_hash = built_source_hash();
  }
  manifest.kinds.emplace_back(kKernelKind);
  manifest.kinds.emplace_back(kCommandKind);
  return manifest;
}

std::vector<std::string> worker_argv(const Paths& paths,
                                     const std::vector<std::string>& arguments) {
  std::vector<std::string> argv;
  if (const std::string torch = variable("NSA_TORCH"); !torch.empty()) {
    const std::string libraries = variable("LD_LIBRARY_PATH");
    argv = {"env",
            "LD_LIBRARY_PATH=" + torch + "/lib" + (libraries.empty() ? "" : ":" + libraries)};
  }
  argv.push_back(paths.worker);
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return argv;
}

std::string users_python() {
  const std::string given = variable("NSA_HARNESS_PYTHON");
  if (!given.empty()) return given;
  std::istringstream folders(variable("PATH"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string path = folder + "/python3";
    if (!folder.empty() && access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

ScenarioOptions scenario_options(const Paths& paths, int gpus) {
  ScenarioOptions options;
  options.gpus = gpus;
  options.configs_folder = paths.configs();
  options.default_text = paths.corpus;
  for (const Check& check : all_checks()) options.known_checks.push_back(check.name);
  return options;
}

}  // namespace harness::cli
