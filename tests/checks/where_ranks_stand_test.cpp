// What a standstill says of where ranks stand: the user's own lines first, and children that wait.
#include <list>

#include <gmock/gmock.h>

#include "harness/checks/process/rank_state.h"
#include "harness/checks/process/standstill_findings.h"
#include "harness/judge/wording/find_wording.h"
#include "tests/tests.h"

namespace {

using harness::ChildProcess;
using harness::From;
using harness::Observation;
using harness::ThreadStack;
using harness::checks::RankState;

using harness::worded;
using harness::checks::hang_of;
using harness::checks::lines_of;
using harness::checks::top_frames;
using harness::checks::waiting_children;
using harness::checks::way_to_stacks;

using Frames = std::vector<std::string>;

const std::string kLoop = "main (train.py:80): for batch in loader:";
const std::string kReduce = "step (train.py:26): dist.all_reduce(x)";

ThreadStack waiting(const std::string& name, const Frames& frames, bool timed = false) {
  ThreadStack thread;
  thread.thread = name;
  thread.state = "S";
  thread.call = "futex";
  thread.timed = timed;
  thread.frames = frames;
  return thread;
}

class WhereRanksStand : public testing::Test {
 protected:
  RankState rank(int number, const Frames& frames) {
    Observation seen;
    seen.process_observed = number;
    seen.threads = {waiting("python3 " + std::to_string(100 + number), frames)};
    rows_.push_back({harness::kController, 0, seen});
    RankState state;
    state.rank = number;
    state.looks[1] = &rows_.back();
    return state;
  }
  const From<Observation>* keep(From<Observation> row) {
    return &rows_.emplace_back(std::move(row));
  }
  void child(ChildProcess child, bool timed = false) {
    Observation& seen = rows_.back().row;
    seen.threads.push_back(waiting(child.name + " " + std::to_string(child.pid), {}, timed));
    seen.children.push_back(std::move(child));
  }

 private:
  std::list<From<Observation>> rows_;
};

TEST_F(WhereRanksStand, RanksInOneLineAreToldTogether) {
  const std::vector<RankState> ranks = {rank(0, {"wait (torch/a.py:1)", kReduce}),
                                        rank(1, {"select (selectors.py:4)", kLoop}),
                                        rank(2, {"wait (torch/b.py:9)", kReduce})};
  EXPECT_EQ(lines_of(ranks),
            "Ranks 0, 2: " + kReduce + "; rank 1: main (train.py:80): for batch in loader");
}

TEST_F(WhereRanksStand, ARankWithoutALineOfTheUsersOwnHasItsInnermostFrame) {
  EXPECT_EQ(lines_of({rank(0, {"shutdown (threading.py:15)"}), rank(1, {kReduce})}),
            "Rank 0: shutdown (threading.py:15); rank 1: " + kReduce);
  EXPECT_EQ(lines_of({rank(0, {"shutdown (threading.py:15)"})}), "");  // the stacks say as much
  EXPECT_EQ(lines_of({rank(0, {})}), "");
  EXPECT_EQ(lines_of({RankState{}}), "");
}

TEST_F(WhereRanksStand, FramesBeginWithTheLineOfTheUsersOwnAndEndWithTheInnermostOne) {
  EXPECT_EQ(top_frames(rank(0, {"a", "b", "c", kLoop, "d"})), kLoop + " > c > ... > a");
  EXPECT_EQ(top_frames(rank(0, {"a", "b", kLoop})), kLoop + " > b > a");
  EXPECT_EQ(top_frames(rank(0, {"a", kLoop})), kLoop + " > a");
  EXPECT_EQ(top_frames(rank(0, {kLoop, kReduce})), kLoop);
  EXPECT_EQ(top_frames(rank(0, {"a", "b", "c", "d", "e", "f"})), "a < b < c < d < e");
  EXPECT_EQ(top_frames(rank(0, {"a", "b", "another thread: " + kReduce})),
            "a < b; another thread: " + kReduce);
}

TEST_F(WhereRanksStand, AChildThatWaitsInTheUsersOwnCodeIsToldAndAnIdleHelperIsNot) {
  const RankState state = rank(0, {"select (selectors.py:4)", kLoop});
  child({"python3", 7, "S", 0, {"main (multiprocessing/resource_tracker.py:9)"}});
  child({"python3", 8, "S", 0, {kReduce}}, true);  // with a time limit
  EXPECT_EQ(waiting_children(state), "");
  child({"pt_data_worker", 9, "S", 0, {"wait (a.py:1)", "log (train.py:31): with lock:"}});
  EXPECT_EQ(waiting_children(state),
            "its child pt_data_worker 9 waits in futex without a time limit, in log (train.py:31): "
            "with lock");
}

TEST_F(WhereRanksStand, AStackThatNobodyCouldReadIsToldWithTheCommandThatAllowsIt) {
  const RankState seen = rank(0, {kLoop});
  RankState unseen = rank(1, {});
  RankState other = rank(2, {});
  for (RankState* one : {&unseen, &other}) {
    From<Observation> row = *one->looks[1];
    row.row.way_to_stacks = "`pip install py-spy` allows it";
    one->looks[1] = keep(row);
  }
  const harness::Scenario none;
  EXPECT_THAT(worded(hang_of({seen, unseen, other}, {}, none)).next_action,
              ::testing::HasSubstr(
                  " No stack of ranks 1-2 could be read: `pip install py-spy` allows it."));
  EXPECT_THAT(worded(hang_of({seen}, {}, none)).next_action,
              ::testing::Not(::testing::HasSubstr("No stack")));
  From<Observation> kernel = *unseen.looks[1];
  kernel.row.threads.front().kernel = {"futex_wait_queue"};
  unseen.looks[1] = keep(kernel);
  EXPECT_EQ(way_to_stacks(unseen), "");
}

}  // namespace
