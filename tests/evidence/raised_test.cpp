// What an exception was is told by what it was and where it came from; its words are asked last.
#include "harness/evidence/raised.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace {

using harness::Failure;
using harness::raised_as;
using harness::raised_by;
using harness::ToldBy;
using harness::WorkerError;

WorkerError error_of(const std::string& type, const std::string& what) {
  WorkerError error;
  error.type = type;
  error.what = what;
  return error;
}

const std::vector<std::string>& messages() {
  static const std::vector<std::string> kMessages = {
      "CUDA error: an illegal memory access was encountered",
      "CUDA out of memory. Tried to allocate 2.00 GiB",
      "Connection closed by peer [127.0.0.1]:4",
      "Expected to mark a variable ready only once",
      "DefaultCPUAllocator: can't allocate memory",
      "boom",
      ""};
  return kMessages;
}

TEST(Raised, WhereTheTypeTellsTheWordsHaveNoSay) {
  const std::vector<std::pair<std::string, Failure>> types = {
      {"std::bad_alloc", Failure::host_memory},
      {"c10::OutOfMemoryError", Failure::device_memory},
      {"c10::AcceleratorError", Failure::device},
      {"c10::CUDAError", Failure::device},
      {"c10::DistNetworkError", Failure::communication},
      {"gloo::IoException", Failure::communication}};
  for (const auto& [type, failure] : types) {
    for (const std::string& message : messages()) {
      const auto raised = raised_as(error_of(type, message));
      EXPECT_EQ(raised.failure, failure) << type << ": " << message;
      EXPECT_EQ(raised.told_by, ToldBy::type);
      WorkerError derived = error_of("somebody::Own", message);
      derived.bases = {"somebody::Base", type, "std::exception"};
      EXPECT_EQ(raised_as(derived).failure, failure) << type << ": " << message;
    }
  }
}

TEST(Raised, TheNumberOfTheRuntimeTellsMemoryFromOtherErrors) {
  for (const std::string& message : messages()) {
    WorkerError error = error_of("c10::AcceleratorError", message);
    for (const std::int64_t code : {1, 2, 700, 719}) {
      error.device_code = code;
      EXPECT_EQ(raised_as(error).failure, code == 2 ? Failure::device_memory : Failure::device);
      EXPECT_EQ(raised_as(error).told_by, ToldBy::device_code);
    }
  }
}

TEST(Raised, TheFunctionThatRaisedItTellsBeforeTheWords) {
  const std::string helper =
      "c10::detail::torchCheckFail(char const*, unsigned int)+0x42 (libc10.so)";
  for (const std::string& message : messages()) {
    WorkerError error = error_of("c10::Error", message);
    error.frames = {helper, "c10d::Reducer::autograd_hook(unsigned long)+0x9 (libtorch_cpu.so)"};
    EXPECT_EQ(raised_as(error).failure, Failure::reducer) << message;
    EXPECT_EQ(raised_by(error), "c10d::Reducer::autograd_hook(unsigned long) (libtorch_cpu.so)");
    error.frames = {helper, "nsa-harness-worker+0x1f"};
    EXPECT_EQ(raised_as(error).failure, Failure::own) << message;
    EXPECT_EQ(raised_as(error).told_by, ToldBy::origin) << message;
  }
}

// The watchdog of NCCL learns of a card's error too, and may end the process before the thread that computes tells of it.
TEST(Raised, WhatAWatchdogMetOnTheCardIsNoFailureOfCommunication) {
  const std::string met = "Process group watchdog thread terminated with exception: ";
  const auto raised = raised_as(error_of(
      "c10::DistBackendError", met + "CUDA error: an illegal memory access was encountered"));
  EXPECT_EQ(raised.failure, Failure::device);
  EXPECT_EQ(raised.told_by, ToldBy::words);
  EXPECT_EQ(raised_as(error_of("c10::DistBackendError", met + "NCCL error: remote")).failure,
            Failure::communication);
}

// Only the innermost function that is no helper raised it: those that had called it are no witnesses.
TEST(Raised, WhoCalledTheFunctionDoesNotMatter) {
  WorkerError error = error_of("std::runtime_error", "boom");
  error.frames = {"at::sum(at::Tensor const&)+0x1 (libtorch_cpu.so)",
                  "c10d::Reducer::autograd_hook(unsigned long)+0x9 (libtorch_cpu.so)",
                  "nsa-harness-worker+0x1f"};
  EXPECT_EQ(raised_as(error).failure, Failure::own);
}

TEST(Raised, WordsAreTheLastWitnessAndAreNamed) {
  const auto raised = raised_as(error_of("c10::Error", "oh: CUDA error: CUBLAS_STATUS_ALLOC"));
  EXPECT_EQ(raised.failure, Failure::device);
  EXPECT_EQ(raised.told_by, ToldBy::words);
  EXPECT_EQ(raised.words, "CUDA error");
  EXPECT_EQ(raised_as(error_of("c10::Error", "boom")).told_by, ToldBy::nothing);
}

}  // namespace
