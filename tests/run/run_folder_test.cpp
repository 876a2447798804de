// The append-only log: whole lines, a hash over all of them, and what a kill or a later hand leaves.
#include "harness/run/record/run_folder.h"

#include <filesystem>
#include <fstream>
#include <random>

#include <gtest/gtest.h>

#include "harness/evidence/line_reader.h"
#include "harness/evidence/packed.h"
#include "nsa/base/error.h"
#include "nsa/base/hash.h"
#include "tests/fakes/error_of.h"
#include "tests/fakes/temp_folder.h"

namespace harness {
namespace {

class EventLogTest : public ::testing::Test {
 protected:
  void write(int count, bool finish) {
    EventLog log(folder_.path());
    for (int i = 0; i < count; ++i) {
      const std::vector<Event> batch = {Event::of(0, i, Fact{"n", std::to_string(i)}),
                                        Event::of(1, i, Done{})};
      log.append(batch);
    }
    if (finish) log.finish();
  }

  std::pair<LogState, int> read() {
    int count = 0;
    const LogState state = read_event_log(folder_.path(), [&](const Event&) { ++count; }).state;
    return {state, count};
  }

  // The packed log as lines again, as a killed controller leaves them.
  void unpack_in_place() {
    std::string lines;
    unpack_file(packed_, 1U << 30U, [&](std::string_view piece) { lines += piece; });
    std::ofstream(path_, std::ios::binary) << lines;
    std::filesystem::remove(packed_);
  }

  fakes::TempFolder folder_;
  std::string path_ = folder_ / kEventsFile;
  std::string packed_ = folder_ / kPackedEventsFile;
};

TEST_F(EventLogTest, RoundTripAndHash) {
  write(100, true);
  EXPECT_EQ(read(), std::pair(LogState::whole, 200));
  EXPECT_FALSE(std::filesystem::exists(path_)) << "only the packed log is kept";
  EXPECT_TRUE(has_event_log(folder_.path()));
  const auto packed_bytes = std::filesystem::file_size(packed_);
  std::ifstream noted(folder_ / kEventsHashFile);
  std::string hash;
  std::uintmax_t bytes = 0;
  noted >> hash >> bytes;
  unpack_in_place();
  EXPECT_EQ(hash, nsa::hash_file(path_));
  EXPECT_EQ(bytes, std::filesystem::file_size(path_));
  EXPECT_LT(10 * packed_bytes, bytes);
  EXPECT_EQ(read(), std::pair(LogState::whole, 200)) << "lines are read as well as packed ones";
}

std::vector<Event> facts(int from, int to) {
  std::vector<Event> events;
  for (int i = from; i < to; ++i) events.push_back(Event::of(0, i, Fact{"n", std::to_string(i)}));
  return events;
}

TEST_F(EventLogTest, OpenLinesAreThereUntilOthersTakeTheirPlace) {
  const auto names = [&] {
    std::string all;
    (void)read_event_log(folder_.path(), [&](const Event& event) {
      all += event.body["value"].get<std::string>() + " ";
    });
    return all;
  };
  EventLog log(folder_.path());
  log.append(facts(0, 2));
  log.append_open(facts(2, 4));
  log.append_open(facts(4, 6));
  EXPECT_EQ(names(), "0 1 2 3 4 5 ");
  EXPECT_EQ(log.hash(), hash_of_events(folder_.path()));
  log.settle(facts(2, 3), facts(5, 6));
  EXPECT_EQ(names(), "0 1 2 5 ");
  log.append_open(facts(6, 7));
  EXPECT_EQ(log.hash(), hash_of_events(folder_.path()));
  log.settle(facts(5, 7), {});
  log.finish();
  EXPECT_EQ(names(), "0 1 2 5 6 ");
  EXPECT_EQ(read(), std::pair(LogState::whole, 5));
  EXPECT_FALSE(std::filesystem::exists(folder_ / kEventsTailFile));
}

// As a kill leaves it: the new lines were written beside the file, and are on their way into it.
TEST_F(EventLogTest, AKillWhileOpenLinesAreReplacedLosesNoneAndRepeatsNone) {
  const auto text = [](const std::vector<Event>& events) {
    std::string lines;
    for (const Event& event : events) lines += encode_event(event) + "\n";
    return lines;
  };
  const std::string settled = text(facts(0, 2));
  const std::string tail = text(facts(2, 5));
  std::ofstream(folder_ / kEventsTailFile) << "{\"after\":" << settled.size() << "}\n" << tail;
  for (const std::string& rest : {text(facts(7, 9)), std::string(), tail, tail.substr(0, 40)}) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << settled << rest;
    EXPECT_EQ(read(), std::pair(LogState::unfinished, 5)) << "with " << rest;
  }
  std::ofstream(path_, std::ios::binary | std::ios::trunc) << settled.substr(0, 10);
  EXPECT_THROW(read(), nsa::Error) << "what the tail goes on from is not there";
  std::ofstream(folder_ / kEventsTailFile) << tail;
  EXPECT_THROW(read(), nsa::Error) << "it does not say where it begins";
}

TEST_F(EventLogTest, AKillBeforeTheLinesAreRemovedLosesNothing) {
  write(100, true);
  const std::string copy = folder_ / "copy";
  std::filesystem::copy_file(packed_, copy);
  unpack_in_place();
  std::ifstream whole(copy, std::ios::binary);
  std::string half((std::istreambuf_iterator<char>(whole)), {});
  std::ofstream(packed_, std::ios::binary) << half.substr(0, half.size() / 2);
  EXPECT_EQ(read(), std::pair(LogState::whole, 200));
}

TEST_F(EventLogTest, APackedLogOfMoreThanItPromisesIsRefused) {
  write(100, true);
  std::ofstream(folder_ / kEventsHashFile) << "x 100\n";
  EXPECT_NE(error_of([&] { (void)read(); }).find("longer than it may be"), std::string::npos);
  std::ofstream(folder_ / kEventsHashFile) << "";
  EXPECT_THROW((void)read(), nsa::Error);
}

TEST_F(EventLogTest, EmptyLogIsWhole) {
  write(0, true);
  EXPECT_EQ(read(), std::pair(LogState::whole, 0));
}

TEST_F(EventLogTest, WithoutItsHashItIsUnfinished) {
  write(3, false);
  EXPECT_EQ(read(), std::pair(LogState::unfinished, 6));
}

TEST_F(EventLogTest, EveryCutLeavesTheWholeLinesBeforeIt) {
  write(5, false);
  const auto size = std::filesystem::file_size(path_);
  int before = 10;
  for (std::uintmax_t at = size; at-- > 0;) {
    std::filesystem::resize_file(path_, at);
    const auto [state, count] = read();
    EXPECT_EQ(state, LogState::unfinished);
    EXPECT_TRUE(count == before || count == before - 1) << at;
    before = count;
  }
  EXPECT_EQ(before, 0);
}

class ChangedByte : public EventLogTest, public ::testing::WithParamInterface<bool> {};

TEST_P(ChangedByte, IsSeen) {
  write(3, true);
  const bool packed = GetParam();
  if (!packed) unpack_in_place();
  const std::string changed = packed ? packed_ : path_;
  const auto size = static_cast<std::streamoff>(std::filesystem::file_size(changed));
  for (std::streamoff at = 0; at < size; at += packed ? 1 : 7) {
    std::fstream file(changed, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(at);
    const char before = static_cast<char>(file.get());
    file.seekp(at);
    file.put(before == '1' ? '2' : '1');
    file.close();
    LogState state = LogState::altered;
    try {
      state = read().first;
    } catch (const nsa::Error&) {  // no event any more
    }
    // A bit of the packing that no reader looks at changes nothing that was recorded.
    EXPECT_TRUE(state == LogState::altered || (packed && read().second == 6)) << at;
    std::fstream back(changed, std::ios::in | std::ios::out | std::ios::binary);
    back.seekp(at);
    back.put(before);
  }
  EXPECT_EQ(read().first, LogState::whole);
}

INSTANTIATE_TEST_SUITE_P(Logs, ChangedByte, ::testing::Bool());

TEST_F(EventLogTest, GarbageIsNamedByItsLine) {
  write(1, false);
  std::ofstream(path_, std::ios::app) << "garbage\n";
  EXPECT_EQ(error_of([&] { (void)read(); }).rfind(path_ + ":3", 0), 0u);
}

TEST_F(EventLogTest, AnAttemptIsNeverContinued) {
  write(1, true);
  EXPECT_THROW(write(1, true), nsa::Error);
  EXPECT_EQ(read(), std::pair(LogState::whole, 2));
}

TEST(LineReader, PiecesDoNotMatter) {
  std::mt19937 random(5);
  const std::string text = "one\n\ntwo words\nlonger than ten\nten bytes.\nend";
  const std::vector<std::string> wanted = {
      "0one", "0", "0two words", "1longer than ten", "0ten bytes.", "2end"};
  for (int trial = 0; trial < 200; ++trial) {
    LineReader reader(10);
    std::vector<std::string> found;
    const LineReader::OnLine keep = [&](LineReader::Piece piece, std::string_view line) {
      // Of a line that is too long only the beginning is kept, how much depends on the pieces.
      const bool too_long = piece == LineReader::Piece::too_long;
      found.push_back(std::to_string(static_cast<int>(piece)) +
                      (too_long ? "longer than ten" : std::string(line)));
    };
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t n = std::uniform_int_distribution<std::size_t>(1, 20)(random);
      reader.feed(std::string_view(text).substr(at, n), keep);
      at += n;
    }
    reader.finish(keep);
    EXPECT_EQ(found, wanted);
  }
}

}  // namespace
}  // namespace harness
