// What `compare` ends with where times were measured.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/program.h"
#include "tests/store/store_support.h"

namespace {

using harness::Outcome;
using testing::HasSubstr;
using testing::IsEmpty;

class CompareTest : public testing::Test {
 protected:
  CompareTest() : store_(harness::Store::open(path_, true)) {}

  // A night of one timed cell.
  void add_night(double step_ms, int launches = 8) {
    harness::RunRecord run = harness::test::a_run("night" + std::to_string(++nights_));
    run.started_ms = nights_;
    run.id = store_->begin_run(run);
    for (int i = 0; i < launches; ++i) {
      const std::int64_t row = store_->plan_case(harness::test::a_case(run.id, i, "timed"));
      harness::Digest digest;
      digest.recorded = true;
      const double noise = 1.0 + 0.001 * ((nights_ * 8 + i) * 37 % 19);
      digest.metrics = {{harness::kControlMs, 10.0}, {harness::kStepMs, step_ms * noise}};
      store_->finish_case(row, 1.0, digest);
      store_->add_judgement(row, harness::test::stored(Outcome::pass));
    }
    store_->finish_run(run.id, 0, true, nights_ + 1);
  }

  [[nodiscard]] fakes::ProgramResult compare(const std::string& before,
                                             const std::string& now) const {
    return program_.run({"compare", before, now, "--db", path_});
  }

  fakes::Program program_;
  std::string path_ = program_.folder() / "nights.db";
  std::unique_ptr<harness::Store> store_;
  int nights_ = 0;
};

TEST_F(CompareTest, TimesThatWereNotJudgedAreTwoAndThoseThatWereAreNot) {
  add_night(100.0);
  add_night(100.0);
  const auto young = compare("1", "2");
  EXPECT_EQ(young.exit_code, 2) << young.out;
  EXPECT_THAT(young.out, HasSubstr("UNKNOWN"));
  EXPECT_THAT(young.err, HasSubstr("times of 1 cases were not judged"));
  for (int i = 0; i < 8; ++i) add_night(100.0);
  const auto same = compare("1", "10");
  EXPECT_EQ(same.exit_code, 0) << same.out << same.err;
  EXPECT_THAT(same.out, HasSubstr("SAME"));
  EXPECT_THAT(same.err, IsEmpty());
  add_night(100.0, 3);
  EXPECT_EQ(compare("10", "11").exit_code, 2) << "too few launches";
}

}  // namespace
