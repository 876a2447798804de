// Names and JSON of what a check says.
#include "harness/judge/finding.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "harness/judge/wording/find_wording.h"
#include "nsa/base/error.h"
#include "nsa/base/text.h"

namespace harness {
namespace {

constexpr std::array<const char*, 3> kVerdicts = {"pass", "inconclusive", "fail"};
constexpr std::array<const char*, 4> kRoles = {"initiating", "cascade", "teardown", "unknown"};
constexpr std::array<const char*, 2> kStatuses = {"supported", "hypothesis"};
template <typename Enum, std::size_t kCount>
std::optional<Enum> value_named(const std::array<const char*, kCount>& names,
                                std::string_view name) {
  for (std::size_t i = 0; i < kCount; ++i) {
    if (name == names[i]) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

template <typename Enum, std::size_t kCount>
Enum read_name(const std::array<const char*, kCount>& names,
               const nlohmann::json& json,
               const char* key) {
  const auto text = json.at(key).get<std::string>();
  const auto value = value_named<Enum>(names, text);
  if (!value) throw nsa::Error(std::string(key) + ": found unknown name \"" + text + "\"");
  return *value;
}

// Measures stand beside the place in a site's detail. The sentence tells them, so a title leaves them out.
bool is_measure(std::string_view key) {
  constexpr std::array kNames = {"params", "elements"};
  constexpr std::array kEnds = {
      "_count", "_rows", "_elements", "_columns", "_ms", "_bytes", "_nats", "_per_step"};
  return key.starts_with("share") || std::find(kNames.begin(), kNames.end(), key) != kNames.end() ||
         std::any_of(
             kEnds.begin(), kEnds.end(), [&](std::string_view end) { return key.ends_with(end); });
}

bool are_integers(const nlohmann::json& list) {
  return list.is_array() && std::all_of(list.begin(), list.end(), [](const nlohmann::json& item) {
           return item.is_number_integer();
         });
}

Site place_of(Site site) {
  nlohmann::json kept = nlohmann::json::object();
  for (const auto& [key, value] : site.detail.json().items()) {
    if (is_measure(key)) continue;
    kept[key] = value;
    if (!are_integers(value)) continue;
    auto numbers = value.get<std::vector<int>>();
    std::sort(numbers.begin(), numbers.end());
    kept[key] = nsa::ranges_text(numbers);
  }
  site.detail = Facts(std::move(kept));
  return site;
}

}  // namespace

const char* name_of(Verdict value) {
  return kVerdicts.at(static_cast<std::size_t>(value));
}
const char* name_of(Role value) {
  return kRoles.at(static_cast<std::size_t>(value));
}
const char* name_of(Status value) {
  return kStatuses.at(static_cast<std::size_t>(value));
}

std::string title_of(const std::string& code, const Site& site) {
  const std::string where = place_of(site).text();
  return where.empty() ? code : code + " @ " + where;
}

void to_json(nlohmann::json& json, const NotJudged& lacking) {
  json = {{"check", lacking.check}, {"what", lacking.what}, {"site", lacking.site}};
}

void from_json(const nlohmann::json& json, NotJudged& lacking) {
  json.at("check").get_to(lacking.check);
  json.at("what").get_to(lacking.what);
  json.at("site").get_to(lacking.site);
}

void to_json(nlohmann::json& json, const Finding& finding) {
  json = {{"code", finding.code},
          {"variant", finding.variant},
          {"site", finding.site},
          {"facts", finding.facts.json()},
          {"check", finding.check},
          {"statement", finding.statement},
          {"ruled_out", finding.ruled_out},
          {"next_action", finding.next_action},
          {"role", name_of(finding.role)},
          {"status", name_of(finding.status)},
          {"number", finding.number}};
  if (finding.follows > 0) {
    json["follows"] = finding.follows;
    json["tie"] = finding.tie;
  }
  if (!finding.not_judged.empty()) json["not_judged"] = finding.not_judged;
}

// A database may hold findings that were stored without facts: their sentences stay.
void from_json(const nlohmann::json& json, Finding& finding) {
  json.at("code").get_to(finding.code);
  finding.variant = json.value("variant", std::string());
  json.at("site").get_to(finding.site);
  finding.facts = Facts(json.value("facts", nlohmann::json::object()));
  finding.check = json.value("check", std::string());
  json.at("statement").get_to(finding.statement);
  json.at("ruled_out").get_to(finding.ruled_out);
  json.at("next_action").get_to(finding.next_action);
  finding.role = read_name<Role>(kRoles, json, "role");
  finding.status = read_name<Status>(kStatuses, json, "status");
  finding.number = json.value("number", 0);
  finding.follows = json.value("follows", 0);
  finding.tie = json.value("tie", std::string());
  finding.not_judged = json.value("not_judged", std::vector<NotJudged>());
  finding = worded(std::move(finding));
}

void to_json(nlohmann::json& json, const Measured& measured) {
  json = {{"name", measured.name}, {"value", measured.value}};
  if (measured.limit) json["limit"] = *measured.limit;
}

void from_json(const nlohmann::json& json, Measured& measured) {
  json.at("name").get_to(measured.name);
  json.at("value").get_to(measured.value);
  measured.limit.reset();
  if (json.contains("limit")) measured.limit = json.at("limit").get<Real>();
}

void to_json(nlohmann::json& json, const CheckResult& result) {
  json = {{"check", result.check},
          {"verdict", name_of(result.verdict)},
          {"reason", result.reason},
          {"measured", result.measured},
          {"findings", result.findings}};
}

void from_json(const nlohmann::json& json, CheckResult& result) {
  json.at("check").get_to(result.check);
  result.verdict = read_name<Verdict>(kVerdicts, json, "verdict");
  json.at("reason").get_to(result.reason);
  json.at("measured").get_to(result.measured);
  json.at("findings").get_to(result.findings);
}

}  // namespace harness
