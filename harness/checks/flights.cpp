#include "harness/checks/flights.h"

#include <algorithm>

#include "harness/checks/result.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

std::map<int, std::string> issued_words(const FlightDeparture& departure) {
  std::map<int, std::string> words;
  for (const auto& [rank, record] : departure.issued) words[rank] = words_of(record);
  return words;
}

bool of_one_operation(const FlightDeparture& departure) {
  std::map<int, std::string> operations;
  for (const auto& [rank, record] : departure.issued) operations[rank] = record.op;
  return all_equal(operations);
}

}  // namespace

Flights newest_flights(const Evidence& evidence) {
  std::vector<const From<Fact>*> rows;
  for (const auto& row : evidence.facts) {
    if (row.process >= 0 && row.row.name == kFlightFact) rows.push_back(&row);
  }
  std::stable_sort(
      rows.begin(), rows.end(), [](const auto* a, const auto* b) { return a->t_ms < b->t_ms; });
  // From the newest on: a long run has thousands of dumps, and each is read in full.
  std::reverse(rows.begin(), rows.end());
  Flights flights;
  for (const auto* row : rows) {
    if (flights.before.contains(row->process)) continue;
    auto dump = flight_dump_of(row->row);
    if (!dump) continue;
    auto& of = flights.after.contains(row->process) ? flights.before : flights.after;
    of[row->process] = std::move(*dump);
  }
  return flights;
}

std::set<int> held_ranks(const Evidence& evidence, const Flights& flights) {
  const std::vector<int> ranks = all_ranks(evidence);
  return held_by_peers(flights.before, flights.after, {ranks.begin(), ranks.end()});
}

std::optional<Finding> flight_finding(const Evidence& evidence) {
  const auto departure = flight_departure(newest_flights(evidence).after);
  if (!departure) return std::nullopt;
  Finding finding =
      make_finding(of_one_operation(*departure) ? "DESYNC.SIZE" : "DESYNC.OP", "flight");
  const std::map<int, std::string> words = issued_words(*departure);
  finding.site.sequence = departure->sequence;
  finding.site.ranks = minority(words);
  finding.facts["group"] = departure->group;
  for (const auto& [rank, text] : words) finding.facts["issued"][process_name(rank)] = text;
  if (departure->agreed > 0) finding.facts["agreed"] = departure->agreed;
  return finding;
}

std::string flight_words(const Evidence& evidence) {
  const auto departure = flight_departure(newest_flights(evidence).after);
  if (!departure) return "";
  std::vector<std::string> parts;
  for (const auto& [rank, text] : issued_words(*departure)) {
    parts.push_back(process_name(rank) + ": " + text);
  }
  return nsa::join(parts, "; ") + " (collective " + std::to_string(departure->sequence) +
         " of group " + departure->group + ", as PyTorch counts)";
}

std::map<int, std::string> unread_flights(const Evidence& evidence) {
  std::map<int, const From<Fact>*> newest;
  for (const auto& row : evidence.facts) {
    const bool of_flight = row.row.name == kUnreadFlightFact || row.row.name == kFlightFact;
    if (row.process < 0 || !of_flight) continue;
    const auto [at, first] = newest.try_emplace(row.process, &row);
    if (!first && at->second->t_ms <= row.t_ms) at->second = &row;
  }
  std::map<int, std::string> unread;
  for (const auto& [rank, row] : newest) {
    if (row->row.name == kUnreadFlightFact) unread[rank] = row->row.value;
  }
  return unread;
}

bool only_flights(const Evidence& evidence) {
  return evidence.collectives.empty() && newest_flights(evidence).after.size() > 1;
}

CheckResult judge_flights(const Evidence& evidence) {
  ResultBuilder result;
  if (auto finding = flight_finding(evidence)) result.found(std::move(*finding));
  const std::int64_t agreed = flight_agreement(newest_flights(evidence).after);
  if (agreed == 0 && !result.has_findings()) {
    result.missing("a collective that PyTorch's flight recorders of two ranks hold");
  }
  for (const auto& [rank, why] : unread_flights(evidence)) {
    result.missing("the newest dump of " + process_name(rank) +
                       "'s flight recorder, which cannot be read (" + why + ")",
                   site_of_rank(rank));
  }
  return result.finish(std::to_string(agreed) +
                       " collectives are the same on all ranks whose flight recorder of PyTorch "
                       "holds them");
}

}  // namespace harness::checks
