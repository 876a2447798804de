#include <algorithm>
#include <filesystem>
#include <optional>
#include <vector>

#include "harness/cli/bisect/checkout.h"
#include "harness/cli/bisect/commit_test.h"
#include "harness/history/judge_nights.h"
#include "harness/history/slow_commit.h"
#include "harness/store/store.h"
#include "nsa/base/error.h"
#include "reports/paired_times.h"

namespace harness::cli {
namespace {

namespace fs = std::filesystem;
using history::CommitAnswer;
using reports::PairedCell;
using reports::TimedRun;

constexpr std::size_t kMostPairs = 3 * history::kFewestPairs;
constexpr double kAsFast = 2 * history::kFloorShare;

// Beyond doubt, and by something that matters.
bool is_slower(const PairedCell& cell) {
  return cell.verdict == history::TimeVerdict::regressed;
}

// An interval that also holds a slowdown worth looking for shows nothing: more pairs are wanted.
bool is_as_fast(const PairedCell& cell) {
  return cell.verdict == history::TimeVerdict::improved ||
         (cell.verdict == history::TimeVerdict::same && cell.step.high <= kAsFast);
}

// How many widths of its interval a slowdown is away from nothing.
double clearness(const PairedCell& cell) {
  return cell.step.change / (cell.step.high - cell.step.low);
}

class SlowerTest final : public CommitTest {
 public:
  SlowerTest(std::string good_folder, std::string line)
      : good_folder_(std::move(good_folder)), line_(std::move(line)) {}

  TestedCommit ask(const std::string& folder) override {
    const std::string place = make_place(folder);
    std::vector<std::pair<TimedRun, TimedRun>> pairs;
    TestedCommit answer;
    while (answer.answer == CommitAnswer::unknown && pairs.size() < kMostPairs) {
      for (std::size_t i = 0; i < history::kFewestPairs; ++i) {
        const auto pair = launch_pair(folder, place, pairs.size());
        if (!pair)
          return {CommitAnswer::unknown, "a launch recorded no time: " + place + "/launch.log"};
        pairs.push_back(*pair);
      }
      const std::vector<PairedCell> cells = reports::pair_times(pairs);
      answer = followed_.empty() ? ask_bad_commit(cells) : ask_commit(cells);
    }
    return answer;
  }

 private:
  // An empty folder. What an earlier search left there is gone: its times are of another hour.
  [[nodiscard]] static std::string make_place(const std::string& folder) {
    std::string place = fs::path(folder + "/../slower").lexically_normal();
    std::error_code error;
    fs::remove_all(place, error);
    fs::create_directories(place, error);
    if (error) throw nsa::Error(place + ": cannot be made: " + error.message());
    return place;
  }

  // Each launch has a database of its own: an older commit need not know the schema of a newer one.
  [[nodiscard]] std::optional<TimedRun> launch(const std::string& folder,
                                               const std::string& place,
                                               const std::string& name) const {
    const std::string database = place + "/" + name + ".db";
    (void)run_in(folder, line_, place + "/launch.log", {"NSA_HARNESS_DB=" + database});
    if (!fs::exists(database)) return std::nullopt;
    const auto store = Store::open(database, false);
    const auto run = store->last_run();
    if (!run) return std::nullopt;
    TimedRun timed = reports::timed_run(*store, *run);
    return timed.cells.empty() ? std::nullopt : std::optional(std::move(timed));
  }

  // A B, then B A: what drifts moves both.
  [[nodiscard]] std::optional<std::pair<TimedRun, TimedRun>> launch_pair(const std::string& folder,
                                                                         const std::string& place,
                                                                         std::size_t number) const {
    const std::string name = std::to_string(number);
    std::optional<TimedRun> good;
    std::optional<TimedRun> asked;
    if (number % 2 == 0) good = launch(good_folder_, place, name + "-good");
    asked = launch(folder, place, name);
    if (number % 2 == 1) good = launch(good_folder_, place, name + "-good");
    if (!good || !asked) return std::nullopt;
    return std::pair(*good, *asked);
  }

  [[nodiscard]] TestedCommit ask_bad_commit(const std::vector<PairedCell>& cells) {
    if (cells.empty()) return {CommitAnswer::unknown, "no case was measured in both commits"};
    const auto slowest =
        std::max_element(cells.begin(), cells.end(), [](const PairedCell& a, const PairedCell& b) {
          if (is_slower(a) != is_slower(b)) return is_slower(b);
          return clearness(a) < clearness(b);
        });
    if (is_slower(*slowest)) {
      followed_ = slowest->history_id;
      slowdown_ = slowest->step.change;
      return {CommitAnswer::bad, told(*slowest)};
    }
    const bool fast = std::all_of(cells.begin(), cells.end(), is_as_fast);
    return {fast ? CommitAnswer::good : CommitAnswer::unknown, told(*slowest)};
  }

  [[nodiscard]] TestedCommit ask_commit(const std::vector<PairedCell>& cells) const {
    for (const PairedCell& cell : cells) {
      if (cell.history_id == followed_) {
        return {history::side_of_slowdown(cell.step, slowdown_), told(cell)};
      }
    }
    return {CommitAnswer::unknown, "the slower case was not measured in both commits"};
  }

  [[nodiscard]] static std::string told(const PairedCell& cell) {
    return reports::interval_text(cell.step) + " against the good commit in " +
           std::to_string(cell.pairs) + " pairs, " + cell.label;
  }

  std::string good_folder_;
  std::string line_;
  std::string followed_;  // history id of the cell; "" until the bad commit was found slower
  double slowdown_ = 0.0;
};

}  // namespace

std::unique_ptr<CommitTest> slower_test(std::string good_folder, std::string line) {
  return std::make_unique<SlowerTest>(std::move(good_folder), std::move(line));
}

}  // namespace harness::cli
