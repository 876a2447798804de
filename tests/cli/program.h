// The installed program with a worker that needs no LibTorch: bin/, share/, a home of its own.
#pragma once

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <sys/stat.h>
#include <vector>

#include "harness/cli/command.h"
#include "harness/run/build_info.h"
#include "harness/scenario/manifest.h"
#include "tests/fakes/manifest.h"
#include "tests/fakes/temp_folder.h"
#include "tests/fakes/where.h"

namespace fakes {

struct ProgramResult {
  int exit_code = -1;
  std::string out;
  std::string err;
};

class Program {
 public:
  Program() {
    namespace fs = std::filesystem;
    fs::create_directories(folder_ / "bin");
    fs::create_directories(share());
    fs::copy_file(fakes::programs() + "/nsa-harness", folder_ / "bin/nsa-harness");
    fs::copy(fakes::tree() + "/configs", share() + "/configs", fs::copy_options::recursive);
    set_mood("ok");
    set_source_hash(harness::built_source_hash());
    folder_.write("corpus.txt", std::string(1000, 'a'));
  }

  // How every rank will behave (fake_rank.cpp).
  void set_mood(const std::string& mood) const {
    const std::string worker =
        folder_.write("bin/nsa-harness-worker",
                      "#!/bin/sh\n[ \"$1\" = --version ] && echo fake && exit\nFAKE_MOOD=" + mood +
                          " exec \"" + fakes::programs() + "/fake_rank\" \"$@\"\n");
    chmod(worker.c_str(), 0755);
  }

  void set_source_hash(const std::string& hash) const {
    harness::Manifest manifest = fakes::worker_manifest();
    manifest.source_hash = hash;
    folder_.write("share/nsa-harness/manifest.json", harness::manifest_text(manifest));
  }

  // `lines` are added to a scenario whose only check is process_clean. Gives its path.
  [[nodiscard]] std::string scenario(const std::string& lines = "",
                                     const std::string& checks = "[process_clean]") const {
    return folder_.write("s.yaml",
                         "version: 1\nscenario: s\nkind: training\nmodel: {use: toy}\n"
                         "training: {seq_len: 16, data: {text: [corpus.txt]}}\nchecks: " +
                             checks + "\n" + lines);
  }

  // Runs it with nothing of this process's environment that names a database or a tree; ended with INT after `seconds`.
  [[nodiscard]] ProgramResult run(const std::vector<std::string>& words,
                                  const std::string& seconds = "120") const {
    std::vector<std::string> argv = {"env",
                                     "-u",
                                     "NSA_HARNESS_TREE",
                                     "-u",
                                     "NSA_HARNESS_DB",
                                     "-u",
                                     "XDG_DATA_HOME",
                                     "HOME=" + folder_.path(),
                                     "timeout",
                                     "--preserve-status",
                                     "-s",
                                     "INT",
                                     seconds,
                                     "sh",
                                     "-c",
                                     "exec \"$@\" 2>\"$HOME/err\"",
                                     "sh",
                                     folder_ / "bin/nsa-harness"};
    argv.insert(argv.end(), words.begin(), words.end());
    const harness::cli::CommandResult result = harness::cli::run_command(argv, 150'000);
    std::ifstream file(folder_ / "err");
    std::stringstream err;
    err << file.rdbuf();
    return {result.exit_code, result.out, err.str()};
  }

  [[nodiscard]] const TempFolder& folder() const { return folder_; }
  [[nodiscard]] std::string share() const { return folder_ / "share/nsa-harness"; }
  [[nodiscard]] std::string database() const {
    return folder_ / ".local/share/nsa-harness/runs.db";
  }
  [[nodiscard]] std::string runs() const { return folder_ / ".local/share/nsa-harness/runs"; }

 private:
  TempFolder folder_;
};

}  // namespace fakes
