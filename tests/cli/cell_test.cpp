#include "harness/cli/cell.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/reports/fake_store.h"

namespace {

using harness::Outcome;
using harness::cli::find_cell;

class CellTest : public testing::Test {
 protected:
  void add(std::int64_t run, const std::string& history_id, Outcome outcome) {
    harness::CaseRecord record;
    record.run_id = run;
    record.label = "throughput";
    record.history_id = history_id;
    record.judgement = harness::Judgement{};
    record.judgement->outcome = outcome;
    store_.case_rows.push_back(record);
  }
  void add_run(std::int64_t id) {
    harness::RunRecord run;
    run.id = id;
    store_.run_rows.push_back(run);
  }

  fixtures::FakeStore store_;
};

TEST_F(CellTest, OneThatWasRunGoesBeforeOneThatWasSkipped) {
  add_run(1);
  add(1, "of_the_card", Outcome::skip);
  add(1, "of_the_processor", Outcome::pass);
  EXPECT_EQ(find_cell(store_, "throughput").history_id, "of_the_processor");
  EXPECT_EQ(find_cell(store_, "of_the_card").history_id, "of_the_card");
}

TEST_F(CellTest, TheNewestRunDecides) {
  add_run(1);
  add_run(2);
  add(1, "old", Outcome::pass);
  add(2, "now", Outcome::fail);
  EXPECT_EQ(find_cell(store_, "throughput").history_id, "now");
}

TEST_F(CellTest, ANameOfSeveralIsRefused) {
  add_run(1);
  add(1, "a", Outcome::pass);
  add(1, "b", Outcome::pass);
  add(1, "a", Outcome::pass);
  try {
    (void)find_cell(store_, "throughput");
    FAIL() << "was not refused";
  } catch (const nsa::Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("wanted one of a, b"));
  }
  EXPECT_THROW((void)find_cell(store_, "nothing"), nsa::Error);
}

}  // namespace
