#include "harness/run/join/messages.h"

#include <algorithm>
#include <arpa/inet.h>
#include <csignal>
#include <limits>
#include <nlohmann/json.hpp>

#include "harness/evidence/evidence.h"
#include "nsa/base/error.h"
#include "nsa/base/strict_json.h"
#include "nsa/base/text.h"

namespace harness {
namespace {

using nlohmann::json;

constexpr std::int64_t kMostWorld = 1 << 20;
constexpr std::int64_t kMostMs = std::int64_t{1} << 53;
constexpr std::size_t kMostName = 256;
constexpr std::size_t kMostPath = 4096;
constexpr int kMostPort = 65535;
constexpr int kMostDepth = 8;  // an Observation has five levels

std::string dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

json object_of(std::string_view text, std::size_t most_bytes, const char* what) {
  return nsa::parse_json_object(text, {most_bytes, kMostDepth}, what);
}

std::string text_at(const json& object, const char* key, std::size_t most_bytes) {
  const auto at = object.find(key);
  if (at == object.end() || !at->is_string()) {
    throw nsa::Error(std::string(key) + ": wanted a text");
  }
  auto text = at->get<std::string>();
  if (text.size() > most_bytes || text.find('\0') != std::string::npos) {
    throw nsa::Error(std::string(key) + ": wanted at most " + std::to_string(most_bytes) +
                     " bytes, and no zero among them");
  }
  return text;
}

// What people are shown of another host.
std::string name_at(const json& object, const char* key) {
  std::string name = text_at(object, key, kMostName);
  const auto is_shown = [](char c) { return c >= ' ' && c <= '~'; };
  if (!std::all_of(name.begin(), name.end(), is_shown)) {
    throw nsa::Error(std::string(key) + ": wanted letters, numbers and signs");
  }
  return name;
}

std::string address_at(const json& object, const char* key) {
  std::string address = name_at(object, key);
  if (!is_numeric_address(address)) {
    throw nsa::Error(std::string(key) + ": wanted an IPv4 address in numbers");
  }
  return address;
}

std::vector<std::string> texts_at(const json& object, const char* key) {
  const auto at = object.find(key);
  if (at == object.end() || !at->is_array()) {
    throw nsa::Error(std::string(key) + ": wanted a list of texts");
  }
  std::vector<std::string> texts;
  for (const json& one : *at) {
    if (!one.is_string()) throw nsa::Error(std::string(key) + ": wanted a list of texts");
    texts.push_back(one.get<std::string>());
    if (texts.back().find('\0') != std::string::npos) {
      throw nsa::Error(std::string(key) + ": found a zero in a text");
    }
  }
  return texts;
}

bool flag_at(const json& object, const char* key) {
  const auto at = object.find(key);
  if (at == object.end() || !at->is_boolean()) {
    throw nsa::Error(std::string(key) + ": wanted true or false");
  }
  return at->get<bool>();
}

int int_at(const json& object, const char* key, std::int64_t low, std::int64_t high) {
  return static_cast<int>(nsa::integer_at(object, key, low, high));
}

}  // namespace

Message message_of(std::string_view line) {
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos) return {line, {}};
  return {line.substr(0, space), line.substr(space + 1)};
}

bool is_numeric_address(const std::string& text) {
  in_addr address{};
  return inet_pton(AF_INET, text.c_str(), &address) == 1;
}

std::string join_text(const Join& join) {
  return "join " + dump({{"token", join.token},
                         {"rank", join.rank},
                         {"world", join.world},
                         {"address", join.address},
                         {"port", join.port},
                         {"host", join.host},
                         {"machine", join.machine},
                         {"sources", join.sources}});
}

Join read_join(std::string_view text) {
  const json object = object_of(text, kMaxJoinBytes, "join");
  Join join;
  join.token = text_at(object, "token", kMostName);
  join.world = int_at(object, "world", 1, kMostWorld);
  join.rank = int_at(object, "rank", 0, join.world - 1);
  join.address = address_at(object, "address");
  join.port = int_at(object, "port", 0, kMostPort);
  join.host = name_at(object, "host");
  join.machine = name_at(object, "machine");
  join.sources = name_at(object, "sources");
  return join;
}

std::string start_text(const Start& start) {
  return "start " + dump({{"token", start.token},
                          {"argv", start.argv},
                          {"environment", start.environment},
                          {"out_path", start.out_path},
                          {"err_path", start.err_path},
                          {"probe", start.probe},
                          {"now_ms", start.now_ms},
                          {"link_deadline_ms", start.link_deadline_ms},
                          {"term_grace_ms", start.term_grace_ms},
                          {"store", start.store},
                          {"port", start.port}});
}

Start read_start(std::string_view text) {
  const json object = object_of(text, kMaxMessageBytes, "start");
  Start start;
  start.token = text_at(object, "token", kMostName);
  start.argv = texts_at(object, "argv");
  if (start.argv.empty()) throw nsa::Error("argv: found no word");
  start.environment = texts_at(object, "environment");
  start.out_path = text_at(object, "out_path", kMostPath);
  start.err_path = text_at(object, "err_path", kMostPath);
  start.probe = text_at(object, "probe", kMostPath);
  start.now_ms = nsa::integer_at(object, "now_ms", 0, kMostMs);
  start.link_deadline_ms = nsa::integer_at(object, "link_deadline_ms", 1, kMostMs);
  start.term_grace_ms = nsa::integer_at(object, "term_grace_ms", 0, kMostMs);
  start.store = address_at(object, "store");
  start.port = int_at(object, "port", 1, kMostPort);
  return start;
}

std::string end_text(const End& end) {
  return "ended " + dump({{"exit_code", end.status.exit_code},
                          {"signal", end.status.signal},
                          {"core_dumped", end.status.core_dumped},
                          {"rss_peak_bytes", end.status.rss_peak_bytes},
                          {"memory", static_cast<int>(end.memory)},
                          {"by_launcher", end.by_launcher}});
}

End read_end(std::string_view text) {
  constexpr int kMostCode = 255;
  const json object = object_of(text, kMaxJoinBytes, "ended");
  End end;
  end.status.exit_code = int_at(object, "exit_code", -1, kMostCode);
  end.status.signal = int_at(object, "signal", 0, NSIG - 1);
  end.status.core_dumped = flag_at(object, "core_dumped");
  end.status.rss_peak_bytes = nsa::integer_at(object, "rss_peak_bytes", 0, kMostMs);
  end.memory = static_cast<MemoryKill>(int_at(object, "memory", 0, 2));
  end.by_launcher = flag_at(object, "by_launcher");
  const bool by_signal = end.status.signal != 0;
  if (by_signal == (end.status.exit_code >= 0)) {
    throw nsa::Error("ended: wanted either an exit code or a signal");
  }
  return end;
}

std::string look_text(const Observation& seen) {
  return "look " + dump(seen);
}

Observation read_look(std::string_view text) {
  Event event{kController, 0, Observation::kKind, object_of(text, kMaxMessageBytes, "look")};
  check_row(event);
  return event.body.get<Observation>();
}

std::int64_t read_number(std::string_view text, std::int64_t low, std::int64_t high) {
  const auto number = nsa::parse_int(text);
  if (!number || *number < low || *number > high) {
    throw nsa::Error("found \"" + nsa::shortened(text) + "\", wanted a number within " +
                     std::to_string(low) + " and " + std::to_string(high));
  }
  return *number;
}

}  // namespace harness
