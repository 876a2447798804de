// A database that was lost comes back from the run's folder.
#include "harness/store/rebuild.h"

#include <cmath>
#include <fstream>

#include <gtest/gtest.h>

#include "harness/core/run_folder.h"
#include "nsa/base/error.h"
#include "tests/fakes/error_of.h"
#include "tests/fakes/temp_folder.h"
#include "tests/store/store_support.h"

namespace harness {
namespace {

class RebuildTest : public ::testing::Test {
 protected:
  RebuildTest() {
    run_ = test::a_run("r");
    run_.folder = folder_ / "run";
    run_.provenance.machine = {{"cpu", "x"}};
    planned_ = {test::a_case(0, 0, "ran"), test::a_case(0, 1, "skipped")};
    planned_[1].skip_reason = "no GPU";
    std::filesystem::create_directories(run_.folder + "/" + planned_[0].folder);
    write_run_file(run_, planned_);
    EventLog log(case_folder());
    events_ = {Event::of(0, 3, Sample{"loss", 1, std::nan("")}),
               Event::of(kController, 2'500, Exited{0, 0})};
    log.append(events_);
    log.finish();
  }

  [[nodiscard]] std::string case_folder() const { return run_.folder + "/" + planned_[0].folder; }

  fakes::TempFolder folder_;
  RunRecord run_;
  std::vector<CaseRecord> planned_;
  std::vector<Event> events_;
};

TEST_F(RebuildTest, EverythingRecordedIsBack) {
  const auto store = Store::open(folder_ / "new.db", true);
  const std::int64_t row = rebuild_run(run_.folder, *store);
  const auto run = store->run_named("r");
  ASSERT_TRUE(run);
  EXPECT_EQ(run->id, row);
  EXPECT_EQ(run->provenance.machine, run_.provenance.machine);
  EXPECT_EQ(run->provenance.argv, run_.provenance.argv);
  EXPECT_EQ(run->exit_code, -1) << "how the run ended is not in the folder";
  const auto cases = store->cases(row);
  ASSERT_EQ(cases.size(), 2u);
  EXPECT_EQ(cases[1].skip_reason, "no GPU");
  EXPECT_EQ(cases[0].case_json, planned_[0].case_json);
  EXPECT_EQ(cases[0].seconds, 2.5);
  const Evidence evidence = store->evidence(cases[0], *run);
  EXPECT_TRUE(std::isnan(evidence.samples.at(0).row.value));
  EXPECT_NE(evidence.exit_of(0), nullptr);
}

TEST_F(RebuildTest, TwiceIsRefused) {
  const auto store = Store::open(folder_ / "new.db", true);
  (void)rebuild_run(run_.folder, *store);
  EXPECT_THROW((void)rebuild_run(run_.folder, *store), nsa::Error);
  EXPECT_EQ(store->runs(0, 10'000).size(), 1u);
}

TEST_F(RebuildTest, AlteredLogIsRefused) {
  std::ofstream(case_folder() + "/" + kEventsFile, std::ios::app)
      << encode_event(events_[0]) << "\n";
  const auto store = Store::open(folder_ / "new.db", true);
  EXPECT_NE(error_of([&] { (void)rebuild_run(run_.folder, *store); }).find("altered"),
            std::string::npos);
}

TEST_F(RebuildTest, MalformedRunFileIsNamed) {
  const auto store = Store::open(folder_ / "new.db", true);
  for (const char* text : {"", "{", "{}", "[]", R"({"name":1})"}) {
    std::ofstream(run_.folder + "/" + kRunFile) << text;
    EXPECT_NE(error_of([&] { (void)rebuild_run(run_.folder, *store); }).find(kRunFile),
              std::string::npos)
        << text;
  }
  EXPECT_TRUE(store->runs(0, 10'000).empty());
}

}  // namespace
}  // namespace harness
