// An exception that nobody catches, on a thread that the program did not start, is recorded before it ends the process.
#include "harness/worker/uncaught.h"

#include <csignal>
#include <stdexcept>
#include <thread>

#include <c10/util/Exception.h>

#include "harness/evidence/raised.h"
#include "tests/worker/channel_test_base.h"

namespace {

class UncaughtDeathTest : public tests::ChannelTest {
 protected:
  template <typename Act>
  void end_by(const Act& act) {
    EXPECT_EXIT(
        {
          harness::Progress progress;
          progress.enter("backward", 4);
          const harness::TellUncaught uncaught(channel_, progress);
          std::thread(act).join();
        },
        testing::KilledBySignal(SIGABRT),
        "terminate called after throwing");
  }
};

TEST_F(UncaughtDeathTest, IsTheErrorOfTheWorker) {
  end_by([] { throw std::runtime_error("from another thread"); });
  const auto errors = written<harness::WorkerError>();
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_EQ(errors[0].type, "std::runtime_error");
  EXPECT_EQ(errors[0].what, "from another thread");
  EXPECT_EQ(errors[0].phase, "backward");
  EXPECT_EQ(errors[0].step, 4);
}

TEST_F(UncaughtDeathTest, OfTheWatchdogThatMetAnErrorOfTheCardIsTheCards) {
  end_by([] {
    C10_THROW_ERROR(
        DistBackendError,
        "[PG ID 0 PG GUID 0(default_pg) Rank 0] Process group watchdog thread terminated "
        "with exception: CUDA error: an illegal memory access was encountered");
  });
  const auto errors = written<harness::WorkerError>();
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_EQ(harness::raised_as(errors[0]).failure, harness::Failure::device);
}

TEST_F(UncaughtDeathTest, WhoEndsWithoutAnExceptionIsNotSpokenFor) {
  EXPECT_EXIT(
      {
        harness::Progress progress;
        const harness::TellUncaught uncaught(channel_, progress);
        std::terminate();
      },
      testing::KilledBySignal(SIGABRT),
      "");
  EXPECT_TRUE(written<harness::WorkerError>().empty());
}

}  // namespace
