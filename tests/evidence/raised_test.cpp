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

TEST(Raised, CommonEndsHaveAVariantAndOthersHaveNone) {
  using harness::common_end;
  const std::vector<std::pair<WorkerError, std::string>> ends = {
      {error_of("torch.distributed.DistNetworkError",
                "The server socket has failed to listen. port: 29500, code: -98, name: EADDRINUSE"),
       "raised.port_in_use"},
      {error_of("OSError", "[Errno 98] Address already in use"), "raised.port_in_use"},
      {error_of("ModuleNotFoundError", "No module named 'flash_attn'"), "raised.module_missing"},
      {error_of("FileNotFoundError", "[Errno 2] No such file or directory: 'a.yaml'"),
       "raised.file_missing"},
      {error_of("PermissionError", "[Errno 13] Permission denied: '/x'"), "raised.permission"},
      {error_of("OSError", "[Errno 28] No space left on device"), "raised.disk_full"},
      {error_of("RuntimeError", "DataLoader worker (pid 7) is killed by signal: Killed."),
       "raised.worker_killed"},
      {error_of("RuntimeError", "DataLoader worker (pid(s) 7, 8) exited unexpectedly"),
       "raised.worker_killed"},
      {error_of("RuntimeError",
                "DataLoader worker (pid 7) is killed by signal: Bus error. It is possible that "
                "dataloader's workers are out of shared memory."),
       "raised.worker_shm"},
      {error_of("torch.distributed.DistStoreError",
                "Timed out after 61 seconds waiting for clients. 1/2 clients joined."),
       "raised.ranks_missing"},
      {error_of("socket.gaierror", "[Errno -2] Name or service not known"), "raised.address"},
      {error_of("RuntimeError",
                "The NVIDIA driver on your system is too old (found version 11040)."),
       "raised.driver"},
      {error_of("ValueError", "bad batch"), ""},
      {error_of("RuntimeError", "the batch has exited unexpectedly early"), ""},
      {error_of("KeyError", "Killed"), ""}};
  for (const auto& [error, variant] : ends) EXPECT_EQ(common_end(error), variant) << error.what;
}

}  // namespace
