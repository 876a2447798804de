#include "harness/checks/process/standstill_findings.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "harness/checks/result.h"

namespace harness::checks {
namespace {

bool was_stopped(const RankState& rank) {
  return rank.looked_twice() && rank.doing() == Doing::stopped;
}

// Ranks whose stacks could not be read, and the command that would allow it.
void put_stackless(const std::vector<RankState>& ranks, Finding& finding) {
  std::vector<int> without;
  for (const RankState& rank : ranks) {
    const std::string way = way_to_stacks(rank);
    if (way.empty()) continue;
    without.push_back(rank.rank);
    finding.facts["way_to_stacks"] = way;
  }
  if (!without.empty()) finding.facts["stackless"] = ranks_text(without);
}

void put_stacks(const std::vector<RankState>& ranks, Finding& finding) {
  for (const RankState& rank : ranks) {
    const std::string frames = top_frames(rank);
    if (!frames.empty()) finding.facts["stacks"][process_name(rank.rank)] = frames;
  }
  put_stackless(ranks, finding);
}

// What two looks show of the first of them, and of whom they could not tell what the wait is.
void put_looks(const std::vector<RankState>& ranks, Finding& finding) {
  if (!ranks.front().looked_twice()) return;
  finding.facts["seen"] = process_name(ranks.front().rank) + " " + told(ranks.front().looked());
  const std::string unread = unread_waits(ranks);
  if (!unread.empty()) finding.facts["unread"] = unread;
}

Finding base(const char* code, const char* variant, const std::vector<RankState>& ranks) {
  Finding finding = make_finding(code, variant);
  finding.site.ranks = numbers_of(ranks);
  finding.site.phase = ranks.front().phase;
  if (ranks.front().step > 0) finding.site.step = ranks.front().step;
  put_stacks(ranks, finding);
  return finding;
}

// With the layer that the first of them was in.
Finding in_layer(const char* code, const char* variant, const std::vector<RankState>& ranks) {
  Finding finding = base(code, variant, ranks);
  if (ranks.front().layer >= 0) finding.site.layers = {ranks.front().layer};
  return finding;
}

// Live ranks that are not among these.
std::vector<int> others(const std::vector<RankState>& live, const std::vector<RankState>& ranks) {
  const std::vector<int> known = numbers_of(ranks);
  std::vector<int> rest;
  for (const RankState& rank : live) {
    if (std::find(known.begin(), known.end(), rank.rank) == known.end()) rest.push_back(rank.rank);
  }
  return rest;
}

void put_waiting(const std::vector<RankState>& live,
                 const std::vector<RankState>& ranks,
                 Finding& finding) {
  const std::vector<int> rest = others(live, ranks);
  if (!rest.empty()) finding.facts["waiting"] = ranks_text(rest);
}

bool told_by_flight_recorder(const RankState& rank) {
  return rank.pending && rank.pending->of_flight_recorder;
}

// Who waits in which collective, where PyTorch's flight recorder is the witness.
void put_flights(const std::vector<RankState>& live, Finding& finding) {
  for (const RankState& rank : live) {
    if (!rank.unread_flight.empty())
      finding.facts["unread_flight"][process_name(rank.rank)] = rank.unread_flight;
    if (!told_by_flight_recorder(rank)) continue;
    finding.facts["flight"][process_name(rank.rank)] = rank.pending->op + ", collective " +
                                                       std::to_string(rank.pending->sequence) +
                                                       " of group " + rank.pending->group;
  }
}

Finding hang_stopped(const std::vector<RankState>& ranks, const std::vector<RankState>& live) {
  Finding finding = base("HANG.HOST", "stopped", ranks);
  finding.site.detail["state"] = "T";
  put_waiting(live, ranks, finding);
  return finding;
}

Finding hang_init(const std::vector<RankState>& live, const std::vector<int>& gone) {
  std::vector<RankState> late;
  for (const RankState& rank : live) {
    if (rank.phase != "rendezvous") late.push_back(rank);
  }
  const bool together = late.empty() && gone.empty();
  const char* variant = !together ? "absent" : all_connect(live) ? "connecting" : "together";
  Finding finding = base("HANG.INIT", variant, late.empty() ? live : late);
  if (late.empty() && !gone.empty()) finding.site.ranks = gone;
  put_stacks(live, finding);
  return finding;
}

// Of one group, the collective that is waited for is the first that some rank did not leave: it keeps the later ones. A rank that
// issues without waiting is further by then, so the place is where the collective was issued.
void put_oldest(const std::vector<RankState>& live, Finding& finding) {
  const PendingCollective* oldest = nullptr;
  for (const RankState& rank : live) {
    if (rank.pending->group != live.front().pending->group) return;
    if (oldest == nullptr || rank.pending->sequence < oldest->sequence) oldest = &*rank.pending;
  }
  finding.site.sequence = oldest->sequence;
  finding.site.phase = oldest->phase;
  finding.site.step.reset();
  if (oldest->step > 0) finding.site.step = oldest->step;
  finding.site.detail["group"] = oldest->group;
}

Finding hang_collective(const std::vector<RankState>& live) {
  Finding finding = base("HANG.COLLECTIVE", "waiting", live);
  put_oldest(live, finding);
  for (const RankState& rank : live) {
    finding.facts["waits"][process_name(rank.rank)] = rank.pending->op + " " +
                                                      std::to_string(rank.pending->sequence) +
                                                      " of group " + rank.pending->group;
  }
  put_flights(live, finding);
  put_looks(live, finding);
  return finding;
}

Finding hang_host(const char* variant,
                  const std::vector<RankState>& ranks,
                  const std::vector<RankState>& live) {
  Finding finding = in_layer("HANG.HOST", variant, ranks);
  put_waiting(live, ranks, finding);
  put_flights(live, finding);
  put_looks(ranks, finding);
  const std::string child = ranks.size() == 1 ? waiting_children(ranks.front()) : "";
  if (!child.empty()) finding.facts["child"] = child;
  const std::string end = ranks.size() == 1 ? other_end(ranks.front()) : "";
  if (!end.empty()) finding.facts["wait_ends_with"] = end;
  return finding;
}

// All wait for their peers, and not every one says in which collective.
Finding hang_together(const std::vector<RankState>& live) {
  Finding finding = base("HANG.COLLECTIVE", "unsaid", live);
  put_flights(live, finding);
  put_looks(live, finding);
  return finding;
}

// No rank says what it waits for. What tells who waits for its peers is the limit of the wait.
Finding hang_unsaid(const std::vector<RankState>& live) {
  std::vector<RankState> outside;
  for (const RankState& rank : live) {
    const Observation& look = rank.looks[1]->row;
    if (!waits_with_far_limit(look) && !is_in_distributed(look)) outside.push_back(rank);
  }
  return outside.empty() ? hang_together(live) : hang_host("standing", outside, live);
}

// `outside`: ranks that wait for none of their peers.
Finding together_or_beside(const std::vector<RankState>& outside,
                           const std::vector<RankState>& live) {
  if (!outside.empty()) return hang_host("standing", outside, live);
  const bool all_say = std::all_of(
      live.begin(), live.end(), [](const RankState& rank) { return rank.pending.has_value(); });
  return all_say ? hang_collective(live) : hang_together(live);
}

// The names of the ranks' children.
std::vector<std::string> child_names(const std::vector<RankState>& ranks) {
  std::set<std::string> names;
  for (const RankState& rank : ranks) {
    if (rank.looks[1] == nullptr) continue;
    for (const ChildProcess& child : rank.looks[1]->row.children) names.insert(child.name);
  }
  return {names.begin(), names.end()};
}

// Of C++, CUDA, Triton and torch.compile: compilers, assemblers, linkers, and what only starts these.
constexpr std::array<std::string_view, 24> kCompilers = {
    "cc1",      "cc1plus", "clang", "clang++", "as",        "ld",    "ld.lld",          "collect2",
    "cudafe++", "cicc",    "ptxas", "nvlink",  "fatbinary", "nvcc",  "ptxas-blackwell", "lto1",
    "lld",      "cc",      "c++",   "gcc",     "g++",       "ninja", "ccache",          "sccache"};

bool is_compiler(const ChildProcess& child) {
  return std::find(kCompilers.begin(), kCompilers.end(), child.name) != kCompilers.end();
}

// It used the processor between the two looks, or does in the second one.
bool computes(const ChildProcess& child, const Observation& before) {
  if (child.state == "R") return true;
  const auto was = std::find_if(before.children.begin(),
                                before.children.end(),
                                [&](const ChildProcess& one) { return one.pid == child.pid; });
  return child.cpu_ms > (was == before.children.end() ? 0 : was->cpu_ms);
}

// Some child of these ranks computes, and all that do are compilers.
bool children_compile(const std::vector<RankState>& ranks) {
  bool some = false;
  for (const RankState& rank : ranks) {
    if (!rank.looked_twice()) continue;
    for (const ChildProcess& child : rank.looks[1]->row.children) {
      if (!computes(child, rank.looks[0]->row)) continue;
      if (!is_compiler(child)) return false;
      some = true;
    }
  }
  return some;
}

// In both looks, since other code runs between two compilations.
bool all_compile(const std::vector<RankState>& ranks) {
  return std::all_of(ranks.begin(), ranks.end(), [](const RankState& rank) {
    return rank.looked_twice() && is_compiling(rank.looks[0]->row) &&
           is_compiling(rank.looks[1]->row);
  });
}

// A rank tells of the collectives that it asks for. Others, such as those with which DistributedDataParallel compares its buckets,
// are known to PyTorch's flight recorder alone. Where a rank waits in one of those, the recorder speaks for all ranks: its
// numbers are not theirs.
std::vector<RankState> with_all_collectives(std::vector<RankState> live) {
  const bool untold = std::any_of(live.begin(), live.end(), [](const RankState& rank) {
    return rank.held && !rank.pending && rank.of_recorder;
  });
  if (!untold) return live;
  for (RankState& rank : live) {
    if (rank.of_recorder) rank.pending = rank.of_recorder;
  }
  return live;
}

Finding hang_without_lines(const std::vector<RankState>& live,
                           const std::vector<int>& gone,
                           const Scenario& scenario) {
  std::vector<RankState> stopped;
  std::vector<RankState> outside;
  std::size_t starting = 0;
  for (const RankState& rank : live) {
    if (was_stopped(rank)) stopped.push_back(rank);
    if (rank.phase == "rendezvous" || rank.phase == "init" || rank.phase.empty()) ++starting;
    // A rank that a collective is pending on and that sleeps outright is in no wait for its peers.
    const bool waits = rank.pending && (!rank.looked_twice() || rank.doing() == Doing::waiting);
    const bool calls = rank.looked_twice() && is_in_distributed(rank.looks[1]->row);
    if (!waits && !calls) outside.push_back(rank);
  }
  if (!stopped.empty()) return hang_stopped(stopped, live);
  const bool joining = std::all_of(live.begin(), live.end(), [](const RankState& rank) {
    return rank.looks[1] != nullptr && is_joining(rank.looks[1]->row);
  });
  if (joining) return base("HANG.INIT", "together", live);
  const bool looked_twice = std::all_of(
      live.begin(), live.end(), [](const RankState& rank) { return rank.looked_twice(); });
  // PyTorch's flight recorder tells of collectives, where the ranks themselves tell nothing.
  if (std::any_of(live.begin(), live.end(), told_by_flight_recorder)) {
    return together_or_beside(outside, live);
  }
  const bool unsaid = std::all_of(
      live.begin(), live.end(), [](const RankState& rank) { return rank.phase.empty(); });
  if (unsaid && looked_twice && scenario.is_command()) return hang_unsaid(live);
  if (starting == live.size()) return hang_init(live, gone);
  // Watched as processes alone, ranks tell of no collective.
  if (looked_twice && scenario.observe < kWatchEvents) return hang_unsaid(live);
  return together_or_beside(outside, live);
}

}  // namespace

Finding hang_of(const std::vector<RankState>& seen,
                const std::vector<int>& gone,
                const Scenario& scenario) {
  const std::vector<RankState> live = with_all_collectives(seen);
  Finding finding = hang_without_lines(live, gone, scenario);
  if (const std::string lines = lines_of(live); !lines.empty()) finding.facts["lines"] = lines;
  return finding;
}

Finding hang_of_kernel(const std::vector<RankState>& ranks, const std::vector<RankState>& live) {
  Finding finding = in_layer("HANG.KERNEL", "resident", ranks);
  put_waiting(live, ranks, finding);
  return finding;
}

Finding outlasted(const std::vector<RankState>& ranks, const std::vector<RankState>& live) {
  if (all_compile(ranks)) {
    Finding finding = in_layer("SLOW.COMPILE", "elsewhere", ranks);
    put_looks(ranks, finding);
    return finding;
  }
  return hang_host("outlasted", ranks, live);
}

Finding slow_host(const char* variant, const std::vector<RankState>& ranks) {
  return in_layer("SLOW.HOST", variant, ranks);
}

Finding slow_by_doing(Doing doing, const std::vector<RankState>& ranks) {
  const char* variant = doing == Doing::child ? "child" : doing == Doing::disk ? "disk" : "busy";
  const bool compiling = doing != Doing::disk &&
                         (all_compile(ranks) || (doing == Doing::child && children_compile(ranks)));
  Finding finding = in_layer(compiling ? "SLOW.COMPILE" : "SLOW.HOST", variant, ranks);
  put_looks(ranks, finding);
  const std::vector<std::string> children = child_names(ranks);
  if (doing == Doing::child && !children.empty()) finding.facts.put_some("children", children);
  return finding;
}

}  // namespace harness::checks
