#include "tests/e2e/installed.h"

#include <algorithm>
#include <filesystem>

#include <gtest/gtest.h>

#include "harness/cli/command.h"

namespace e2e {
namespace {

constexpr int kTimeoutMs = 300'000;

}  // namespace

std::string scenario(const std::string& name) {
  return std::string(NSA_E2E_PREFIX) + "/share/nsa-harness/scenarios/" + name + ".yaml";
}

Told Installed::operator()(const std::string& verb, std::vector<std::string> args) const {
  std::vector<std::string> argv = {std::string(NSA_E2E_PREFIX) + "/bin/nsa-harness", verb};
  const bool json = std::find(args.begin(), args.end(), "--json") != args.end();
  argv.insert(argv.end(), args.begin(), args.end());
  argv.insert(argv.end(), {"--db", folder_ / "runs.db"});
  const harness::cli::CommandResult result = harness::cli::run_command(argv, kTimeoutMs);
  EXPECT_TRUE(result.started && !result.timed_out) << verb << "\n" << result.out;
  Told told{result.exit_code, nullptr, result.out};
  if (json) {
    told.out = nlohmann::json::parse(result.out, nullptr, false);
    EXPECT_TRUE(told.out.is_object()) << told.text;
  }
  return told;
}

}  // namespace e2e
