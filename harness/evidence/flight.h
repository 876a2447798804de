// What PyTorch's flight recorder holds of a rank: the collectives that the rank handed over to a process group, as the runtime of
// PyTorch wrote them down itself. It shares no code with the two lines of a script, and is there without them. Pure: whoever ends
// a case and whoever judges its record say the same.
//
// In the record a dump is a Fact of the rank, named kFlightFact, its value JSON. Sequences are those that PyTorch counts in each
// group, from 1; the two lines count from 0, and not what PyTorch issues before they are there.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/evidence/rows.h"

namespace harness {

inline constexpr const char* kFlightFact = "flight_dump";
// A fact of a rank whose newest dump could not be read: why.
inline constexpr const char* kUnreadFlightFact = "flight_unread";

struct FlightRecord {
  std::string group;  // "default", or its name and its ranks
  std::int64_t sequence = 0;
  std::string op;  // all_reduce
  std::string dtype;
  std::int64_t count = 0;  // elements of what goes in
  bool done = false;
  bool operator==(const FlightRecord&) const = default;
};

struct FlightDump {
  std::vector<FlightRecord> records;  // in the order in which they were issued
  bool operator==(const FlightDump&) const = default;
};
using FlightDumps = std::map<int, FlightDump>;  // by rank

// Of the newest records, as many as a judgement needs.
[[nodiscard]] Fact flight_fact(const FlightDump& dump);
// Nothing where the fact is another one, or is damaged.
[[nodiscard]] std::optional<FlightDump> flight_dump_of(const Fact& fact);

// "all_reduce of 676 Float"
[[nodiscard]] std::string words_of(const FlightRecord& record);

// The oldest that the rank issued and that is not done.
[[nodiscard]] const FlightRecord* pending_in(const FlightDump& dump);

// The first collective of a group that two ranks have and that is not the same on both.
struct FlightDeparture {
  std::string group;
  std::int64_t sequence = 0;
  std::map<int, FlightRecord> issued;
  std::int64_t agreed = 0;  // that were compared before it
};
[[nodiscard]] std::optional<FlightDeparture> flight_departure(const FlightDumps& dumps);

// How many collectives are the same on all ranks that have them.
[[nodiscard]] std::int64_t flight_agreement(const FlightDumps& dumps);

// Ranks that cannot go on by themselves: between two dumps they issued nothing and finished nothing, and what they wait for
// was not issued by another rank, or was another operation there. A rank of which there is no dump has issued nothing that is
// known.
// Where all ranks issued the same, nobody is held: what runs before it on the card may just take long.
[[nodiscard]] std::set<int> held_by_peers(const FlightDumps& before,
                                          const FlightDumps& after,
                                          const std::set<int>& ranks);

}  // namespace harness
