// Lines that tell whether they were altered: {"hash":"…","says":{…}}, where the hash is over what the line says and the hash of
// the line before it. So a file of them can be added to, and nothing in it can be changed, left out or put in between unseen.
// Not cryptographic: it finds accidents and careless hands.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "nsa/base/strict_json.h"

namespace harness {

// The largest time and number that is written: exact in every JSON reader.
inline constexpr std::int64_t kLatestMs = std::int64_t{1} << 53;

// Without a line break. `before`: the hash of the line before it, "" for the first.
[[nodiscard]] std::string sealed_line(const nlohmann::json& says, const std::string& before);

// What the line says. `hash` is that of the line before it, and becomes this one's. Throws: nsa::Error, where it
// was altered NotAsRecorded, `where` in front.
[[nodiscard]] nlohmann::json open_sealed_line(std::string_view line,
                                              const nsa::JsonLimits& limits,
                                              const std::string& where,
                                              std::string& hash);

}  // namespace harness
