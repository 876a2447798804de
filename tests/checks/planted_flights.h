// What PyTorch's flight recorder tells of a command: who waits for whom, and whether ranks issued the same.
#pragma once

#include "harness/evidence/flight.h"
#include "tests/checks/planted_command.h"

namespace fixtures {

inline harness::FlightRecord flight(std::int64_t sequence,
                                    std::int64_t count,
                                    bool done,
                                    const char* op = "all_reduce") {
  return {"default", sequence, op, "Float", count, done};
}

// Two dumps of a rank that show the same.
inline void dumped(Healthy& h, int rank, std::vector<harness::FlightRecord> records) {
  const harness::Fact fact = harness::flight_fact({std::move(records)});
  for (const int t_ms : {59'000, 59'001}) put(h.evidence.facts, rank, fact, t_ms);
}

// Nobody but PyTorch tells of collectives.
inline void told_by_torch(Healthy& h,
                          const harness::FlightRecord& last_of_0,
                          const harness::FlightRecord& last_of_1) {
  as_command(h);
  h.evidence.collectives.clear();
  h.evidence.collectives_done.clear();
  dumped(h, 0, {flight(1, 8, true), last_of_0});
  dumped(h, 1, {flight(1, 8, true), last_of_1});
}

inline void add_flights(std::vector<Planted>& list) {
  const std::string agree = "collectives_agree";
  list.push_back({agree,
                  "PyTorch tells of other sizes",
                  Verdict::fail,
                  "DESYNC.SIZE",
                  R"({"sequence":2})",
                  [](Healthy& h) { told_by_torch(h, flight(2, 8, false), flight(2, 5, false)); }});
  list.push_back({agree,
                  "PyTorch tells of other operations",
                  Verdict::fail,
                  "DESYNC.OP",
                  R"({"sequence":2})",
                  [](Healthy& h) {
                    told_by_torch(h, flight(2, 8, false), flight(2, 8, false, "broadcast"));
                  }});
  list.push_back({agree, "PyTorch tells of the same", Verdict::pass, "", "{}", [](Healthy& h) {
                    told_by_torch(h, flight(2, 8, true), flight(2, 8, true));
                  }});
  list.push_back({agree,
                  "what PyTorch wrote last of a rank cannot be read",
                  Verdict::inconclusive,
                  "",
                  "{}",
                  [](Healthy& h) {
                    told_by_torch(h, flight(2, 8, true), flight(2, 8, true));
                    const harness::Fact unread{harness::kUnreadFlightFact, "version: found 3.0"};
                    put(h.evidence.facts, 1, unread, 60'000);
                  }});
  list.push_back({agree,
                  "what PyTorch holds of two ranks is of other times",
                  Verdict::inconclusive,
                  "",
                  "{}",
                  [](Healthy& h) {
                    told_by_torch(h, flight(2, 8, true), flight(2, 8, true));
                    h.evidence.facts.clear();
                    dumped(h, 0, {flight(1, 8, true)});
                    dumped(h, 1, {flight(2, 8, true)});
                  }});
  list.push_back({agree,
                  "the two lines did not see what PyTorch tells",
                  Verdict::fail,
                  "DESYNC.SIZE",
                  R"({"sequence":1})",
                  [](Healthy& h) {
                    dumped(h, 0, {flight(1, 8, true)});
                    dumped(h, 1, {flight(1, 5, true)});
                  }});
  const std::string moves = "progress";
  list.push_back({moves,
                  "a rank spins for one that stands still, as PyTorch tells",
                  Verdict::fail,
                  "HANG.HOST",
                  R"({"ranks":[1]})",
                  [](Healthy& h) {
                    still_command(h, {});
                    h.evidence.observations.clear();
                    look_at(h, 0, kComputing, kComputingOn);
                    look_at(h, 1, kInLock, kInLock);
                    dumped(h, 0, {flight(1, 8, true), flight(2, 8, false)});
                    dumped(h, 1, {flight(1, 8, true)});
                  }});
  list.push_back({moves,
                  "ranks stand still, and what PyTorch wrote of one cannot be read",
                  Verdict::fail,
                  "HANG.HOST",
                  R"({"ranks":[0,1]})",
                  [](Healthy& h) {
                    still_command(h, {});
                    const harness::Fact unread{harness::kUnreadFlightFact, "version: found 3.0"};
                    put(h.evidence.facts, 1, unread, 60'000);
                  }});
  list.push_back({moves,
                  "ranks spin in collectives that differ, as PyTorch tells",
                  Verdict::fail,
                  "HANG.COLLECTIVE",
                  R"({"ranks":[0,1]})",
                  [](Healthy& h) {
                    still_command(h, {});
                    h.evidence.observations.clear();
                    for (const int rank : {0, 1}) look_at(h, rank, kComputing, kComputingOn);
                    dumped(h, 0, {flight(1, 8, true), flight(2, 8, false)});
                    dumped(h, 1, {flight(1, 8, true), flight(2, 5, false)});
                  }});
  // With the two lines: rank 1 is in a broadcast of DistributedDataParallel's own, which no script asks for.
  list.push_back({moves,
                  "a rank spins in a collective that only PyTorch tells",
                  Verdict::fail,
                  "HANG.COLLECTIVE",
                  R"({"ranks":[0,1],"sequence":2})",
                  [](Healthy& h) {
                    stopped(h, "still", "forward");
                    as_command(h);
                    waiting(h, 0);
                    for (const int rank : {0, 1}) look_at(h, rank, kComputing, kComputingOn);
                    dumped(h, 0, {flight(1, 8, true), flight(2, 8, false)});
                    dumped(h, 1, {flight(1, 8, true), flight(2, 5, false, "broadcast")});
                  }});
  list.push_back({moves,
                  "ranks compute before the same collective, as PyTorch tells",
                  Verdict::fail,
                  "SLOW.HOST",
                  R"({"ranks":[0,1]})",
                  [](Healthy& h) {
                    still_command(h, {});
                    h.evidence.observations.clear();
                    for (const int rank : {0, 1}) {
                      look_at(h, rank, kComputing, kComputingOn);
                      dumped(h, rank, {flight(1, 8, true), flight(2, 8, false)});
                    }
                  }});
}

}  // namespace fixtures
