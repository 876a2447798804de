// Did the case move? A hang is said only when nothing moved on any rank, twice looked at from outside; a case that ran out of
// its budget while counters moved is slow. A timeout alone is never a hang.
#include <algorithm>
#include <optional>
#include <tuple>

#include "harness/checks/list.h"
#include "harness/checks/process/host_waits.h"
#include "harness/checks/process/late_data.h"
#include "harness/checks/result.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

struct Pending {  // the oldest collective that a rank entered and did not leave
  std::string group;
  std::int64_t sequence = 0;
  std::int64_t step = 0;
  std::string op;
};

struct RankState {
  int rank = 0;
  std::string phase;
  std::int64_t step = 0;
  int layer = -1;
  const From<Observation>* looks[2] = {nullptr, nullptr};
  std::optional<Pending> pending;
};

bool stopped_state(const RankState& rank) {
  return std::all_of(std::begin(rank.looks), std::end(rank.looks), [](const auto* look) {
    return look != nullptr && (look->row.state == "T" || look->row.state == "t");
  });
}

std::vector<std::string> main_frames(const Observation& look) {
  if (look.threads.empty()) return {};
  const ThreadStack& main = look.threads.front();
  return main.frames.empty() ? main.kernel : main.frames;
}

// From the first frame on that is none of the device's driver.
std::vector<std::string> frames_below_driver(const std::vector<std::string>& frames) {
  const auto first = std::find_if(frames.begin(), frames.end(), [](const std::string& frame) {
    return frame.find("libcuda.so") == std::string::npos;
  });
  return {first, frames.end()};
}

// The driver waits for the device in a loop of several functions: its own frames differ from look to look. Such a wait is one for
// the peers where a collective is under way; without one it may be a kernel that takes long.
bool spins_in_driver(const RankState& rank,
                     const std::vector<std::string>& before,
                     const std::vector<std::string>& after) {
  if (!rank.pending) return false;
  const auto below_before = frames_below_driver(before);
  const auto below_after = frames_below_driver(after);
  const bool in_driver = below_before.size() < before.size() && below_after.size() < after.size();
  // A list that is cut off inside the driver tells nothing of who called it.
  const bool cut_off = below_before.empty() || below_after.empty();
  return in_driver && (cut_off || below_before == below_after);
}

// Waiting takes no time of the processor; a wait that spins stands still in its stack.
bool stands_still(const RankState& rank) {
  if (stopped_state(rank)) return true;
  const auto* before = rank.looks[0];
  const auto* after = rank.looks[1];
  const double wall = static_cast<double>(after->t_ms - before->t_ms);
  const double cpu = static_cast<double>(after->row.cpu_ms - before->row.cpu_ms);
  constexpr double kIdleShare = 0.1;  // heartbeats and samplers take about a hundredth of a core
  if (wall > 0 && cpu <= kIdleShare * wall) return true;
  const auto frames = main_frames(after->row);
  const auto frames_before = main_frames(before->row);
  return (!frames.empty() && frames == frames_before) ||
         spins_in_driver(rank, frames_before, frames);
}

// Where the main thread was at the last look; "" where nobody looked.
std::string top_frames(const RankState& rank) {
  constexpr std::size_t kMost = 5;
  const auto* look = rank.looks[1] != nullptr ? rank.looks[1] : rank.looks[0];
  if (look == nullptr) return "";
  std::vector<std::string> frames = main_frames(look->row);
  const std::string wait = look->row.threads.empty() ? "" : look->row.threads.front().wchan;
  if (frames.size() > kMost) frames.resize(kMost);
  const std::string text = nsa::join(frames, " < ");
  return text.empty() && !wait.empty() ? "in the kernel's " + wait : text;
}

std::vector<int> numbers(const std::vector<RankState>& ranks) {
  std::vector<int> all;
  for (const RankState& rank : ranks) all.push_back(rank.rank);
  return all;
}

class Motion {
 public:
  explicit Motion(const Evidence& evidence) : evidence_(evidence) {}

  CheckResult judge() {
    if (evidence_.stopped.empty()) return ended_by_itself();
    stop_ = &evidence_.stopped.front();
    for (const auto& row : evidence_.stopped) {
      if (row.t_ms < stop_->t_ms) stop_ = &row;
    }
    for (const int rank : all_ranks(evidence_)) {
      if (was_alive(rank)) live_.push_back(state_of(rank));
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
    for (Finding& finding : late_data(evidence_)) result.found(std::move(finding));
    for (Finding& finding : host_waits(evidence_)) result.found(std::move(finding));
    return result.finish("the case ended by itself; longest time without any movement of a rank " +
                         std::to_string(longest) + " ms");
  }

  [[nodiscard]] bool was_alive(int rank) const {
    for (const auto& row : evidence_.exited) {
      if (row.row.process_ended == rank) return row.row.by_controller || row.t_ms > stop_->t_ms;
    }
    return true;
  }

  [[nodiscard]] RankState state_of(int rank) const {
    RankState state;
    state.rank = rank;
    std::int64_t latest = -1;
    const auto take = [&](std::int64_t t_ms, const std::string& phase, std::int64_t step) {
      if (t_ms < latest) return false;
      latest = t_ms;
      state.phase = phase;
      state.step = step;
      return true;
    };
    for (const auto& row : evidence_.heartbeats) {
      if (row.process == rank && take(row.t_ms, row.row.phase, row.row.step)) {
        state.layer = row.row.layer;
      }
    }
    for (const auto& row : evidence_.phases) {
      if (row.process == rank && row.t_ms >= latest) take(row.t_ms, row.row.phase, row.row.step);
    }
    for (const auto& row : evidence_.observations) {
      const int look = row.row.look;
      if (row.row.process_observed != rank || (look != 0 && look != 1)) continue;
      // A case may be looked at again after it moved on: the last pair counts.
      if (state.looks[look] == nullptr || state.looks[look]->t_ms <= row.t_ms)
        state.looks[look] = &row;
    }
    state.pending = pending_of(rank);
    return state;
  }

  [[nodiscard]] std::optional<Pending> pending_of(int rank) const {
    std::set<std::pair<std::string, std::int64_t>> done;
    for (const auto& row : evidence_.collectives_done) {
      if (row.process == rank) done.insert({row.row.group, row.row.sequence});
    }
    const From<Collective>* oldest = nullptr;
    for (const auto& row : evidence_.collectives) {
      if (row.process != rank || done.count({row.row.group, row.row.sequence}) > 0) continue;
      const auto key = std::tie(row.t_ms, row.row.group, row.row.sequence);
      if (oldest == nullptr ||
          key < std::tie(oldest->t_ms, oldest->row.group, oldest->row.sequence)) {
        oldest = &row;
      }
    }
    if (oldest == nullptr) return std::nullopt;
    return Pending{oldest->row.group, oldest->row.sequence, oldest->row.step, oldest->row.op};
  }

  CheckResult judge_still() {
    ResultBuilder result;
    std::vector<int> busy;
    for (const RankState& rank : live_) {
      if (rank.looks[0] == nullptr || rank.looks[1] == nullptr) {
        result.missing("two samples of the stacks of " + process_name(rank.rank),
                       site_of_rank(rank.rank));
      } else if (!stands_still(rank)) {
        busy.push_back(rank.rank);
      }
    }
    if (live_.empty()) result.missing("a rank that was alive when the case was ended");
    measure(result);
    if (result.has_missing()) return result.finish("");
    // A stopped process is no slow one, whatever its peers do while they wait for it.
    const bool one_stopped = std::any_of(live_.begin(), live_.end(), &stopped_state);
    result.found(busy.empty() || one_stopped ? hang() : slow_but_busy(busy));
    return result.finish("");
  }

  void measure(ResultBuilder& result) const {
    for (const auto& row : evidence_.suspects) {
      result.measured("still_ms",
                      static_cast<double>(row.row.still_ms),
                      static_cast<double>(row.row.threshold_ms));
    }
  }

  [[nodiscard]] Finding hang() const {
    std::vector<RankState> stopped;
    std::vector<RankState> starting;
    std::vector<RankState> outside;
    for (const RankState& rank : live_) {
      if (stopped_state(rank)) stopped.push_back(rank);
      if (rank.phase == "rendezvous" || rank.phase == "init" || rank.phase.empty()) {
        starting.push_back(rank);
      }
      if (!rank.pending) outside.push_back(rank);
    }
    if (!stopped.empty()) return hang_stopped(stopped);
    if (starting.size() == live_.size()) return hang_init();
    if (outside.empty()) return hang_collective();
    return hang_host(outside);
  }

  // Ranks, phase and step of the first; the stacks of all of them.
  [[nodiscard]] static Finding base(const char* code,
                                    const char* variant,
                                    const std::vector<RankState>& ranks) {
    Finding finding = make_finding(code, variant);
    finding.site.ranks = numbers(ranks);
    finding.site.phase = ranks.front().phase;
    if (ranks.front().step > 0) finding.site.step = ranks.front().step;
    put_stacks(ranks, finding);
    return finding;
  }

  static void put_stacks(const std::vector<RankState>& ranks, Finding& finding) {
    for (const RankState& rank : ranks) {
      const std::string frames = top_frames(rank);
      if (!frames.empty()) finding.facts["stacks"][process_name(rank.rank)] = frames;
    }
  }

  // Live ranks that are not among these.
  [[nodiscard]] std::vector<int> others(const std::vector<RankState>& ranks) const {
    const std::vector<int> known = numbers(ranks);
    std::vector<int> rest;
    for (const RankState& rank : live_) {
      if (std::find(known.begin(), known.end(), rank.rank) == known.end()) {
        rest.push_back(rank.rank);
      }
    }
    return rest;
  }

  [[nodiscard]] Finding hang_stopped(const std::vector<RankState>& ranks) const {
    Finding finding = base("HANG.HOST", "stopped", ranks);
    finding.site.detail["state"] = "T";
    if (const auto rest = others(ranks); !rest.empty()) {
      finding.facts["waiting"] = ranks_text(rest);
    }
    return finding;
  }

  [[nodiscard]] Finding hang_init() const {
    std::vector<RankState> late;
    for (const RankState& rank : live_) {
      if (rank.phase != "rendezvous") late.push_back(rank);
    }
    std::vector<int> gone;
    for (const int rank : all_ranks(evidence_)) {
      const std::vector<int> live = numbers(live_);
      if (std::find(live.begin(), live.end(), rank) == live.end()) gone.push_back(rank);
    }
    const bool together = late.empty() && gone.empty();
    Finding finding =
        base("HANG.INIT", together ? "together" : "absent", late.empty() ? live_ : late);
    if (late.empty() && !gone.empty()) finding.site.ranks = gone;
    put_stacks(live_, finding);
    return finding;
  }

  [[nodiscard]] Finding hang_collective() const {
    std::set<std::int64_t> sequences;
    Finding finding = base("HANG.COLLECTIVE", "waiting", live_);
    for (const RankState& rank : live_) {
      sequences.insert(rank.pending->sequence);
      finding.facts["waits"][process_name(rank.rank)] = rank.pending->op + " " +
                                                        std::to_string(rank.pending->sequence) +
                                                        " of group " + rank.pending->group;
    }
    if (sequences.size() == 1) finding.site.sequence = *sequences.begin();
    return finding;
  }

  [[nodiscard]] Finding hang_host(const std::vector<RankState>& outside) const {
    Finding finding = base("HANG.HOST", "standing", outside);
    if (outside.front().layer >= 0) finding.site.layers = {outside.front().layer};
    if (const auto rest = others(outside); !rest.empty()) {
      finding.facts["waiting"] = ranks_text(rest);
    }
    return finding;
  }

  [[nodiscard]] static Finding slow(const char* variant, const std::vector<RankState>& ranks) {
    Finding finding = base("SLOW.HOST", variant, ranks);
    if (ranks.front().layer >= 0) finding.site.layers = {ranks.front().layer};
    return finding;
  }

  [[nodiscard]] Finding slow_but_busy(const std::vector<int>& busy) const {
    std::vector<RankState> ranks;
    for (const RankState& rank : live_) {
      if (std::find(busy.begin(), busy.end(), rank.rank) != busy.end()) ranks.push_back(rank);
    }
    return slow("busy", ranks);
  }

  CheckResult judge_budget() {
    ResultBuilder result;
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
    constexpr std::int64_t kFloorMs = 10'000;
    const std::int64_t threshold = std::max(kFloorMs, 20 * longest_gap);
    if (mover == nullptr || still > threshold) {
      return inconclusive(
          "the case was ended at its budget of time, and no counter is known to have moved in the "
          "last " +
          std::to_string(std::min(still, stop_->t_ms)) +
          " ms: too little to tell slow from hanging");
    }
    result.measured(
        "since_last_movement_ms", static_cast<double>(still), static_cast<double>(threshold));
    Finding finding = slow("budget", {*mover});
    finding.facts["after_ms"] = stop_->row.after_ms;
    finding.facts["since_movement_ms"] = still;
    result.found(std::move(finding));
    return result.finish("");
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
  const From<Stopped>* stop_ = nullptr;
  std::vector<RankState> live_;
};

}  // namespace

Check progress() {
  return {
      "progress",
      "the case moved until it ended; a standstill is told from slowness",
      {"HANG.INIT", "HANG.COLLECTIVE", "HANG.HOST", "SLOW.HOST", "SLOW.DATA", "SLOW.SYNC_STORM"},
      [](const Evidence& evidence) {
        // Of ranks that were started again only the last life is judged: what they waited for before is gone.
        return evidence.relaunches.empty() ? Motion(evidence).judge()
                                           : Motion(evidence.last_life()).judge();
      }};
}

}  // namespace harness::checks
