#include "harness/cli/bisect/checkout.h"

#include <filesystem>
#include <sstream>

#include "harness/cli/command.h"
#include "nsa/base/error.h"
#include "nsa/base/file.h"
#include "nsa/base/hash.h"

namespace harness::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kGitMs = 60'000;
constexpr int kBuildMs = 2 * 3'600'000;  // of an empty folder on two cores
constexpr std::size_t kHashLetters = 16;

std::string git(const std::string& repository, std::vector<std::string> words) {
  words.insert(words.begin(), {"git", "-C", repository});
  const CommandResult result = run_command(words, kGitMs);
  if (!result.started) throw nsa::Error("git: not found, wanted it to read commits");
  return result.ok() ? result.out : "";
}

std::string full_name(const std::string& repository, const std::string& commit) {
  const std::string name = git(
      repository, {"rev-parse", "--verify", "--quiet", "--end-of-options", commit + "^{commit}"});
  if (name.empty()) {
    throw nsa::Error("found \"" + commit + "\", wanted a commit of " + repository);
  }
  return name.substr(0, name.find('\n'));
}

}  // namespace

std::vector<std::string> commits_between(const std::string& repository,
                                         const std::string& good,
                                         const std::string& bad) {
  const std::string from = full_name(repository, good);
  const std::string to = full_name(repository, bad);
  std::istringstream lines(
      git(repository, {"rev-list", "--first-parent", "--reverse", from + ".." + to}));
  std::vector<std::string> commits = {from};
  for (std::string line; std::getline(lines, line);) commits.push_back(line);
  const bool connected = commits.size() > 1 && full_name(repository, commits[1] + "^") == from;
  if (!connected) {
    throw nsa::Error("found no line of first parents from " + good + " to " + bad +
                     ", wanted the good commit before the bad one");
  }
  return commits;
}

std::string commit_title(const std::string& repository, const std::string& commit) {
  const std::string title = git(repository, {"show", "--no-patch", "--format=%h %s", commit});
  return title.substr(0, title.find('\n'));
}

int run_in(const std::string& folder,
           const std::string& line,
           const std::string& log,
           const std::vector<std::string>& variables,
           int timeout_ms) {
  std::vector<std::string> words = {"env"};
  words.insert(words.end(), variables.begin(), variables.end());
  for (const std::string& word : {std::string("sh"),
                                  std::string("-c"),
                                  std::string("cd \"$1\" && exec >\"$2\" 2>&1 && eval \"$3\""),
                                  std::string("sh"),
                                  folder,
                                  log,
                                  line}) {
    words.push_back(word);
  }
  const CommandResult result = run_command(words, timeout_ms);
  return result.started && !result.timed_out ? result.exit_code : -1;
}

Checkouts::Checkouts(std::string repository, std::string cache, std::string build)
    : repository_(fs::absolute(repository)),
      cache_(fs::absolute(cache)),
      build_(std::move(build)) {}

std::string Checkouts::place_of(const std::string& commit) const {
  const std::string hash = nsa::hash_hex(repository_ + "\n" + build_ + "\n" + commit);
  return cache_ + "/" + hash.substr(0, kHashLetters);
}

std::string Checkouts::log_of(const std::string& commit) const {
  return place_of(commit) + "/build.log";
}

std::string Checkouts::built(const std::string& commit) const {
  const std::string place = place_of(commit);
  const std::string folder = place + "/tree";
  const std::string done = place + "/built";
  const std::string failed = place + "/failed";
  if (fs::exists(done)) return folder;
  if (fs::exists(failed)) return "";
  std::error_code error;
  fs::remove_all(place, error);  // what an interrupted build left
  fs::create_directories(folder, error);
  if (error) throw nsa::Error(place + ": cannot be made: " + error.message());
  const CommandResult unpacked =
      run_command({"sh",
                   "-c",
                   "git -C \"$1\" archive --format=tar \"$2\" | tar -x -C \"$3\"",
                   "sh",
                   repository_,
                   commit,
                   folder},
                  kGitMs);
  if (!unpacked.ok()) throw nsa::Error(folder + ": commit " + commit + " cannot be unpacked there");
  const bool good = run_in(folder, build_, place + "/build.log", {}, kBuildMs) == 0;
  nsa::write_durably(good ? done : failed, build_ + "\n");
  return good ? folder : "";
}

}  // namespace harness::cli
