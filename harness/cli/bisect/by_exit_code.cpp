#include "harness/cli/bisect/checkout.h"
#include "harness/cli/bisect/commit_test.h"
#include "harness/scenario/exit_code.h"

namespace harness::cli {
namespace {

using history::CommitAnswer;

class ExitCodeTest final : public CommitTest {
 public:
  explicit ExitCodeTest(std::string line) : line_(std::move(line)) {}

  TestedCommit ask(const std::string& folder) override {
    const int code = run_in(folder, line_, folder + "/../test.log");
    if (code == kExitPass) return {CommitAnswer::good, ""};
    if (code == kExitFailed) return {CommitAnswer::bad, ""};
    return {CommitAnswer::unknown, "exit code " + std::to_string(code)};
  }

 private:
  std::string line_;
};

}  // namespace

std::unique_ptr<CommitTest> exit_code_test(std::string line) {
  return std::make_unique<ExitCodeTest>(std::move(line));
}

}  // namespace harness::cli
