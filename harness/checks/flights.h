// What the record holds of PyTorch's flight recorder (evidence/flight.h): of each rank its last two dumps.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/evidence/flight.h"
#include "harness/judge/check.h"

namespace harness::checks {

struct Flights {
  FlightDumps before;
  FlightDumps after;
};
[[nodiscard]] Flights newest_flights(const Evidence& evidence);

// Ranks that cannot go on without their peers.
[[nodiscard]] std::set<int> held_ranks(const Evidence& evidence, const Flights& flights);

// DESYNC.SIZE or DESYNC.OP, where two ranks handed over different collectives.
[[nodiscard]] std::optional<Finding> flight_finding(const Evidence& evidence);

// "rank 0: ...; rank 1: ..., PyTorch's collective 7": the same in words; "" where ranks agree or nothing is known.
[[nodiscard]] std::string flight_words(const Evidence& evidence);

// No rank tells of its collectives itself, and PyTorch does so of two of them.
[[nodiscard]] bool only_flights(const Evidence& evidence);

// Why the newest dump of a rank could not be read, by rank.
[[nodiscard]] std::map<int, std::string> unread_flights(const Evidence& evidence);

// The verdict where only_flights().
[[nodiscard]] CheckResult judge_flights(const Evidence& evidence);

}  // namespace harness::checks
