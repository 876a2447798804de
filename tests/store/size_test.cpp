// What a night costs.
#include <filesystem>
#include <iostream>

#include <gtest/gtest.h>

#include "harness/store/maintain.h"
#include "tests/fakes/temp_folder.h"
#include "tests/store/night.h"

namespace harness {
namespace {

TEST(StoreSize, ANightOf327CasesCostsAtMostThreeMegabytes) {
  const fakes::TempFolder folder;
  const std::string path = folder / "runs.db";
  test::NightWriter night;
  const auto size_after = [&](const std::string& name) {
    night.write(*Store::open(path, true), name, 1'000, 45);  // 42 are known to fail, 3 are not
    EXPECT_TRUE(check_database(path, {}).empty());
    return static_cast<std::int64_t>(std::filesystem::file_size(path));
  };
  const std::int64_t first = size_after("first");
  const std::int64_t second = size_after("second") - first;
  RecordProperty("first_night_bytes", std::to_string(first));
  RecordProperty("second_night_bytes", std::to_string(second));
  std::cout << "first night " << first << " bytes, second " << second << "\n";
  EXPECT_LE(first, 3'000'000);
  EXPECT_LE(second, first);
}

TEST(StoreSize, ASuiteOf60CasesIsSmall) {
  const fakes::TempFolder folder;
  const std::string path = folder / "runs.db";
  test::NightWriter suite(60);
  suite.write(*Store::open(path, true), "suite", 1'000, 6);
  const auto bytes = static_cast<std::int64_t>(std::filesystem::file_size(path));
  RecordProperty("suite_bytes", std::to_string(bytes));
  std::cout << "60 cases " << bytes << " bytes\n";
  EXPECT_LE(bytes, 512 * 1024);
}

}  // namespace
}  // namespace harness
