#include "harness/evidence/event.h"

#include <algorithm>

#include "nsa/base/error.h"

namespace harness {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 16;                  // the deepest row (observation) has five levels
constexpr std::size_t kMaxKindBytes = 64;      // names of rows are short words
constexpr std::int64_t kMaxProcess = 1 << 20;  // more ranks than any cluster has

[[noreturn]] void refuse(const std::string& why) {
  throw nsa::Error("not an event: " + why);
}

// The parser keeps its own stack, but printing and comparing a value recurse: depth is limited beforehand.
void check_depth(std::string_view line) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        quoted = false;
      }
      continue;
    }
    if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kMaxDepth) refuse("nested deeper than " + std::to_string(kMaxDepth));
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
}

json parse(std::string_view line) {
  try {
    return json::parse(line);
  } catch (const json::exception& error) {
    refuse(error.what());
  }
}

// The integer at `key`, within [low, high].
std::int64_t read_int(const json& object, const char* key, std::int64_t low, std::int64_t high) {
  const auto at = object.find(key);
  if (at == object.end() || !at->is_number_integer()) {
    refuse(std::string(key) + " is not an integer");
  }
  const bool too_large =
      at->is_number_unsigned() && at->get<std::uint64_t>() > static_cast<std::uint64_t>(high);
  if (too_large || at->get<std::int64_t>() < low || at->get<std::int64_t>() > high) {
    refuse(std::string(key) + " is out of range: " + at->dump());
  }
  return at->get<std::int64_t>();
}

std::string read_kind(const json& object) {
  const auto at = object.find("kind");
  if (at == object.end() || !at->is_string()) refuse("kind is not a text");
  auto kind = at->get<std::string>();
  const bool is_word = std::all_of(kind.begin(), kind.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
  if (kind.empty() || kind.size() > kMaxKindBytes || !is_word) refuse("kind is not a word");
  return kind;
}

}  // namespace

// By hand, with the keys in their order: an object made for it would copy the row, for each of a million samples.
std::string encode_event(const Event& event) {
  const auto text = [](const json& value) {
    return value.dump(-1, ' ', false, json::error_handler_t::replace);
  };
  return "{\"body\":" + text(event.body) + ",\"kind\":" + text(event.kind) +
         ",\"process\":" + std::to_string(event.process) +
         ",\"t_ms\":" + std::to_string(event.t_ms) + "}";
}

Event decode_event(std::string_view line) {
  if (line.size() > kMaxEventBytes) {
    refuse(std::to_string(line.size()) + " bytes, at most " + std::to_string(kMaxEventBytes));
  }
  check_depth(line);
  json object = parse(line);
  if (!object.is_object()) refuse("not a JSON object");
  if (object.size() != 4) refuse("wanted exactly process, t_ms, kind and body");
  const auto body = object.find("body");
  if (body == object.end() || !body->is_object()) refuse("body is not a JSON object");

  Event event;
  event.process = static_cast<int>(read_int(object, "process", kLowestProcess, kMaxProcess));
  event.t_ms = read_int(object, "t_ms", 0, std::int64_t{1} << 53);  // exact in every JSON reader
  event.kind = read_kind(object);
  event.body = std::move(*body);
  return event;
}

}  // namespace harness
