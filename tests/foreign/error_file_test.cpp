// What @record of torch.distributed.elastic wrote (torch 2.11), and files that are none.
#include "harness/foreign/error_file.h"

#include <filesystem>
#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/mutate.h"
#include "tests/fakes/temp_folder.h"

namespace {

using harness::error_file_of;
using harness::error_in_file;
using harness::read_error_file;
using ::testing::ElementsAre;

const std::string kWritten =
    R"({"message": {"message": "BadShard: no shard 3\nof 2", "extraInfo": {"py_callstack": )"
    R"("Traceback (most recent call last):\n  File \"/x/site-packages/torch/distributed/)"
    R"(elastic/multiprocessing/errors/__init__.py\", line 367, in wrapper\n    return f(*args)\n)"
    R"(           ^^^^^^^^\n  File \"/home/me/train.py\", line 12, in main\n    load(3)\nKeyError: 3)"
    R"(\n\nThe above exception was the direct cause of the following exception:\n\nTraceback )"
    R"((most recent call last):\n  File \"/home/me/train.py\", line 14, in main\n    raise )"
    R"(BadShard(text) from error\ndata.BadShard: no shard 3\nof 2\n", "timestamp": "1764353645"}}})";

TEST(ErrorFile, WhatTorchWroteIsTheException) {
  const auto error = error_in_file(kWritten);
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->type, "data.BadShard");
  EXPECT_EQ(error->what, "no shard 3\nof 2");
  EXPECT_THAT(error->frames, ElementsAre("main (train.py:14): raise BadShard(text) from error"));
  EXPECT_EQ(error->raised_from, "KeyError: 3, at main (train.py:12): load(3)");
}

TEST(ErrorFile, WithoutATracebackTheMessageTellsTheType) {
  for (const char* more : {"",
                           R"(, "extraInfo": {"timestamp": "1"})",
                           R"(, "extraInfo": 3)",
                           R"(, "extraInfo": {"py_callstack": "NoneType: None\n"})"}) {
    const auto error =
        error_in_file(R"({"message": {"message": "ValueError: bad: 4")" + std::string(more) + "}}");
    ASSERT_TRUE(error.has_value()) << more;
    EXPECT_EQ(error->type, "ValueError");
    EXPECT_EQ(error->what, "bad: 4");
    EXPECT_TRUE(error->frames.empty());
  }
  EXPECT_EQ(error_in_file(R"({"message": "torch.OutOfMemoryError: CUDA out of memory."})")->type,
            "torch.OutOfMemoryError");
}

TEST(ErrorFile, ALaunchersErrorIsNoRanks) {
  EXPECT_FALSE(error_in_file(
      R"({"message": {"message": "ChildFailedError: x", "extraInfo": {"py_callstack":)"
      R"("Traceback (most recent call last):\n  File \"/x/run.py\", line 3, in main\n)"
      R"(torch.distributed.elastic.multiprocessing.errors.ChildFailedError: x\n"}}})"));
}

TEST(ErrorFile, WhatIsNotOfThatFormIsNothing) {
  for (const char* text : {"",
                           "{",
                           "[]",
                           "3",
                           R"({"message": null})",
                           R"({"message": {"message": 3}})",
                           R"({"message": "Signal 11 (SIGSEGV) received by PID 4"})",
                           R"({"message": {"extraInfo": {"py_callstack": ["ValueError: a"]}}})",
                           "{\"message\": \"\xff: a\"}"}) {
    EXPECT_FALSE(error_in_file(text)) << text;
  }
  EXPECT_FALSE(error_in_file(std::string(1 << 20, '[')));
  for (std::size_t size = 0; size < kWritten.size(); ++size) {
    EXPECT_FALSE(error_in_file(kWritten.substr(0, size))) << size;
  }
}

TEST(ErrorFile, DamagedOnesAreReadOrNothing) {
  fakes::Mutator mutate(7, kWritten.size());
  for (int i = 0; i < 20'000; ++i) {
    const auto error = error_in_file(mutate(kWritten));
    if (!error) continue;
    EXPECT_FALSE(error->type.empty());
    EXPECT_LE(error->what.size(), 4096u);
  }
}

TEST(ErrorFile, OnlyASmallRegularFileIsRead) {
  const fakes::TempFolder folder;
  EXPECT_EQ(read_error_file(folder.write("error.json", kWritten))->type, "data.BadShard");
  EXPECT_FALSE(read_error_file(""));
  EXPECT_FALSE(read_error_file(folder / "none"));
  EXPECT_FALSE(read_error_file(folder.path()));
  EXPECT_FALSE(read_error_file(folder.write("long", kWritten + std::string(1 << 20, ' '))));
  const std::string pipe = folder / "pipe";  // nobody writes to it
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_FALSE(read_error_file(pipe));
}

TEST(ErrorFile, ItsPathIsInTheEnvironmentOfTheRank) {
  using namespace std::string_literals;
  EXPECT_EQ(error_file_of("RANK=1\0TORCHELASTIC_ERROR_FILE=/tmp/a=b/0/error.json\0LANG=C\0"s),
            "/tmp/a=b/0/error.json");
  EXPECT_EQ(error_file_of("TORCHELASTIC_ERROR_FILE=/a"), "/a");
  EXPECT_EQ(error_file_of("MY_TORCHELASTIC_ERROR_FILE=/a\0RANK=TORCHELASTIC_ERROR_FILE=/b\0"s), "");
  EXPECT_EQ(error_file_of(""), "");
}

}  // namespace
