#include "harness/store/sealed.h"

#include <nlohmann/json.hpp>

#include "nsa/base/error.h"
#include "nsa/base/file.h"
#include "nsa/base/hash.h"

namespace harness {
namespace {

using nlohmann::json;

std::string text_of(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string hash_of(const json& says, const std::string& before) {
  return nsa::hash_hex(before + text_of(says));
}

}  // namespace

std::string sealed_line(const json& says, const std::string& before) {
  // Parsed again: what is no UTF-8 is replaced in the text, and the hash must be of what a reader will see.
  const json readable = json::parse(text_of(says));
  return text_of({{"hash", hash_of(readable, before)}, {"says", readable}});
}

json open_sealed_line(std::string_view line,
                      const nsa::JsonLimits& limits,
                      const std::string& where,
                      std::string& hash) {
  const json document = nsa::parse_json_object(line, limits, where);
  const auto noted = document.find("hash");
  const auto says = document.find("says");
  if (document.size() != 2 || noted == document.end() || says == document.end() ||
      !noted->is_string() || !says->is_object()) {
    throw nsa::Error(where + ": wanted exactly \"hash\" and \"says\"");
  }
  const std::string wanted = hash_of(*says, hash);
  if (*noted != wanted) {
    throw nsa::NotAsRecorded(where + ": not what its hash says: altered");
  }
  hash = wanted;
  return *says;
}

}  // namespace harness
