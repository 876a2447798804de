// The commit that made it worse, or slower. Each commit is built in a folder of its own, once, and asked by a command of the
// user's; a commit that does not build is UNKNOWN.
#include <iostream>
#include <memory>

#include <CLI/CLI.hpp>

#include "harness/cli/bisect/checkout.h"
#include "harness/cli/bisect/commit_test.h"
#include "harness/cli/output.h"
#include "harness/cli/paths.h"
#include "harness/cli/verbs.h"
#include "harness/history/commits.h"
#include "harness/scenario/exit_code.h"
#include "nsa/base/error.h"

namespace harness::cli {
namespace {

using history::CommitAnswer;
using history::CommitSearch;

struct BisectArguments {
  std::vector<std::string> commits;
  std::string repository;
  std::string build = "./nsa-harness --yes version";
  std::string test;
  std::string slower;
  std::string cache;
};

const char* name_of(CommitAnswer answer) {
  switch (answer) {
    case CommitAnswer::untried: return "untried";
    case CommitAnswer::good: return "good";
    case CommitAnswer::bad: return "bad";
    case CommitAnswer::unknown: return "UNKNOWN";
  }
  return "";
}

std::unique_ptr<CommitTest> make_test(const BisectArguments& arguments,
                                      const Checkouts& checkouts,
                                      const std::string& good) {
  if (arguments.slower.empty()) return exit_code_test(arguments.test);
  const std::string folder = checkouts.built(good);
  if (folder.empty()) throw nsa::Error("the good commit does not build: " + checkouts.log_of(good));
  return slower_test(folder, arguments.slower);
}

TestedCommit ask(const Checkouts& checkouts, const std::string& commit, CommitTest& test) {
  const std::string folder = checkouts.built(commit);
  if (folder.empty()) {
    return {CommitAnswer::unknown, "does not build: " + checkouts.log_of(commit)};
  }
  return test.ask(folder);
}

int tell(const CommitSearch& search,
         const std::vector<CommitAnswer>& answers,
         const std::vector<std::string>& commits,
         const std::string& repository) {
  if (search.contradicted) {
    throw nsa::Error("nothing to search: the first commit is " +
                     std::string(name_of(answers.front())) + ", wanted good; the last one is " +
                     name_of(answers.back()) + ", wanted bad");
  }
  std::cout << (search.is_found() ? "the first bad commit:\n"
                                  : "UNKNOWN: the first bad commit is one of\n");
  for (std::size_t i = search.first; i <= search.last; ++i) {
    std::cout << "  " << commit_title(repository, commits[i]) << "\n";
  }
  return search.is_found() ? kExitPass : kExitInconclusive;
}

int bisect(const BisectArguments& arguments) {
  const std::string repository =
      arguments.repository.empty() ? find_paths().tree : arguments.repository;
  const std::string cache =
      arguments.cache.empty() ? runs_folder(database_path(""), "") + "/../bisect" : arguments.cache;
  const std::vector<std::string> commits =
      commits_between(repository, arguments.commits[0], arguments.commits[1]);
  const Checkouts checkouts(repository, cache, arguments.build);
  const auto test = make_test(arguments, checkouts, commits.front());
  std::vector<CommitAnswer> answers(commits.size(), CommitAnswer::untried);
  if (!arguments.slower.empty())
    answers.front() = CommitAnswer::good;  // the others are compared with it
  CommitSearch search = history::search_commits(answers);
  for (; search.next; search = history::search_commits(answers)) {
    const std::size_t at = *search.next;
    const TestedCommit tested = ask(checkouts, commits[at], *test);
    answers[at] = tested.answer;
    log_line(std::string(name_of(tested.answer)) + "\t" + commit_title(repository, commits[at]) +
             (tested.because.empty() ? "" : "\t" + tested.because));
  }
  return tell(search, answers, commits, repository);
}

}  // namespace

Action add_bisect(CLI::App& command) {
  const auto arguments = std::make_shared<BisectArguments>();
  command.add_option("--commits", arguments->commits, "A good commit and a later bad one")
      ->expected(2)
      ->required();
  CLI::Option_group* const question =
      command.add_option_group("Question", "One of these is wanted");
  question->add_option(
      "--test",
      arguments->test,
      "Run in a commit's folder: exit code 0 is good, 1 bad, anything else UNKNOWN");
  question->add_option(
      "--slower",
      arguments->slower,
      "Runs timed cases in a commit's folder and in the good one's, in turn: bad is "
      "what takes longer");
  question->require_option(1);
  command.add_option("--build", arguments->build, "Run once in a commit's folder, before the test")
      ->capture_default_str();
  command.add_option("--repository", arguments->repository, "Default: this tree");
  command.add_option("--cache", arguments->cache, "Keeps built commits (default: beside the runs)");
  return [arguments] { return bisect(*arguments); };
}

}  // namespace harness::cli
