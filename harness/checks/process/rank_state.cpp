#include "harness/checks/process/rank_state.h"

#include <algorithm>
#include <array>
#include <set>
#include <tuple>
#include <utility>

#include "harness/checks/flights.h"
#include "harness/checks/result.h"
#include "harness/evidence/python_frame.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

bool within(const Window& window, std::int64_t t_ms) {
  return t_ms >= window.from_ms && t_ms <= window.to_ms;
}

std::optional<PendingCollective> pending_at(const Evidence& evidence,
                                            int rank,
                                            std::int64_t until_ms) {
  std::set<std::pair<std::string, std::int64_t>> done;
  for (const auto& row : evidence.collectives_done) {
    if (row.process == rank && row.t_ms <= until_ms) done.insert({row.row.group, row.row.sequence});
  }
  const From<Collective>* oldest = nullptr;
  for (const auto& row : evidence.collectives) {
    if (row.process != rank || row.t_ms > until_ms) continue;
    if (done.count({row.row.group, row.row.sequence}) > 0) continue;
    const auto key = std::tie(row.t_ms, row.row.group, row.row.sequence);
    if (oldest == nullptr ||
        key < std::tie(oldest->t_ms, oldest->row.group, oldest->row.sequence)) {
      oldest = &row;
    }
  }
  if (oldest == nullptr) return std::nullopt;
  const Collective& row = oldest->row;
  return PendingCollective{row.group, row.sequence, row.step, row.phase, row.op, false};
}

bool tells_collectives(const Evidence& evidence, int rank) {
  return std::any_of(evidence.collectives.begin(),
                     evidence.collectives.end(),
                     [&](const auto& row) { return row.process == rank; });
}

void add_flights(const Evidence& evidence, RankState& state) {
  const auto unread = unread_flights(evidence);
  if (const auto why = unread.find(state.rank); why != unread.end()) {
    state.unread_flight = why->second;
  }
  const Flights flights = newest_flights(evidence);
  const auto dump = flights.after.find(state.rank);
  if (dump == flights.after.end()) return;
  state.held = held_ranks(evidence, flights).contains(state.rank);
  const FlightRecord* pending = pending_in(dump->second);
  if (pending == nullptr) return;
  state.of_recorder = {pending->group, pending->sequence, 0, "", pending->op, true};
  if (!tells_collectives(evidence, state.rank)) state.pending = state.of_recorder;
}

// The newest heartbeat or phase says where it was.
void place_at(const Evidence& evidence, std::int64_t until_ms, RankState& state) {
  std::int64_t latest = -1;
  const auto take = [&](std::int64_t t_ms, const std::string& phase, std::int64_t step, int layer) {
    if (t_ms < latest || t_ms > until_ms) return;
    latest = t_ms;
    state.phase = phase;
    state.step = step;
    state.layer = layer;
  };
  for (const auto& row : evidence.heartbeats) {
    if (row.process == state.rank) take(row.t_ms, row.row.phase, row.row.step, row.row.layer);
  }
  for (const auto& row : evidence.phases) {
    // A phase begins outside of layers; a heartbeat of the same moment says more.
    const bool same = row.t_ms == latest && row.row.phase == state.phase;
    if (row.process == state.rank && !same) take(row.t_ms, row.row.phase, row.row.step, -1);
  }
}

const From<Observation>* last_look(const RankState& rank) {
  return rank.looks[1] != nullptr ? rank.looks[1] : rank.looks[0];
}

// A rank of which nothing at all could be read from outside, or only where it waits and not for how long.
bool wait_is_unread(const RankState& rank) {
  const auto* look = rank.looks[1];
  if (look == nullptr || look->row.threads.empty()) return true;
  const ThreadStack& main = look->row.threads.front();
  return main.call.empty() && main.wchan != "hrtimer_nanosleep";
}

// Idle as long as the rank lives.
bool is_helper(const ChildProcess& child) {
  constexpr std::array kFiles = {"(multiprocessing/resource_tracker.py:",
                                 "(multiprocessing/forkserver.py:",
                                 "(multiprocessing/managers.py:",
                                 "(torch/_inductor/compile_worker/",
                                 "(multiprocessing/pool.py:",
                                 "_process_worker (concurrent/futures/process.py:"};
  return std::any_of(child.frames.begin(),
                     child.frames.end(),
                     [&](const std::string& frame) {
                       return std::any_of(kFiles.begin(), kFiles.end(), [&](const char* file) {
                         return frame.find(file) != std::string::npos;
                       });
                     }) &&
         users_line(child.frames).empty();
}

// In a call that a server or a logger does not wait in for work.
bool waits_for_data(const ThreadStack& thread) {
  constexpr std::array kCalls = {
      "read", "readv", "write", "writev", "openat", "flock", "fcntl", "connect", "fsync"};
  return std::find(kCalls.begin(), kCalls.end(), thread.call) != kCalls.end();
}

// Who stands at which place, in the order in which the places were first seen.
using Places = std::vector<std::pair<std::string, std::vector<int>>>;

void add_place(int process, const std::string& place, Places& places) {
  auto at = std::find_if(
      places.begin(), places.end(), [&](const auto& known) { return known.first == place; });
  if (at == places.end()) at = places.insert(at, {place, {}});
  at->second.push_back(process);
}

std::string told_places(const Places& places) {
  std::vector<std::string> parts;
  for (const auto& [place, of] : places) parts.push_back(ranks_text(of) + ": " + place);
  std::string text = nsa::join(parts, "; ");
  if (!text.empty()) text.front() = text.front() == 't' ? 'T' : 'R';  // a sentence
  return text;
}

// Of the first child that waits in the user's own code, if the rank waits for a child: "pt_data_worker: __getitem__
// (train.py:23): with lock".
std::string line_of_child(const Observation& look) {
  if (!waits_for_child(look)) return "";
  for (const ChildProcess& child : look.children) {
    const ThreadStack* main = main_thread_of(look, child);
    const std::string own = users_line(child.frames);
    if (main != nullptr && main->state == "S" && !own.empty()) return child.name + ": " + own;
  }
  return "";
}

}  // namespace

Looked RankState::looked() const {
  Looked looked;
  looked.with_peers = (pending && !pending->of_flight_recorder) || phase == "rendezvous";
  if (looks[2] != nullptr && looks[3] != nullptr) {
    looked.wake_ups = wake_ups_between(looks[2]->row, looks[3]->row);
    looked.polled_ms = looks[3]->t_ms - looks[2]->t_ms;
  }
  looked.polls_ms = polls_ms;
  looked.held = held;
  if (!looked_twice()) return looked;
  looked.before = &looks[0]->row;
  looked.after = &looks[1]->row;
  looked.wall_ms = looks[1]->t_ms - looks[0]->t_ms;
  looked.connecting = phase == "rendezvous" && is_inside_nccl(looks[1]->row);
  return looked;
}

RankState state_of_rank(const Evidence& evidence, int rank, const Window& window) {
  RankState state;
  state.rank = rank;
  for (const auto& row : evidence.observations) {
    const int look = row.row.look;
    if (row.row.process_observed != rank || look < 0 || look > 3) continue;
    if (!within(window, row.t_ms)) continue;
    const From<Observation>*& kept = state.looks.at(static_cast<std::size_t>(look));
    if (kept == nullptr || kept->t_ms <= row.t_ms) kept = &row;
  }
  for (const auto& row : evidence.suspects) {
    if (within(window, row.t_ms)) state.polls_ms = row.row.polls_ms;
  }
  const auto* last = state.looks[1];
  const std::int64_t until_ms = last != nullptr ? last->t_ms : window.to_ms;
  place_at(evidence, until_ms, state);
  state.pending = pending_at(evidence, rank, until_ms);
  add_flights(evidence, state);
  return state;
}

bool all_connect(const std::vector<RankState>& ranks) {
  return !ranks.empty() && std::all_of(ranks.begin(), ranks.end(), [](const RankState& rank) {
    return rank.looked_twice() && rank.doing() == Doing::connecting;
  });
}

std::vector<Looked> looked_at(const std::vector<RankState>& ranks) {
  std::vector<Looked> all;
  for (const RankState& rank : ranks) all.push_back(rank.looked());
  return all;
}

std::vector<int> numbers_of(const std::vector<RankState>& ranks) {
  std::vector<int> all;
  for (const RankState& rank : ranks) all.push_back(rank.rank);
  return all;
}

std::string lines_of(const std::vector<RankState>& ranks) {
  Places lines;
  bool any = false;
  for (const RankState& rank : ranks) {
    const auto* look = last_look(rank);
    if (look == nullptr || look->row.threads.empty()) continue;
    const std::vector<std::string>& frames = look->row.threads.front().frames;
    if (frames.empty()) continue;
    const std::string own = users_line(frames);
    any = any || !own.empty();
    const std::string child = line_of_child(look->row);
    add_place(rank.rank,
              (own.empty() ? frames.front() : own) + (child.empty() ? "" : ", its child " + child),
              lines);
  }
  return any ? told_places(lines) : "";
}

std::string last_lines_of(const Evidence& evidence) {
  Places lines;
  for (const int rank : all_ranks(evidence)) {
    const WorkerError* error = evidence.error_of(rank);
    std::string line = error != nullptr ? users_line(error->frames) : "";
    if (line.empty()) {
      for (const auto& row : evidence.observations) {
        if (row.row.process_observed != rank || row.row.threads.empty()) continue;
        const std::string own = users_line(row.row.threads.front().frames);
        if (!own.empty()) line = own;
      }
    }
    if (!line.empty()) add_place(rank, line, lines);
  }
  return told_places(lines);
}

std::string standing(const Evidence& looked, bool with_children) {
  Places places;
  std::string ends;
  for (const auto& row : looked.observations) {
    RankState rank;
    rank.rank = row.row.process_observed;
    rank.looks[1] = &row;
    const std::vector<std::string> none;
    const auto& frames = row.row.threads.empty() ? none : row.row.threads.front().frames;
    const std::string own = users_line(frames);
    add_place(rank.rank,
              !own.empty()      ? own
              : !frames.empty() ? frames.front()
                                : told(row.row),
              places);
    const std::string child = with_children ? waiting_children(rank) : "";
    if (!child.empty()) ends += " Of " + ranks_text({rank.rank}) + ", " + child + ".";
    const std::string end = other_end(rank);
    if (!end.empty())
      ends += " On the other end of the wait of " + ranks_text({rank.rank}) + " is " + end + ".";
  }
  const std::string text = told_places(places);
  return text.empty() ? "" : text + "." + ends;
}

std::string waiting_children(const RankState& rank) {
  constexpr std::size_t kMost = 2;
  const auto* look = last_look(rank);
  if (look == nullptr) return "";
  std::vector<std::string> parts;
  for (const ChildProcess& child : look->row.children) {
    if (is_helper(child)) continue;
    const std::string own = users_line(child.frames);
    const std::string& place = own.empty() && !child.frames.empty() ? child.frames.front() : own;
    const std::string id = " " + std::to_string(child.pid);
    const ThreadStack* main = main_thread_of(look->row, child);
    const bool far = main != nullptr && main->timed && main->left_ms > kFarLimitMs;
    if (main == nullptr || main->state != "S" || (main->timed && !far)) continue;
    if (waits_for_process(main->call))
      continue;  // the child that it waits for has an entry of its own
    if (parts.size() == kMost || (place.empty() && !far && !waits_for_data(*main))) continue;
    const bool writes = main->call == "write" || main->call == "writev";
    const std::string wait = main->call.empty() ? "" : " in " + main->call;
    parts.push_back(
        (parts.empty() ? "its child " : "child ") + child.name + id + " waits" +
        (far            ? wait + " for " + std::to_string(main->left_ms / 1000) + " s more"
         : wait.empty() ? ""
                        : wait + " without a time limit") +
        (writes && child.writes_to_rank ? ", since this rank does not read what it writes" : "") +
        (place.empty() ? "" : ", in " + place));
  }
  return nsa::join(parts, ", and ");
}

std::string other_end(const RankState& rank) {
  const auto* look = last_look(rank);
  if (look == nullptr || look->row.threads.empty()) return "";
  const ThreadStack* outside = waits_outside(look->row);
  return outside != nullptr ? outside->other_end : look->row.threads.front().other_end;
}

std::string top_frames(const RankState& rank) {
  constexpr std::size_t kMost = 5;
  const auto* look = last_look(rank);
  if (look == nullptr) return "";
  std::vector<std::string> frames = main_frames(look->row);
  const auto own = std::find_if(frames.begin(), frames.end(), &is_of_user);
  if (own != frames.end() && !own->starts_with(kAnotherThread)) {
    std::string text = *own;
    if (own != frames.begin()) text += " > " + *(own - 1);
    if (own - frames.begin() > 2) text += " > ...";
    if (own - frames.begin() > 1) text += " > " + frames.front();
    return text;
  }
  const std::string wait = look->row.threads.empty() ? "" : look->row.threads.front().wchan;
  const std::string another = own == frames.end() ? "" : "; " + *own;
  frames.erase(own, frames.end());
  if (frames.size() > kMost) frames.resize(kMost);
  const std::string text = nsa::join(frames, " < ") + another;
  return text.empty() && !wait.empty() ? "in the kernel's " + wait : text;
}

std::string way_to_stacks(const RankState& rank) {
  const auto* look = last_look(rank);
  return look != nullptr && main_frames(look->row).empty() ? look->row.way_to_stacks : "";
}

std::string unread_waits(const std::vector<RankState>& ranks) {
  std::vector<int> unread;
  for (const RankState& rank : ranks) {
    if (wait_is_unread(rank)) unread.push_back(rank.rank);
  }
  return unread.empty() ? "" : ranks_text(unread);
}

}  // namespace harness::checks
