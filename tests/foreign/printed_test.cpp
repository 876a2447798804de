// What a command printed: tracebacks go to the rank that their line names, and to nobody where none does.
#include "harness/foreign/printed.h"

#include <csignal>
#include <map>
#include <sstream>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/evidence/raised.h"
#include "tests/fakes/mutate.h"

namespace {

using harness::Printed;
using ::testing::ElementsAre;

Printed read(const std::string& text) {
  std::istringstream stream(text);
  Printed printed;
  harness::read_printed(stream, printed);
  return printed;
}

TEST(Printed, InterleavedTracebacksAreOfTheRankBeforeThem) {
  const Printed printed = read(
      "[rank1]: Traceback (most recent call last):\n"
      "[rank0]: Traceback (most recent call last):\n"
      "[rank1]:   File \"/home/me/train.py\", line 12, in <module>\n"
      "[rank0]:   File \"/x/site-packages/torch/nn/linear.py\", line 3, in forward\n"
      "[rank1]:     raise ValueError(\"bad batch\")\n"
      "[rank1]: ValueError: bad batch\n"
      "[rank0]: RuntimeError: [../gloo/pair.cc:534] Connection closed by peer [127.0.0.1]:4\n");
  ASSERT_EQ(printed.errors.size(), 2u);
  EXPECT_EQ(printed.errors[0].rank, 1);
  EXPECT_EQ(printed.errors[0].error.type, "ValueError");
  EXPECT_EQ(printed.errors[0].error.what, "bad batch");
  EXPECT_THAT(printed.errors[0].error.frames,
              ElementsAre("<module> (train.py:12): raise ValueError(\"bad batch\")"));
  EXPECT_EQ(harness::raised_as(printed.errors[0].error).failure, harness::Failure::own);
  EXPECT_EQ(printed.errors[1].rank, 0);
  EXPECT_THAT(printed.errors[1].error.frames, ElementsAre("forward (torch/nn/linear.py:3)"));
  EXPECT_EQ(harness::raised_as(printed.errors[1].error).failure, harness::Failure::communication);
}

TEST(Printed, OfChainedExceptionsTheLastIsTheOneThatWasRaised) {
  const Printed printed = read(
      "[default3]:Traceback (most recent call last):\n"
      "[default3]:KeyError: 'x'\n"
      "[default3]:\n"
      "[default3]:During handling of the above exception, another exception occurred:\n"
      "[default3]:\n"
      "[default3]:Traceback (most recent call last):\n"
      "[default3]:torch.OutOfMemoryError: CUDA out of memory.\n");
  ASSERT_EQ(printed.errors.size(), 1u);
  EXPECT_EQ(printed.errors[0].rank, 3);
  EXPECT_EQ(harness::raised_as(printed.errors[0].error).failure, harness::Failure::device_memory);
}

TEST(Printed, AnExceptionKeepsTheOneThatItWasRaisedFrom) {
  const std::string chain =
      "Traceback (most recent call last):\n"
      "  File \"/home/me/data.py\", line 9, in read\n"
      "    return table[shard]\n"
      "KeyError: 'x'\n"
      "\n"
      "The above exception was the direct cause of the following exception:\n"
      "\n"
      "Traceback (most recent call last):\n"
      "  File \"/home/me/train.py\", line 12, in <module>\n"
      "    read(shard)\n"
      "ShardError: no shard\n";
  for (const std::string of_rank : {"", "[rank3]: "}) {
    std::string text;
    std::istringstream lines(chain);
    for (std::string line; std::getline(lines, line);) text += of_rank + line + "\n";
    const Printed printed = read(text);
    ASSERT_EQ(printed.errors.size(), 1u) << of_rank;
    EXPECT_EQ(printed.errors[0].error.type, "ShardError");
    EXPECT_THAT(printed.errors[0].error.frames, ElementsAre("<module> (train.py:12): read(shard)"));
    EXPECT_EQ(printed.errors[0].error.raised_from,
              "KeyError: 'x', at read (data.py:9): return table[shard]");
  }
}

TEST(Printed, WhatALoadersWorkerRaisedHasTheLineOfTheLoopToo) {
  const Printed printed = read(
      "Traceback (most recent call last):\n"
      "  File \"/home/me/train.py\", line 14, in <module>\n"
      "    for x in loader:\n"
      "RuntimeError: Caught RuntimeError in DataLoader worker process 0.\n"
      "Original Traceback (most recent call last):\n"
      "  File \"/x/site-packages/torch/utils/data/_utils/collate.py\", line 3, in collate\n"
      "    return torch.stack(batch, 0, out=out)\n"
      "RuntimeError: stack expects each tensor to be equal size\n");
  ASSERT_EQ(printed.errors.size(), 1u);
  EXPECT_EQ(printed.errors[0].error.what, "stack expects each tensor to be equal size");
  EXPECT_THAT(printed.errors[0].error.frames,
              ElementsAre("collate (torch/utils/data/_utils/collate.py:3)",
                          "<module> (train.py:14): for x in loader:"));
}

TEST(Printed, AScriptThatPythonCannotReadHasItsPlaceToo) {
  const Printed printed = read(
      "  File \"/home/me/train.py\", line 5\n"
      "    for x in loader\n"
      "                   ^\n"
      "SyntaxError: expected ':'\n"
      "  File \"/home/me/notes.txt\", line 7\n"
      "ValueError: it is no traceback\n");
  ASSERT_EQ(printed.errors.size(), 1u);
  EXPECT_EQ(printed.errors[0].error.type, "SyntaxError");
  EXPECT_THAT(printed.errors[0].error.frames,
              ElementsAre("<module> (train.py:5): for x in loader"));
}

TEST(Printed, WhatSpawnTellsOfAProcessIsOfThatProcess) {
  const Printed raised = read(
      "Traceback (most recent call last):\n"
      "  File \"/home/me/train.py\", line 20, in <module>\n"
      "    mp.spawn(run, nprocs=2)\n"
      "torch.multiprocessing.spawn.ProcessRaisedException: \n"
      "\n"
      "-- Process 1 terminated with the following error:\n"
      "Traceback (most recent call last):\n"
      "  File \"/home/me/train.py\", line 6, in run\n"
      "    return x / y\n"
      "ZeroDivisionError: division by zero\n");
  ASSERT_EQ(raised.errors.size(), 1u);
  EXPECT_EQ(raised.errors[0].rank, 1);
  EXPECT_EQ(raised.errors[0].error.type, "ZeroDivisionError");
  EXPECT_EQ(raised.spawned, (std::map<int, int>{{1, 1}})) << "a child that raised ends with 1";
  const Printed ended = read(
      "torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with signal "
      "SIGABRT\n"
      "torch.multiprocessing.spawn.ProcessExitedException: process 2 terminated with exit code "
      "3\n");
  EXPECT_EQ(ended.spawned, (std::map<int, int>{{0, -SIGABRT}, {2, 3}}));
}

TEST(Printed, OfAThreadThatEndedTheProcessIsNotBlamed) {
  const Printed printed = read(
      "Exception in thread Thread-1 (prefetch):\n"
      "Traceback (most recent call last):\n"
      "  File \"/home/me/data.py\", line 8, in prefetch\n"
      "    raise OSError(name)\n"
      "OSError: part-5.bin\n");
  EXPECT_TRUE(printed.errors.empty());
  ASSERT_EQ(printed.of_threads.size(), 1u);
  EXPECT_EQ(harness::told_error(printed.of_threads[0].error),
            "OSError: part-5.bin, at prefetch (data.py:8): raise OSError(name)");
}

TEST(Printed, WhereAFatalErrorOfPythonStoodIsTheUsersInnermostFrame) {
  const Printed printed = read(
      "Fatal Python error: Segmentation fault\n"
      "\n"
      "Thread 0x1 (most recent call first):\n"
      "  File \"/home/me/other.py\", line 1 in serve\n"
      "Current thread 0x2 (most recent call first):\n"
      "  File \"/x/site-packages/torch/nn/linear.py\", line 3 in forward\n"
      "  File \"/home/me/train.py\", line 7 in step\n"
      "  File \"/home/me/train.py\", line 9 in <module>\n"
      "train: queue.c:12: push: Assertion `n < 3' failed.\n");
  ASSERT_EQ(printed.fatal_lines.size(), 1u);
  EXPECT_EQ(printed.fatal_lines[0].second, "step (train.py:7)");
  ASSERT_EQ(printed.aborts.size(), 1u);
  EXPECT_EQ(printed.aborts[0].second, "train: queue.c:12: push: Assertion `n < 3' failed.");
}

TEST(Printed, TheLastLineIsTheOneBeforeTheLauncherSpeaks) {
  const Printed printed = read(
      "train.py: error: the following arguments are required: --lr\n"
      "[W1128 19:07:16.155027710 Utils.hpp:137] Warning: Environment variable X is deprecated\n"
      "  \n"
      "E1128 14:00:00.0 1 torch/distributed/elastic/multiprocessing/api.py:984] failed (exitcode: "
      "2)\n"
      "Traceback (most recent call last):\n"
      "torch.distributed.elastic.multiprocessing.api.SignalException: Process 9 got signal: 15\n");
  EXPECT_EQ(printed.last_line, "train.py: error: the following arguments are required: --lr");
  EXPECT_EQ(
      printed.launcher_said,
      "torch.distributed.elastic.multiprocessing.api.SignalException: Process 9 got signal: 15");
}

TEST(Printed, MemoryThatTheScriptItselfAskedForIsNoMistakeOfTheScript) {
  const std::string traceback =
      "[rank1]: Traceback (most recent call last):\n"
      "[rank1]:   File \"/home/me/train.py\", line 12, in <module>\n";
  const Printed printed = read(traceback +
                               "[rank1]: RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == "
                               "0. DefaultCPUAllocator: can't "
                               "allocate memory: you tried to allocate 4503599627370496 bytes.\n");
  ASSERT_EQ(printed.errors.size(), 1u);
  EXPECT_EQ(harness::raised_as(printed.errors[0].error).failure, harness::Failure::host_memory);
  const Printed device = read(traceback + "[rank1]: RuntimeError: CUDA error: an illegal access\n");
  ASSERT_EQ(device.errors.size(), 1u);
  EXPECT_EQ(harness::raised_as(device.errors[0].error).failure, harness::Failure::device);
  const Printed own =
      read(traceback + "[rank1]: RuntimeError: can't allocate memory for my cache\n");
  ASSERT_EQ(own.errors.size(), 1u);
  EXPECT_EQ(harness::raised_as(own.errors[0].error).failure, harness::Failure::own);
}

TEST(Printed, WhatTorchrunTellsOfProcessesIsReadAndItsOwnErrorIsNoRanks) {
  const Printed printed = read(
      "W1123 api.py:900] Sending process 812 closing signal SIGTERM\n"
      "E1123 api.py:874] failed (exitcode: -9) local_rank: 1 (pid: 813) of binary: "
      "/usr/bin/python\n"
      "Traceback (most recent call last):\n"
      "  File \"/x/run.py\", line 1, in main\n"
      "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n");
  EXPECT_THAT(printed.closed, ElementsAre(812));
  EXPECT_THAT(printed.exit_codes, ElementsAre(std::pair(813, -9)));
  EXPECT_TRUE(printed.errors.empty());
}

TEST(Printed, DamagedTextGivesNothingOutOfBounds) {
  const std::string whole =
      "[rank1]: Traceback (most recent call last):\n[rank1]:   File \"/a/b.py\", line 12, in f\n"
      "[rank1]: torch.distributed.DistBackendError: NCCL error\nSending process 812 closing signal "
      "S\n"
      "failed (exitcode: -9) local_rank: 1 (pid: 813) of binary\n[E] last enqueued work: 3\n";
  fakes::Mutator mutate(7, whole.size());
  for (int i = 0; i < 20'000; ++i) {
    const Printed printed = read(mutate(whole));
    for (const auto& one : printed.errors) {
      EXPECT_TRUE(!one.rank || (*one.rank >= 0 && *one.rank <= 1'000'000));
      EXPECT_FALSE(one.error.type.empty());
      EXPECT_LE(one.error.what.size(), 4096u);
    }
    for (const auto& [pid, code] : printed.exit_codes) EXPECT_LE(std::abs(code), 1 << 30);
  }
}

TEST(Printed, ATracebackMayBeginBehindAProgressBarOfAnyLength) {
  const std::string bars(1 << 20, '#');
  const std::vector<std::string> all = {"  3%|#  ", bars, "1%|\r2%|\r", "[a] [1/3] "};
  for (const std::string& before : all) {
    const Printed alone = read(before +
                               "Traceback (most recent call last):\n  File \"/a/train.py\", line "
                               "1, in main\nValueError: row 4\n");
    ASSERT_EQ(alone.errors.size(), 1u) << before.substr(0, 20);
    EXPECT_EQ(alone.errors[0].rank, std::nullopt);
    EXPECT_EQ(alone.errors[0].error.what, "row 4");
    const Printed of_rank =
        read(before + "[rank3]: Traceback (most recent call last):\n[rank3]: ValueError: row 5\n");
    ASSERT_EQ(of_rank.errors.size(), 1u) << before.substr(0, 20);
    EXPECT_EQ(of_rank.errors[0].rank, 3);
  }
}

TEST(Printed, OfALineOfAnyLengthTheBeginAndTheEndAreRead) {
  const Printed printed = read(
      "Traceback (most recent call last):\nValueError: " + std::string(100'000, 'x') + "the end\n");
  ASSERT_EQ(printed.errors.size(), 1u);
  EXPECT_EQ(printed.errors[0].error.type, "ValueError");
  EXPECT_EQ(printed.errors[0].error.what.size(), 8192u - 12u);
  EXPECT_TRUE(printed.errors[0].error.what.ends_with("xthe end"));
}

TEST(Printed, WhatAnUncaughtExceptionOfCppSaysIsOfTheRankBeforeIt) {
  const Printed printed = read(
      "100%|##|[rank1]:terminate called after throwing an instance of 'x'\n"
      "[rank1]: terminate called after throwing an instance of 'c10::Error'\n"
      "terminate called after throwing an instance of 'gloo::EnforceNotMet'\n"
      "[rank1]:   what():  CUDA error: misaligned address\n"
      "  what():  op.preamble.length <= op.nbytes. 256 vs 68\n"
      "  what():  again\n");
  using Said = std::pair<std::optional<int>, std::string>;
  EXPECT_THAT(printed.aborts,
              ElementsAre(Said{1, "c10::Error: CUDA error: misaligned address"},
                          Said{std::nullopt,
                               "gloo::EnforceNotMet: op.preamble.length <= op.nbytes. 256 vs 68"}));
}

TEST(Printed, LinesThatOnlyLookAlikeAreNone) {
  const Printed printed = read(
      "Traceback (most recent call last):\n"
      "\x01\x02 no type: at all\n"
      "[1, 2]: a list\n[rank99999999999999999999]: Traceback (most recent call last):\n"
      "Sending process x closing signal\n(exitcode: ) (pid: )\n");
  EXPECT_TRUE(printed.errors.empty());
  EXPECT_TRUE(printed.closed.empty());
  EXPECT_TRUE(printed.exit_codes.empty());
}

}  // namespace
