// The installed program plants a quarter of the shipped faults, at drawn places, beside healthy twins.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/e2e/installed.h"

namespace e2e {
namespace {

TEST(Selftest, AQuarterOfTheFaultsIsFoundAndNothingElse) {
  const Installed program;
  const Told told = program("selftest", {"--part", "1/4", "--seed", "1", "--json", "--quiet"});
  const nlohmann::json& rates = told.out.at("selftest");
  EXPECT_GE(rates.at("detected").at("all").get<int>(), 15);
  EXPECT_GE(rates.at("alarms").at("all").get<int>(), 15);
  for (const char* what : {"detected", "preferred", "placed"}) {
    EXPECT_EQ(rates.at(what).at("some"), rates.at(what).at("all")) << what << "\n" << rates.dump(1);
  }
  EXPECT_EQ(rates.at("alarms").at("some"), 0) << rates.dump(1);
  EXPECT_EQ(rates.at("undecided"), 0) << rates.dump(1);
  EXPECT_EQ(rates.at("idle"), 0) << rates.dump(1);
}

}  // namespace
}  // namespace e2e
