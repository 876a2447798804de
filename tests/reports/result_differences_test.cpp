// What two runs computed: which steps and files differ, by bits; what is left out; how it is told.
#include "reports/result_differences.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/reports/sample.h"

namespace {

using harness::CaseRecord;
using reports::compare_results;
using reports::ResultDifferences;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

CaseRecord computed(const std::vector<double>& losses, const std::string& hash = "a") {
  CaseRecord record = fixtures::sample_record(1, 1, "step");
  record.label = "step";
  record.history_id = "step";
  record.case_json = "{}";
  record.skip_reason.clear();
  record.judgement = fixtures::passed();
  record.digest = {};
  record.digest.recorded = true;
  record.digest.series = {{"loss", losses}, {"step_ms", {static_cast<double>(losses.size())}}};
  record.digest.files = {{0, "rank_0/parameters.safetensors", 8, "same"},
                         {0, "rank_0/step_1.safetensors", 8, hash},
                         {0, "rank_0/log.jsonl", 8, hash + "log"}};
  return record;
}

TEST(ResultDifferences, EqualRunsHaveNone) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto same = compare_results({computed({2.0, nan})}, {computed({2.0, nan})});
  EXPECT_THAT(same.series, IsEmpty());
  EXPECT_THAT(same.tensors, IsEmpty());
  EXPECT_EQ(same.series_compared, 1U);  // a time is no result
  EXPECT_EQ(same.files_compared, 2U);   // nor is a log
  EXPECT_THAT(
      reports::results_text(same),
      HasSubstr("0 of 1 curve (loss, norm of the gradient) and 0 of 2 tensor files differ"));
}

TEST(ResultDifferences, TheLastBitOfALossIsTold) {
  const double next = std::nextafter(4.0, 5.0);
  const auto other = compare_results({computed({2.0, 4.0, 1.0})}, {computed({2.0, next, 1.5})});
  ASSERT_EQ(other.series.size(), 1U);
  const reports::SeriesDifference& loss = other.series.front();
  EXPECT_EQ(loss.steps, 3U);
  EXPECT_EQ(loss.others, 2U);
  EXPECT_EQ(loss.first, 2U);
  EXPECT_EQ(loss.before, 4.0);
  EXPECT_EQ(loss.now, next);
  EXPECT_EQ(loss.largest, 0.5);
  const std::string text = reports::results_text(other);
  EXPECT_THAT(text, HasSubstr("| step | loss | 2 of 3 | step 2 | 4 | 4.0000000000000009 | 0.5 |"));
}

TEST(ResultDifferences, FilesAreComparedByTheirHashes) {
  CaseRecord more = computed({2.0}, "b");
  more.digest.files.push_back({0, "rank_0/step_2.safetensors", 8, "c"});
  const auto other = compare_results({computed({2.0})}, {more});
  ASSERT_EQ(other.tensors.size(), 1U);
  EXPECT_EQ(other.tensors.front().files, 2U);
  EXPECT_THAT(other.tensors.front().others, ElementsAre("rank_0/step_1.safetensors"));
  EXPECT_THAT(other.tensors.front().missing, ElementsAre("rank_0/step_2.safetensors"));
  EXPECT_THAT(compare_results({more}, {computed({2.0}, "b")}).tensors.front().missing,
              ElementsAre("rank_0/step_2.safetensors"));
}

TEST(ResultDifferences, OtherContentAndPlantedFaultsAreNotCompared) {
  CaseRecord other = computed({3.0});
  other.history_id = "other";
  EXPECT_EQ(compare_results({computed({2.0})}, {other}).series_compared, 0U);
  CaseRecord planted = computed({3.0});
  planted.case_json = R"({"scenario":{"fault":{"name":"x"}}})";
  EXPECT_EQ(compare_results({computed({2.0})}, {planted}).series_compared, 0U);
  EXPECT_THAT(reports::results_text(ResultDifferences{}), HasSubstr("No result was recorded"));
}

}  // namespace
