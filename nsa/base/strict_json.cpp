#include "nsa/base/strict_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "nsa/base/error.h"

namespace nsa {
namespace {

using Json = nlohmann::json;
using Event = Json::parse_event_t;

constexpr std::size_t kShownJsonBytes =
    80;  // a name or a number; nobody reads more of it in a message

// Looks at every event while the document is built: the DOM keeps the last of two equal keys silently.
class Watch {
 public:
  Watch(int max_depth, const std::string& where) : max_depth_(max_depth), where_(where) {}

  bool operator()(int depth, Event event, const Json& value) {
    if ((event == Event::object_start || event == Event::array_start) && depth >= max_depth_) {
      throw Error(Location{where_},
                  "found JSON nested deeper than " + std::to_string(max_depth_) + ", wanted less");
    }
    if (event == Event::object_start) open_objects_.emplace_back();
    if (event == Event::object_end) open_objects_.pop_back();
    if (event == Event::key &&
        !open_objects_.back().insert(value.get_ref<const std::string&>()).second) {
      throw Error(Location{where_},
                  "'" + shortened(value.get_ref<const std::string&>()) + "' comes twice");
    }
    return true;
  }

 private:
  int max_depth_;
  const std::string& where_;
  std::vector<std::set<std::string>> open_objects_;
};

}  // namespace

std::string shortened(std::string_view text) {
  if (text.size() <= kShownJsonBytes) return std::string(text);
  std::size_t end = kShownJsonBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;  // whole UTF-8
  return std::string(text.substr(0, end)) + "...";
}

std::string found_text(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  return shortened(value.dump());
}

std::int64_t integer_at(const Json& object,
                        const std::string& key,
                        std::int64_t low,
                        std::int64_t high) {
  const auto at = object.find(key);
  if (at == object.end()) throw Error(key + ": found nothing, wanted a whole number");
  const bool small_enough =
      !at->is_number_unsigned() || at->get<std::uint64_t>() <= std::uint64_t{INT64_MAX};
  if (!at->is_number_integer() || !small_enough || at->get<std::int64_t>() < low ||
      at->get<std::int64_t>() > high) {
    throw Error(key + ": found " + found_text(*at) + ", wanted a whole number from " +
                std::to_string(low) + " to " + std::to_string(high));
  }
  return at->get<std::int64_t>();
}

Json parse_json_object(std::string_view text, const JsonLimits& limits, const std::string& where) {
  if (text.size() > limits.bytes) {
    throw Error(Location{where},
                "found " + std::to_string(text.size()) + " bytes of JSON, wanted at most " +
                    std::to_string(limits.bytes));
  }
  if (text.empty() || text.front() != '{') {
    throw Error(Location{where}, "wanted a JSON object that starts with '{'");
  }
  Watch watch(limits.depth, where);
  const auto look = [&](int depth, Event event, Json& value) { return watch(depth, event, value); };
  try {
    return Json::parse(text.begin(), text.end(), look);
  } catch (const Json::exception& error) {
    constexpr std::size_t kCodeBytes = 64;  // "[json.exception.parse_error.101] " and the like
    const std::string what = error.what();
    const std::size_t end = what.find("; last read:");  // what was read may be megabytes
    throw Error(Location{where}, "wanted JSON: " + what.substr(0, std::min(end, 2 * kCodeBytes)));
  }
}

}  // namespace nsa
