// JSON and words of a site. Patterns (every 16th row, one head) are derived from the numbers.
#include "harness/scenario/site.h"

#include <algorithm>
#include <span>

#include "harness/scenario/fields_json.h"
#include "harness/scenario/planted_fields.h"
#include "nsa/base/text.h"

namespace harness {
namespace {

constexpr std::size_t kShownRanges = 8;  // of a list without a pattern; the rest is counted
constexpr std::size_t kFewestForPattern =
    3;  // numbers that make an arithmetic progression worth naming

std::vector<int> sorted(std::vector<int> numbers) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

// The common difference of an ascending list if it is above 1, else 0.
int stride_of(const std::vector<int>& numbers) {
  if (numbers.size() < kFewestForPattern) return 0;
  const int stride = numbers[1] - numbers[0];
  for (std::size_t i = 2; i < numbers.size(); ++i) {
    if (numbers[i] - numbers[i - 1] != stride) return 0;
  }
  return stride > 1 ? stride : 0;
}

std::string ranges_shown(const std::vector<int>& numbers) {
  std::size_t ranges = 0;
  std::size_t shown = 0;
  for (; shown < numbers.size(); ++shown) {
    const bool starts = shown == 0 || numbers[shown] != numbers[shown - 1] + 1;
    if (starts && ++ranges > kShownRanges) break;
  }
  std::string text = nsa::ranges_text(std::span(numbers).first(shown));
  if (shown < numbers.size()) text += " and " + std::to_string(numbers.size() - shown) + " more";
  return text;
}

std::string detail_text(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return nsa::to_text(value.get<double>(), 6);
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

template <typename Value>
void take(const nlohmann::json& json, const nsa::Field<Site, Value>& field, Site& site) {
  const auto at = json.find(field.key);
  Value& out = site.*field.member;
  if constexpr (nsa::kOptional<Value>) {
    if (at != json.end()) out = at->template get<typename Value::value_type>();
  } else {
    if (at != json.end()) out = at->template get<Value>();
  }
}

void take(const nlohmann::json& json, const nsa::ByHand& row, Site& site) {
  if (const auto at = json.find(row.key); at != json.end()) site.detail = Facts(*at);
}

}  // namespace

std::string numbers_text(const std::string& noun, const std::vector<int>& unsorted) {
  const std::vector<int> numbers = sorted(unsorted);
  if (numbers.size() == 1) return noun + " " + std::to_string(numbers[0]);
  if (const int stride = stride_of(numbers); stride > 0) {
    return noun + "s ≡ " + std::to_string(numbers[0] % stride) + " mod " + std::to_string(stride) +
           " (" + std::to_string(numbers.front()) + ".." + std::to_string(numbers.back()) + ")";
  }
  return noun + "s " + ranges_shown(numbers);
}

std::string Site::when() const {
  const int number = step.value_or(0);
  if (phase == "data" && number > 1) return "after step " + std::to_string(number - 1);
  if (phase == "data" && number == 1) return "before step 1";
  const std::string in_step = step ? "in step " + std::to_string(number) : "";
  if (phase.empty()) return in_step;
  return (in_step.empty() ? "in " : in_step + ", ") + "phase " + phase;
}

std::string Site::text() const {
  std::vector<std::string> parts;
  const auto add_numbers = [&](const char* noun, const std::vector<int>& numbers) {
    if (!numbers.empty()) parts.push_back(numbers_text(noun, numbers));
  };
  const auto add = [&](const std::string& noun, const std::string& value) {
    if (!value.empty()) parts.push_back(noun + " " + value);
  };
  add_numbers("layer", layers);
  add("branch", branch);
  add("param", param);
  add("op", op);
  add_numbers("head", heads);
  add_numbers("row", rows);
  add_numbers("rank", ranks);
  const bool between = phase == "data" && step;
  if (between) parts.push_back(when());
  add("step", step && !between ? std::to_string(*step) : "");
  add("bucket", bucket ? std::to_string(*bucket) : "");
  add("sequence", sequence ? std::to_string(*sequence) : "");
  add("phase", between ? "" : phase);
  for (const auto& [key, value] : detail.json().items()) add(key, detail_text(value));
  return nsa::join(parts);
}

void to_json(nlohmann::json& json, const Site& site) {
  json = fields_json(kSiteFields, site);
  if (!site.detail.empty()) json["detail"] = site.detail.json();
}

void from_json(const nlohmann::json& json, Site& site) {
  site = Site();
  nsa::for_each_row(kSiteFields, [&](const auto& row) { take(json, row, site); });
}

}  // namespace harness
