// Where Python processes stand: what py-spy and faulthandler print, and how a frame is told.
#include "harness/cli/running/python_frames.h"

#include <filesystem>
#include <unistd.h>

#include <gtest/gtest.h>

#include "harness/evidence/python_frame.h"
#include "tests/fakes/temp_folder.h"

namespace {

using harness::cli::Threads;
using harness::cli::threads_in_dump;
using harness::cli::threads_in_faults;
using harness::cli::told_frame;
using harness::cli::told_frames;
using Frames = std::vector<std::string>;

TEST(PythonFrames, FaulthandlerTellsTheMainThreadLast) {
  EXPECT_EQ(threads_in_faults("Thread 0x01 (most recent call first):\n"
                              "  File \"/lib/python3.11/threading.py\", line 324 in wait\n"
                              "\n"
                              "Current thread 0x02 (most recent call first):\n"
                              "  File \"/home/a b/in \\\", line 3.py\", line 12 in <listcomp>\n"
                              "  File \"train.py\", line 40 in main\n"
                              "  ...\n"),
            (Threads{{"wait (/lib/python3.11/threading.py:324)"},
                     {"<listcomp> (/home/a b/in \\\", line 3.py:12)", "main (train.py:40)"}}));
  EXPECT_EQ(threads_in_faults(""), Threads{});
  EXPECT_EQ(threads_in_faults("Thread 0x01 (most recent call first):\n  <no Python frame>\n"),
            Threads{{}});
}

TEST(PythonFrames, OfPySpyTheMainThreadIsPutLast) {
  EXPECT_EQ(threads_in_dump("Process 4: python3 train.py\n"
                            "Thread 7 (idle): \"MainThread\"\n"
                            "    wait (/lib/python3.11/threading.py:324)\n"
                            "    main (/home/a/train.py:40)\n"
                            "Thread 8 (idle): \"writer\"\n"
                            "    write (/home/a/train.py:3)\n"),
            (Threads{{"write (/home/a/train.py:3)"},
                     {"wait (/lib/python3.11/threading.py:324)", "main (/home/a/train.py:40)"}}));
}

TEST(PythonFrames, AThreadOfTheUsersOwnIsToldIfTheMainThreadIsInNoLineOfHis) {
  const fakes::TempFolder folder;
  const std::string write = "write (" + folder.write("train.py", "queue.get()\n") + ":1)";
  EXPECT_EQ(
      told_frames({{write}, {"shutdown (/lib/python3.11/threading.py:4)"}}),
      (Frames{"shutdown (threading.py:4)", "another thread: write (train.py:1): queue.get()"}));
  EXPECT_EQ(told_frames({{write}, {"wait (/lib/python3.11/threading.py:4)", write}}),
            (Frames{"wait (threading.py:4)", "write (train.py:1): queue.get()"}));
  EXPECT_EQ(told_frames({{"serve (/a/python/nsa_harness/socket_channel.py:4)"}, {}}), Frames{});
}

TEST(PythonFrames, AFrameOfTheUsersOwnHasTheTextOfItsLineAndOneOfALibraryHasNot) {
  const fakes::TempFolder folder;
  const std::string path = folder.write("train.py", "import os\n\n  with lock:  \n");
  EXPECT_EQ(told_frame("log (" + path + ":3)"), "log (train.py:3): with lock:");
  EXPECT_TRUE(harness::is_of_user(told_frame("log (" + path + ":3)")));
  EXPECT_EQ(told_frame("log (" + path + ":2)"), "log (train.py:2)");
  EXPECT_EQ(told_frame("log (" + path + ":40)"), "log (train.py:40)");
  EXPECT_EQ(told_frame("log (/nowhere/train.py:3)"), "log (train.py:3)");
  EXPECT_EQ(told_frame("log (train.py:3)"), "log (train.py:3)");
  EXPECT_EQ(told_frame("wait (/usr/lib/python3.11/threading.py:324)"), "wait (threading.py:324)");
  EXPECT_EQ(told_frame("step (/v/lib/python3.12/site-packages/torch/optim/adamw.py:9)"),
            "step (torch/optim/adamw.py:9)");
  EXPECT_EQ(told_frame("load (<frozen importlib._bootstrap>:241)"),
            "load (<frozen importlib._bootstrap>:241)");
  EXPECT_EQ(told_frame("no frame"), "no frame");
  EXPECT_FALSE(harness::is_of_user(told_frame("step (/v/site-packages/torch/optim/adamw.py:9)")));
}

TEST(PythonFrames, TheLineThatTheHandlerOfADeadWorkerInterruptsIsNotWhereItFailed) {
  const std::string step = "main (train.py:42): optimizer.step()";
  EXPECT_EQ(harness::users_line({"step (torch/optim/adamw.py:9)", step}), step);
  EXPECT_EQ(harness::users_line({"handler (torch/utils/data/_utils/signal_handling.py:73)",
                                 "step (torch/optim/adamw.py:9)",
                                 step}),
            "");
}

TEST(PythonFrames, AProcessThatIsNoPythonHasNone) {
  EXPECT_EQ(harness::cli::python_frames(getpid()).frames, Frames{});
  EXPECT_EQ(harness::cli::python_frames(getpid()).way, "");
}

// As `pip install` puts it beside the Python of a virtual environment that nobody activated.
TEST(PythonFrames, PySpyIsFoundBesideThePythonThatRunsTheProgram) {
  const fakes::TempFolder folder;
  const std::string program = folder.write("py-spy",
                                           "#!/bin/sh\necho 'Thread 7 (idle): \"MainThread\"'\n"
                                           "echo \"    main (train.py:$5)\"\n");
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  setenv("NSA_HARNESS_PYTHON", (folder / "python3").c_str(), 1);
  EXPECT_EQ(harness::cli::python_frames(getpid()).frames,
            (Frames{"main (train.py:" + std::to_string(getpid()) + ")"}));
  EXPECT_EQ(harness::cli::python_frames(getpid(), true).frames, Frames{});
  unsetenv("NSA_HARNESS_PYTHON");
}

TEST(PythonFrames, WhatWouldLetAStackBeReadIsToldAsACommand) {
  using harness::cli::way_to_stacks;
  EXPECT_EQ(way_to_stacks({false, true, true, true, 1}), "`pip install py-spy` allows it");
  EXPECT_EQ(way_to_stacks({true, true, false, false, 1}),
            "`sudo sysctl kernel.yama.ptrace_scope=0` allows it");
  EXPECT_EQ(way_to_stacks({false, true, false, false, 1}),
            "`pip install py-spy` and `sudo sysctl kernel.yama.ptrace_scope=0` allow it");
  EXPECT_EQ(way_to_stacks({true, false, false, false, 0}), "`sudo` before this command allows it");
  EXPECT_EQ(way_to_stacks({true, true, true, false, 1}),
            "the option `--cap-add=SYS_PTRACE` of the container allows it");
  EXPECT_EQ(way_to_stacks({true, true, false, false, 0}),
            "`py-spy dump --pid PID` tells why, as long as it stands there");
}

}  // namespace
