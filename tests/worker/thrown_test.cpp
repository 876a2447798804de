// What is known of an exception beside its words: what it was, and which function threw it, on whatever thread.
#include "harness/worker/thrown.h"

#include <future>
#include <new>
#include <stdexcept>

#include <ATen/ATen.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/evidence/raised.h"
#include "harness/worker/error_report.h"

namespace {

using harness::Failure;
using harness::ToldBy;
using harness::WorkerError;
using testing::ElementsAre;
using testing::HasSubstr;

template <typename Act>
WorkerError reported(const Act& act) {
  try {
    act();
  } catch (...) {
    return harness::describe_current_exception("forward", 3);
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

struct NoRoom : std::bad_alloc {};

TEST(Thrown, ATypeIsToldWithItsBases) {
  const WorkerError error = reported([] { throw NoRoom(); });
  EXPECT_THAT(error.type, HasSubstr("NoRoom"));
  EXPECT_THAT(error.bases, ElementsAre("std::bad_alloc", "std::exception"));
  EXPECT_EQ(harness::raised_as(error).failure, Failure::host_memory);
}

TEST(Thrown, TheProgramsOwnExceptionIsItsOwnWhateverItSays) {
  const WorkerError error = reported([] { throw std::runtime_error("CUDA error: Read error"); });
  ASSERT_FALSE(error.frames.empty());
  EXPECT_EQ(harness::raised_as(error).failure, Failure::own);
  EXPECT_EQ(harness::raised_as(error).told_by, ToldBy::origin);
}

// LibTorch raises it with a type that tells nothing, in a function that has no name outside of its library.
TEST(Thrown, AnAllocationThatLibTorchRefusedIsToldByItsWords) {
  const WorkerError error = reported([] { (void)at::empty({std::int64_t{1} << 50}, at::kDouble); });
  EXPECT_EQ(harness::raised_as(error).failure, Failure::host_memory);
  EXPECT_EQ(harness::raised_as(error).told_by, ToldBy::words);
  EXPECT_THAT(harness::raised_by(error), HasSubstr("libc10.so"));
}

TEST(Thrown, AnErrorOfAnOperatorNamesAFunctionOfLibTorch) {
  const WorkerError error = reported([] { (void)at::ones({2}).view({3}); });
  EXPECT_EQ(error.type, "c10::Error");
  EXPECT_THAT(harness::raised_by(error), HasSubstr("(libtorch_cpu.so)"));
  EXPECT_EQ(harness::raised_as(error).failure, Failure::own);
}

TEST(Thrown, WhatAnotherThreadThrewIsKnown) {
  const WorkerError error =
      reported([] { std::async(std::launch::async, [] { (void)at::ones({2}).view({3}); }).get(); });
  EXPECT_THAT(harness::raised_by(error), HasSubstr("(libtorch_cpu.so)"));
}

// More exceptions than are kept: what is not known is not made up.
TEST(Thrown, OfAnOldExceptionNothingIsSaid) {
  const WorkerError error = reported([] {
    try {
      (void)at::ones({2}).view({3});
    } catch (...) {
      for (int i = 0; i < 200; ++i) {
        try {
          throw std::runtime_error("another");
        } catch (const std::exception&) {
          continue;
        }
      }
      throw;
    }
  });
  EXPECT_EQ(error.type, "c10::Error");
  EXPECT_TRUE(error.frames.empty());
}

}  // namespace
