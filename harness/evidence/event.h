// One line of evidence: who wrote it, when, what kind, and the row itself as JSON. The format of fd 3 and of the JSONL file.
// Lines come from workers and are untrusted: decode_event() checks sizes and types and throws nsa::Error on anything else.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "harness/evidence/rows.h"

namespace harness {

inline constexpr std::size_t kMaxEventBytes =
    std::size_t{4} << 20;  // a stack sample of 200 threads is about 1 MiB

struct Event {
  int process = 0;
  std::int64_t t_ms = 0;  // milliseconds since the case began, by the writer's monotonic clock
  std::string kind;
  nlohmann::json body;  // the row

  template <typename Row>
  [[nodiscard]] static Event of(int process, std::int64_t t_ms, const Row& row) {
    return Event{process, t_ms, Row::kKind, nlohmann::json(row)};
  }
};

// One line without the newline: {"body":{...},"kind":"phase","process":0,"t_ms":12}. Invalid UTF-8 is replaced.
[[nodiscard]] std::string encode_event(const Event& event);

// Throws: nsa::Error saying what is wrong with the line. The body is only known to be an object: check_row() in evidence.h
// tells whether it is a row of its kind.
[[nodiscard]] Event decode_event(std::string_view line);

}  // namespace harness
