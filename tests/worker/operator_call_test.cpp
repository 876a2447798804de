// The one call in which a NaN was born: kept, cut down to few rows, written, read back and run alone.
#include "harness/worker/record/operator_call.h"

#include <cmath>
#include <filesystem>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/worker/watch/nan_watch.h"
#include "nsa/base/error.h"
#include "nsa/base/safetensors.h"
#include "nsa/base/temporary_folder.h"
#include "tests/worker/channel_test_base.h"

namespace harness {
namespace {

using testing::HasSubstr;
using torch::Tensor;

constexpr double kNothing = -std::numeric_limits<double>::infinity();

class OperatorCallTest : public tests::ChannelTest {
 protected:
  // What is written of what `act` does under the watch.
  template <typename Act>
  OperatorCall born_in(const Act& act) {
    {
      const NanWatch nan(seams_, 1, false);
      act();
      std::filesystem::create_directory(folder_ / "rank_0");
      write_certificate(nan, {channel_, progress_, folder_ / "", "rank_0"});
    }
    path_ = folder_ / "rank_0/nan_operator.safetensors";
    return read_call(path_);
  }

  Progress progress_;
  SeamWatch seams_{channel_, progress_};
  nsa::TemporaryFolder folder_;
  std::string path_;
};

TEST_F(OperatorCallTest, ARowWithoutKeysGivesNaNAgainAlone) {
  const Tensor scores = torch::randn({2, 3, 40, 40});
  scores[1][2][17].fill_(kNothing);
  const OperatorCall call = born_in([&] { (void)scores.softmax(-1); });
  EXPECT_EQ(call.name, "aten::_softmax");
  const std::vector<Tensor> outputs = run_call(call);
  ASSERT_EQ(outputs.size(), 1U);
  EXPECT_GT(count_nan(outputs), 0);
  EXPECT_EQ(outputs.front().numel(), count_nan(outputs)) << "only what gives NaN is left";
  EXPECT_LT(std::filesystem::file_size(path_), 2000U);
  ASSERT_EQ(written<Artefact>().size(), 1U);
  EXPECT_EQ(written<Artefact>().front().name, "nan_operator");
}

TEST_F(OperatorCallTest, WhatWritesIntoItsArgumentIsKeptAsItWas) {
  const Tensor sum = torch::tensor({1.0, 0.0, 2.0});
  const Tensor other = torch::tensor({1.0, 0.0, 4.0});
  const OperatorCall call = born_in([&] { sum.div_(other); });
  EXPECT_EQ(call.name, "aten::div_");
  EXPECT_EQ(count_nan(run_call(call)), 1);
  EXPECT_EQ(count_nan(run_call(call)), 1) << "and a run does not change it";
}

TEST_F(OperatorCallTest, WhatDependsOnAllRowsKeepsThem) {
  const Tensor matrix = torch::full({8, 8}, std::numeric_limits<double>::infinity());
  const OperatorCall call = born_in([&] { (void)matrix.sub(matrix.t()); });
  EXPECT_GT(count_nan(run_call(call)), 0);
}

TEST_F(OperatorCallTest, NothingIsKeptOfAHealthyPass) {
  const NanWatch nan(seams_, 1, false);
  (void)torch::randn({4, 4}).softmax(-1);
  EXPECT_FALSE(nan.call().has_value());
}

std::string refusal_of(const std::string& path) {
  try {
    (void)run_call(read_call(path));
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST_F(OperatorCallTest, AStrangersFileIsRefused) {
  const std::string path = folder_ / "file.safetensors";
  const auto with = [&](const std::string& says) {
    nsa::write_safetensors(path, {}, {{"operator", says}});
    return refusal_of(path);
  };
  nsa::write_safetensors(path, {}, {});
  EXPECT_THAT(refusal_of(path), HasSubstr("no metadata"));
  EXPECT_THAT(with("[]"), HasSubstr("operator"));
  EXPECT_THAT(with(R"({"name":"aten::no_such","overload":"","arguments":[]})"),
              HasSubstr("none of this name"));
  EXPECT_THAT(with(R"({"name":"aten::_softmax","overload":"","arguments":[null]})"),
              HasSubstr("wanted 3"));
  EXPECT_THAT(
      with(R"({"name":"aten::_softmax","overload":"","arguments":[{"tensor":"0"},null,null]})"),
      HasSubstr("0"));
  EXPECT_THAT(with(R"({"name":"aten::from_file","overload":"","arguments":[)"
                   R"(null,null,null,null,null,null,null]})"),
              HasSubstr("text"));
}

}  // namespace
}  // namespace harness
