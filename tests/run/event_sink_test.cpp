// The record of a long run of the user's own: what stays of it, in the log, for whoever judges it, and after a kill.
#include "harness/run/record/event_sink.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "tests/fakes/long_runs.h"
#include "tests/fakes/temp_folder.h"

namespace harness {
namespace {

using Events = std::vector<Event>;

std::string text_of(const Events& events) {
  std::string lines;
  for (const Event& event : events) lines += encode_event(event) + "\n";
  return lines;
}

Events in_log(const std::string& folder) {
  Events events;
  (void)read_event_log(folder, [&](const Event& event) { events.push_back(event); });
  return events;
}

std::int64_t steps_known(const Events& events) {
  std::int64_t steps = 0;
  for (const Event& event : events) {
    if (event.kind == StepDigest::kKind && event.process == 0) ++steps;
    if (event.kind == Stretch::kKind) steps += event.body.get<Stretch>().steps();
  }
  return steps;
}

TEST(EventSink, TheRecordOfALongRunIsSmallAndIsWhatIsJudged) {
  const fakes::TempFolder folder;
  const fakes::LongRun run{.steps = 3'000, .recorded_every = 1'000'000};
  const Events all = fakes::events_of(run);
  std::size_t heard = 0;
  Events kept;
  RunnerHooks hooks;
  hooks.on_event = [&](const Event&) { ++heard; };
  hooks.on_kept = [&](const Event& event) { kept.push_back(event); };
  EventSink sink(folder.path(), hooks);
  sink.fold_steps();
  std::uintmax_t largest = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    sink.add(all[i]);
    if (i % 200 != 0) continue;
    sink.flush();
    largest = std::max(largest, std::filesystem::file_size(folder / kEventsFile));
    if (i % 5'000 != 0) continue;
    // Every step that began so far is there at any time, should the controller be killed now.
    const Events killed = in_log(folder.path());
    const Events whole(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    EXPECT_EQ(steps_known(killed), steps_known(whole)) << "after event " << i;
  }
  sink.finish();
  EXPECT_FALSE(sink.failed()) << sink.error();
  EXPECT_EQ(heard, all.size());
  EXPECT_EQ(text_of(kept), text_of(in_log(folder.path())));
  EXPECT_EQ(sink.hash(), hash_of_events(folder.path()));
  EXPECT_EQ(steps_known(kept), run.steps);
  EXPECT_LT(10 * text_of(kept).size(), text_of(all).size());
  EXPECT_LT(3 * largest, text_of(all).size());
}

TEST(EventSink, WithoutFoldingAllIsKept) {
  const fakes::TempFolder folder;
  const Events all = fakes::events_of(fakes::LongRun{});
  Events kept;
  RunnerHooks hooks;
  hooks.on_kept = [&](const Event& event) { kept.push_back(event); };
  EventSink sink(folder.path(), hooks);
  for (const Event& event : all) sink.add(event);
  sink.finish();
  EXPECT_EQ(text_of(kept), text_of(all));
}

}  // namespace
}  // namespace harness
