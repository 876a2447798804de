// Commits of a repository, each in a folder of its own, built once. Nothing is written into the repository.
#pragma once

#include <string>
#include <vector>

namespace harness::cli {

// From `good` to `bad`, both included, oldest first, along first parents. Throws: nsa::Error where one of them is no commit, or
// `good` is not an ancestor of `bad`.
[[nodiscard]] std::vector<std::string> commits_between(const std::string& repository,
                                                       const std::string& good,
                                                       const std::string& bad);

// "1a2b3c4 folder: what changed"
[[nodiscard]] std::string commit_title(const std::string& repository, const std::string& commit);

class Checkouts {
 public:
  // `cache` keeps folders and how their builds ended, by commit and build command.
  Checkouts(std::string repository, std::string cache, std::string build);

  // The commit's folder, built; "" where it does not build. What the build printed is in build.log beside the folder.
  // Throws: nsa::Error where the folder cannot be made.
  [[nodiscard]] std::string built(const std::string& commit) const;
  [[nodiscard]] std::string log_of(const std::string& commit) const;

 private:
  [[nodiscard]] std::string place_of(const std::string& commit) const;

  std::string repository_;
  std::string cache_;
  std::string build_;
};

inline constexpr int kTestMs = 3'600'000;

// Runs a line of shell in the folder, with these variables (NAME=VALUE) beside those of this process; its output goes to `log`. Its
// exit code; -1 where it was ended after `timeout_ms`.
[[nodiscard]] int run_in(const std::string& folder,
                         const std::string& line,
                         const std::string& log,
                         const std::vector<std::string>& variables = {},
                         int timeout_ms = kTestMs);

}  // namespace harness::cli
