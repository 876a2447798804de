#include "harness/checks/process/hang_or_slow.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>

#include "harness/checks/process/host_waits.h"
#include "harness/checks/process/late_data.h"
#include "harness/checks/process/lulls.h"
#include "harness/checks/process/rank_state.h"
#include "harness/checks/process/standstill_findings.h"
#include "harness/checks/result.h"
#include "harness/evidence/hosts.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

constexpr std::int64_t kMostMissing = 4'096;  // ranks

class Motion {
 public:
  Motion(const Evidence& life, const Evidence& all) : evidence_(life), all_(all) {}

  CheckResult judge() {
    if (evidence_.stopped.empty()) return ended_by_itself();
    stop_ = &evidence_.stopped.front();
    for (const auto& row : evidence_.stopped) {
      if (row.t_ms < stop_->t_ms) stop_ = &row;
    }
    for (const int rank : all_ranks(evidence_)) {
      if (was_alive(rank)) {
        live_.push_back(state_of_rank(evidence_, rank, suspicion()));
      } else {
        gone_.push_back(rank);
      }
    }
    const std::string& reason = stop_->row.reason;
    if (reason == "still") return judge_still();
    if (reason == "budget") return judge_budget();
    if (reason == "interrupted") return inconclusive("interrupted by the user");
    return inconclusive("the controller ended the case (" + reason +
                        "): whether it would have moved on is not known");
  }

 private:
  CheckResult ended_by_itself() {
    ResultBuilder result;
    for (const int rank : all_ranks(evidence_)) {
      if (evidence_.exit_of(rank) == nullptr) {
        result.missing("the end of " + process_name(rank), site_of_rank(rank));
      }
    }
    std::int64_t longest = 0;
    for (const auto& row : evidence_.heartbeats) {
      longest = std::max(longest, row.row.longest_gap_ms);
    }
    result.measured("longest_gap_ms", static_cast<double>(longest));
    // What a script of the user's own does between two steps is not only its data, and may take as long as it likes.
    if (!evidence_.the_case.scenario.is_command()) {
      for (Finding& finding : late_data(all_)) result.found(std::move(finding));
    }
    for (Finding& finding : host_waits(evidence_)) result.found(std::move(finding));
    const Lulls lulls = lulls_of(evidence_);
    for (Finding finding : lulls.findings) result.found(std::move(finding));
    std::string why = "the case ended by itself; longest time without any movement of a rank " +
                      std::to_string(longest) + " ms";
    for (const std::string& note : lulls.notes) why += "; " + note;
    return result.finish(why);
  }

  [[nodiscard]] bool was_alive(int rank) const {
    for (const auto& row : evidence_.exited) {
      if (row.row.process_ended == rank) return row.row.by_controller || row.t_ms > stop_->t_ms;
    }
    return true;
  }

  // A case may be looked at again after it moved on: only what was seen since the newest suspicion counts.
  [[nodiscard]] Window suspicion() const {
    Window window;
    for (const auto& row : evidence_.suspects) {
      window.from_ms = std::max(window.from_ms, row.t_ms);
    }
    return window;
  }

  // False, with what is missing, where not every live rank was looked at twice.
  [[nodiscard]] bool all_looked_at(ResultBuilder& result) const {
    for (const RankState& rank : live_) {
      if (rank.looked_twice()) continue;
      result.missing("two samples of the stacks of " + process_name(rank.rank),
                     site_of_rank(rank.rank));
    }
    if (live_.empty()) result.missing("a rank that was alive when the case was ended");
    return !result.has_missing();
  }

  CheckResult judge_still() {
    ResultBuilder result;
    measure(result);
    if (all_looked_at(result)) judge_looks(result);
    return result.finish("");
  }

  void put_dead_threads(Finding& finding) const {
    for (const auto& row : evidence_.facts) {
      if (row.row.name != kThreadDiedFact || finding.variant == "stopped") continue;
      const std::string whose = row.process >= 0 ? " of " + process_name(row.process) : "";
      finding.facts["thread"] = "a thread" + whose + " had ended by " + row.row.value;
    }
  }

  // Ranks that were started with other addresses, ports or numbers of ranks do not meet.
  void put_meetings(Finding& finding) const {
    std::map<int, std::string> meetings;
    std::set<std::string> different;
    for (const auto& row : evidence_.facts) {
      if (row.process < 0 || row.row.name != kMeetingFact) continue;
      meetings[row.process] = row.row.value;
      different.insert(row.row.value);
    }
    if (different.size() < 2) return;
    for (const auto& [rank, meeting] : meetings) {
      finding.facts["meetings"][process_name(rank)] = meeting;
    }
  }

  // Which ranks never came is known if something says how many there are to be.
  [[nodiscard]] Finding hang() const {
    Finding finding = hang_of(live_, gone_, evidence_.the_case.scenario);
    if (finding.code != "HANG.INIT") put_dead_threads(finding);
    if (finding.code != "HANG.INIT") return finding;
    std::set<int> missing;
    for (const auto& row : evidence_.facts) {
      if (row.process != kController || row.row.name != kWorldSizeFact) continue;
      const std::int64_t world = nsa::parse_int(row.row.value).value_or(0);
      for (int rank = 0; rank < std::min<std::int64_t>(world, kMostMissing); ++rank)
        missing.insert(rank);
      finding.facts["world"] = world;
    }
    for (const auto& row : evidence_.started) missing.erase(row.row.process_started);
    put_meetings(finding);
    if (!gone_.empty() && finding.variant == "together") finding.facts["gone"] = ranks_text(gone_);
    if (!missing.empty()) finding.facts["missing"] = ranks_text(to_ints(missing));
    return finding;
  }

  void judge_looks(ResultBuilder& result) const {
    if (stands_still(looked_at(live_))) {
      result.found(hang());
    } else if (const auto held = held_by_kernel(); !held.empty()) {
      Finding finding = hang_of_kernel(held, live_);
      finding.facts["still_ms"] = since_movement();
      finding.facts["longest_gap_ms"] = longest_gap();
      result.found(std::move(finding));
    } else if (const auto kept = kept_by_card(); !kept.empty()) {
      result.missing(what_keeps(kept), site_of_rank(kept.front().rank));
    } else if (const auto busy = busy_ranks(); !busy.empty()) {
      result.found(slow_by_doing(busy.front().doing(), busy));
    } else if (all_connect(live_)) {
      if (stop_->row.reason == "budget") {
        result.found(hang());
      } else {
        result.missing(
            "time enough to tell ranks that NCCL still connects from ranks that it never will");
      }
    } else if (stop_->row.reason == "budget") {
      result.found(outlasted(sleepers(), live_));
    } else {
      result.missing("enough wake-ups of " + ranks_text(numbers_of(sleepers())) +
                     ", which waited with a time limit");
    }
  }

  // Between two movements in the phase that a live rank is in.
  [[nodiscard]] std::int64_t longest_gap() const {
    std::int64_t longest = 0;
    for (const auto& row : evidence_.heartbeats) {
      const bool same_phase = std::any_of(live_.begin(), live_.end(), [&](const RankState& rank) {
        return rank.rank == row.process && rank.phase == row.row.phase;
      });
      if (same_phase) longest = std::max(longest, row.row.longest_gap_ms);
    }
    return longest;
  }

  [[nodiscard]] std::int64_t since_movement() const {
    std::int64_t last = 0;
    for (const RankState& rank : live_) last = std::max(last, last_movement(rank.rank).first);
    return stop_->t_ms - last;
  }

  // Ranks that wait for their card at one place, in no collective, while a kernel runs there in both looks; every other live rank
  // waits. A long kernel looks the same: it is stuck when it outlasts by far whatever was waited for before it.
  [[nodiscard]] std::vector<RankState> held_by_kernel() const {
    constexpr std::int64_t kFloorMs = 30'000;
    constexpr std::int64_t kFactor = 20;
    if (stop_->row.reason != "budget") return {};
    if (since_movement() < std::max(kFloorMs, kFactor * longest_gap())) return {};
    return only_waiting_beside(
        [](const RankState& rank) { return waits_for_card(rank) && runs_kernel(rank); });
  }

  // As those, but too short for that, or on a card of which nobody knows whether a kernel ran.
  [[nodiscard]] std::vector<RankState> kept_by_card() const {
    return only_waiting_beside([](const RankState& rank) {
      return waits_for_card(rank) && (runs_kernel(rank) || !knows_load(rank));
    });
  }

  [[nodiscard]] std::string what_keeps(const std::vector<RankState>& kept) const {
    const std::string ranks = ranks_text(numbers_of(kept));
    if (!std::all_of(kept.begin(), kept.end(), knows_load)) {
      return "how busy the card was on which " + ranks + " waited in two looks";
    }
    return "time enough to tell a kernel that never ends from a long one: " + ranks + " waited " +
           std::to_string(since_movement()) + " ms for the card, and before that up to " +
           std::to_string(longest_gap()) + " ms";
  }

  // The live ranks of which `is_one` holds; none where another one does anything but wait.
  template <class Predicate>
  [[nodiscard]] std::vector<RankState> only_waiting_beside(Predicate is_one) const {
    std::vector<RankState> ones;
    for (const RankState& rank : live_) {
      if (is_one(rank)) {
        ones.push_back(rank);
      } else if (rank.doing() != Doing::waiting) {
        return {};
      }
    }
    return ones;
  }

  [[nodiscard]] static bool waits_for_card(const RankState& rank) {
    return !rank.pending && waits_for_device(rank.looks[0]->row, rank.looks[1]->row);
  }

  [[nodiscard]] static bool runs_kernel(const RankState& rank) {
    constexpr int kResident = 99;  // percent: the driver rounds what it measured
    return least_load(rank) >= kResident;
  }

  [[nodiscard]] static bool knows_load(const RankState& rank) { return least_load(rank) >= 0; }

  // Of the rank's card in two looks, in percent; negative where one of them does not tell.
  [[nodiscard]] static int least_load(const RankState& rank) {
    return std::min(rank.looks[0]->row.device_busy_percent, rank.looks[1]->row.device_busy_percent);
  }

  // Those that do the same as the first of them that computes, uses a disk or waits for a child.
  [[nodiscard]] std::vector<RankState> busy_ranks() const {
    std::vector<RankState> busy;
    for (const RankState& rank : live_) {
      const Doing doing = rank.doing();
      const bool is_busy =
          doing == Doing::computing || doing == Doing::disk || doing == Doing::child;
      if (is_busy && (busy.empty() || busy.front().doing() == doing)) busy.push_back(rank);
    }
    return busy;
  }

  [[nodiscard]] std::vector<RankState> sleepers() const {
    std::vector<RankState> asleep;
    for (const RankState& rank : live_) {
      if (rank.doing() == Doing::sleeping) asleep.push_back(rank);
    }
    return asleep;
  }

  void measure(ResultBuilder& result) const {
    for (const auto& row : evidence_.suspects) {
      result.measured("still_ms",
                      static_cast<double>(row.row.still_ms),
                      static_cast<double>(row.row.threshold_ms));
    }
  }

  // The controller suspected the case before its budget was up, and nothing moved since.
  [[nodiscard]] bool suspected_to_the_end() const {
    const std::int64_t from_ms = suspicion().from_ms;
    const auto moved = [&](const auto& fact) {
      return fact.row.name == "moved_again_ms" && fact.t_ms >= from_ms;
    };
    return !evidence_.suspects.empty() &&
           std::none_of(evidence_.facts.begin(), evidence_.facts.end(), moved);
  }

  CheckResult judge_budget() {
    if (suspected_to_the_end()) return judge_still();
    std::int64_t last_move = -1;
    std::int64_t longest_gap = 0;
    const RankState* mover = nullptr;
    for (const RankState& rank : live_) {
      const auto [moved, gap] = last_movement(rank.rank);
      longest_gap = std::max(longest_gap, gap);
      if (moved > last_move) {
        last_move = moved;
        mover = &rank;
      }
    }
    const std::int64_t still = stop_->t_ms - last_move;
    const std::int64_t threshold = StillLimits{}.after_ms(longest_gap);
    if (mover == nullptr || still > threshold) return judge_unmoved(still);
    ResultBuilder result;
    result.measured(
        "since_last_movement_ms", static_cast<double>(still), static_cast<double>(threshold));
    Finding finding = slow_host("budget", {*mover});
    finding.facts["after_ms"] = stop_->row.after_ms;
    finding.facts["since_movement_ms"] = still;
    result.found(std::move(finding));
    return result.finish("");
  }

  // Nobody tells counters, as in a command of the user's own. Two looks at the end show what ranks did then.
  CheckResult judge_unmoved(std::int64_t still_ms) const {
    ResultBuilder result;
    if (!live_.empty() && all_looked_at(result)) {
      const bool held =
          std::any_of(live_.begin(), live_.end(), [](const RankState& rank) { return rank.held; });
      if (held && stands_still(looked_at(live_))) {
        result.found(hang());
        return result.finish("");
      }
      const auto busy = busy_ranks();
      if (!busy.empty()) {
        result.found(slow_by_doing(busy.front().doing(), busy));
        return result.finish("");
      }
    }
    return inconclusive(
        "the case was ended at its budget of time, and no counter is known to have moved in the "
        "last " +
        std::to_string(std::min(still_ms, stop_->t_ms)) +
        " ms: too little to tell slow from hanging");
  }

  // When a counter of the rank was last seen to have grown, and its longest gap; -1 if never.
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> last_movement(int rank) const {
    std::map<std::int64_t, std::int64_t> moved;  // by time
    std::int64_t gap = 0;
    for (const auto& row : evidence_.heartbeats) {
      if (row.process != rank) continue;
      moved[row.t_ms] = std::max(moved[row.t_ms], row.row.counters.moved());
      gap = std::max(gap, row.row.longest_gap_ms);
    }
    std::int64_t last = -1;
    std::int64_t before = 0;
    for (const auto& [t_ms, count] : moved) {
      if (count > before) last = t_ms;
      before = count;
    }
    return {last, gap};
  }

  const Evidence& evidence_;
  const Evidence& all_;  // of all lives
  const From<Stopped>* stop_ = nullptr;
  std::vector<RankState> live_;
  std::vector<int> gone_;
};

}  // namespace

CheckResult hang_or_slow(const Evidence& life, const Evidence& all) {
  return Motion(life, all).judge();
}

}  // namespace harness::checks
