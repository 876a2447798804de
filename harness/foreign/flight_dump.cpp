#include "harness/foreign/flight_dump.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/foreign/pickled.h"
#include "nsa/base/error.h"
#include "nsa/base/strict_json.h"

namespace harness {
namespace {

using nlohmann::json;

std::string text_of(const json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_string() ? at->get<std::string>() : std::string();
}

// PyTorch counts collectives of a group so from version 2.0 of its dumps on; what is older counts otherwise, and what a newer main
// version means is not known.
void check_version(const json& dump) {
  constexpr std::string_view kKnown = "2.";
  const std::string version = dump.is_object() ? text_of(dump, "version") : "";
  if (version.starts_with(kKnown)) return;
  throw nsa::Error("version: found " + (version.empty() ? "none" : nsa::shortened(version)) +
                   ", wanted 2.x");
}

std::int64_t sequence_of(const json& entry) {
  constexpr const char* kSequence = "collective_seq_id";
  const auto at = entry.find(kSequence);
  if (at != entry.end() && at->is_number_integer()) return at->get<std::int64_t>();
  throw nsa::Error(std::string(kSequence) + " of " + text_of(entry, "profiling_name") +
                   ": found none, wanted a number");
}

bool is_true(const json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_boolean() && at->get<bool>();
}

// A group has a name and a description: the first one that was made is described as "default_pg". Groups of one name on different
// ranks need not be the same one, so where it is known which ranks a group has, they are a part of its name.
std::string group_of(const json& entry, const json& dump) {
  constexpr const char* kDefault = "default_pg";
  const auto at = entry.find("process_group");
  if (at == entry.end() || !at->is_array() || at->empty() || !at->front().is_string()) return "";
  if (at->size() > 1 && at->at(1) == kDefault) return "default";
  auto name = at->front().get<std::string>();
  const auto groups = dump.find("pg_config");
  if (groups == dump.end() || !groups->is_object() || !groups->contains(name)) return name;
  const std::string ranks = text_of(groups->at(name), "ranks");
  return ranks.empty() ? name : name + " " + ranks;
}

// Of all tensors together; a tensor without dimensions has one element.
std::int64_t elements_of(const json& entry) {
  constexpr std::int64_t kMost = std::int64_t{1} << 53;
  const auto sizes = entry.find("input_sizes");
  if (sizes == entry.end() || !sizes->is_array()) return 0;
  std::int64_t all = 0;
  for (const json& tensor : *sizes) {
    std::int64_t elements = 1;
    for (const json& length : tensor) {
      const std::int64_t one = length.is_number_integer() ? length.get<std::int64_t>() : 0;
      if (one < 0 || (one > 0 && elements > kMost / one)) throw nsa::Error("a size is too large");
      elements *= one;
    }
    all = std::min(all + elements, kMost);
  }
  return all;
}

std::string type_of(const json& entry) {
  const auto types = entry.find("input_dtypes");
  if (types == entry.end() || !types->is_array() || types->empty()) return "";
  return types->front().is_string() ? types->front().get<std::string>() : "";
}

FlightRecord record_of(const json& entry, const json& dump) {
  FlightRecord record;
  record.group = group_of(entry, dump);
  record.sequence = sequence_of(entry);
  const std::string name = text_of(entry, "profiling_name");  // "nccl:all_reduce"
  const std::size_t colon = name.find(':');
  record.op = colon == std::string::npos ? name : name.substr(colon + 1);
  record.dtype = type_of(entry);
  record.count = elements_of(entry);
  // Of Gloo nothing tells the end but that the record was put away.
  const bool put_away = name.starts_with("gloo:") && is_true(entry, "retired");
  record.done = put_away || text_of(entry, "state") == "completed";
  return record;
}

}  // namespace

FlightDump read_flight_dump(std::string_view bytes) {
  json dump;
  try {
    dump = bytes.starts_with('{') ? json::parse(bytes) : read_pickled(bytes, "frames");
  } catch (const json::exception& error) {
    throw nsa::Error(error.what());
  }
  check_version(dump);
  const auto entries = dump.find("entries");
  FlightDump read;
  if (entries == dump.end()) return read;  // of a rank that has issued nothing
  if (!entries->is_array()) throw nsa::Error("entries: found no list");
  for (const json& entry : *entries) {
    if (!entry.is_object()) throw nsa::Error("entries: found one that is no object");
    if (is_true(entry, "is_p2p")) continue;
    read.records.push_back(record_of(entry, dump));
  }
  return read;
}

}  // namespace harness
