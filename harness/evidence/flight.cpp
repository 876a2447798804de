#include "harness/evidence/flight.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <tuple>
#include <utility>

namespace harness {
namespace {

constexpr std::size_t kMostRecords = 400;  // of each dump: ranks in one step are some hundred apart

using Shape = std::tuple<std::string, std::string, std::int64_t>;
using Shapes = std::vector<Shape>;                   // several where operations were issued as one
using Place = std::pair<std::string, std::int64_t>;  // group, sequence

// Where every rank must put in the same number of elements. Of others ranks may differ: a gather to one rank, uneven pieces.
bool is_even(std::string_view op) {
  constexpr std::array<std::string_view, 6> kEven = {"all_reduce",
                                                     "allreduce_coalesced",
                                                     "broadcast",
                                                     "reduce",
                                                     "_all_gather_base",
                                                     "_reduce_scatter_base"};
  return std::find(kEven.begin(), kEven.end(), op) != kEven.end();
}

Shape shape_of(const FlightRecord& record) {
  if (!is_even(record.op)) return {record.op, "", 0};
  return {record.op, record.dtype, record.count};
}

struct Issued {
  std::map<int, Shapes> shapes;
  std::map<int, FlightRecord> first;
};

std::map<Place, Issued> places_of(const FlightDumps& dumps) {
  std::map<Place, Issued> places;
  for (const auto& [rank, dump] : dumps) {
    for (const FlightRecord& record : dump.records) {
      Issued& issued = places[{record.group, record.sequence}];
      issued.shapes[rank].push_back(shape_of(record));
      issued.first.try_emplace(rank, record);
    }
  }
  return places;
}

bool differ(const Issued& issued) {
  return std::any_of(issued.shapes.begin(), issued.shapes.end(), [&](const auto& entry) {
    return entry.second != issued.shapes.begin()->second;
  });
}

std::int64_t last_in(const FlightDump& dump, const std::string& group) {
  std::int64_t last = 0;
  for (const FlightRecord& record : dump.records) {
    if (record.group == group) last = std::max(last, record.sequence);
  }
  return last;
}

// Another rank that has not issued what this one waits for.
bool is_alone_with(const FlightRecord& pending,
                   int rank,
                   const FlightDumps& dumps,
                   const std::set<int>& ranks) {
  return std::any_of(ranks.begin(), ranks.end(), [&](int other) {
    if (other == rank) return false;
    const auto at = dumps.find(other);
    const bool of_all = pending.group == "default";
    if (at == dumps.end()) return of_all;
    const std::int64_t last = last_in(at->second, pending.group);
    return last < pending.sequence && (of_all || last > 0);
  });
}

}  // namespace

Fact flight_fact(const FlightDump& dump) {
  nlohmann::json rows = nlohmann::json::array();
  const std::size_t from = dump.records.size() - std::min(dump.records.size(), kMostRecords);
  for (std::size_t i = from; i < dump.records.size(); ++i) {
    const FlightRecord& one = dump.records[i];
    rows.push_back({one.group, one.sequence, one.op, one.dtype, one.count, one.done});
  }
  return {kFlightFact, rows.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace)};
}

std::optional<FlightDump> flight_dump_of(const Fact& fact) {
  if (fact.name != kFlightFact) return std::nullopt;
  const auto rows = nlohmann::json::parse(fact.value, nullptr, false);
  if (!rows.is_array()) return std::nullopt;
  FlightDump dump;
  for (const auto& row : rows) {
    const bool whole = row.is_array() && row.size() == 6 && row[0].is_string() &&
                       row[1].is_number_integer() && row[2].is_string() && row[3].is_string() &&
                       row[4].is_number_integer() && row[5].is_boolean();
    if (!whole) return std::nullopt;
    dump.records.push_back({row[0].get<std::string>(),
                            row[1].get<std::int64_t>(),
                            row[2].get<std::string>(),
                            row[3].get<std::string>(),
                            row[4].get<std::int64_t>(),
                            row[5].get<bool>()});
  }
  return dump;
}

std::string words_of(const FlightRecord& record) {
  if (record.dtype.empty()) return record.op;
  return record.op + " of " + std::to_string(record.count) + " " + record.dtype;
}

const FlightRecord* pending_in(const FlightDump& dump) {
  const auto at = std::find_if(dump.records.begin(),
                               dump.records.end(),
                               [](const FlightRecord& record) { return !record.done; });
  return at == dump.records.end() ? nullptr : &*at;
}

std::optional<FlightDeparture> flight_departure(const FlightDumps& dumps) {
  std::map<std::string, std::int64_t> agreed;
  for (const auto& [place, issued] : places_of(dumps)) {
    if (issued.shapes.size() < 2) continue;
    if (differ(issued)) {
      return FlightDeparture{place.first, place.second, issued.first, agreed[place.first]};
    }
    ++agreed[place.first];
  }
  return std::nullopt;
}

std::int64_t flight_agreement(const FlightDumps& dumps) {
  const auto places = places_of(dumps);
  return std::count_if(places.begin(), places.end(), [](const auto& entry) {
    return entry.second.shapes.size() > 1 && !differ(entry.second);
  });
}

std::set<int> held_by_peers(const FlightDumps& before,
                            const FlightDumps& after,
                            const std::set<int>& ranks) {
  std::set<int> held;
  const auto departure = flight_departure(after);
  for (const auto& [rank, dump] : after) {
    const auto was = before.find(rank);
    if (!ranks.contains(rank) || was == before.end() || !(was->second == dump)) continue;
    const FlightRecord* pending = pending_in(dump);
    if (pending == nullptr) continue;
    const bool departed = departure && departure->issued.contains(rank) &&
                          departure->group == pending->group &&
                          departure->sequence <= pending->sequence;
    if (departed || is_alone_with(*pending, rank, after, ranks)) held.insert(rank);
  }
  return held;
}

}  // namespace harness
