#include "harness/bundle/bundle.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "harness/bundle/archive.h"
#include "harness/scenario/case_json.h"
#include "nsa/base/error.h"
#include "nsa/base/file.h"
#include "nsa/base/hash.h"
#include "nsa/base/safetensors.h"
#include "nsa/base/secrets.h"
#include "nsa/base/strict_json.h"
#include "nsa/base/text.h"

namespace harness {
namespace {

using nlohmann::json;

constexpr std::int64_t kFormat = 1;
constexpr ArchiveLimits kLimits = {std::size_t{80} << 20, 16};  // a text has up to 64 MiB
constexpr nsa::JsonLimits kSaysLimits = {std::size_t{4} << 20, 16};
constexpr std::size_t kLongestCase = std::size_t{1} << 20;  // as the YAML reader takes it
constexpr std::size_t kMostItems = 10'000;                  // of a list in bundle.json
constexpr const char* kSays = "bundle.json";
constexpr const char* kSaysHash = "bundle.json.hash";
constexpr const char* kCase = "case.json";
constexpr const char* kOriginal = "original.json";
constexpr const char* kScenario = "scenario.yaml";
constexpr const char* kFindings = "findings.txt";
constexpr const char* kOperator = "operator.safetensors";

std::string dump(const json& value, int indent = -1) {
  return value.dump(indent, ' ', false, json::error_handler_t::replace);
}

std::string text_name(const std::string& text) {
  return "texts/" + nsa::hash_hex(text) + ".txt";
}

// Of where a kernel lies only the last name: a bundle holds no names of folders.
void drop_folder_of_kernel(Scenario& scenario) {
  const std::string from = scenario.kernel.from;
  if (from.empty()) return;
  scenario.kernel.from = std::filesystem::path(from).filename().string();
  for (std::size_t at = 0; (at = scenario.text.find(from, at)) != std::string::npos;) {
    scenario.text.replace(at, from.size(), scenario.kernel.from);
    at += scenario.kernel.from.size();
  }
}

// The path in it stands for the member that holds the text.
std::string case_text_of(Case the_case, const std::string& text) {
  drop_folder_of_kernel(the_case.scenario);
  the_case.scenario.training.data.text.clear();
  if (reads_text(the_case)) the_case.scenario.training.data.text = {text_name(text)};
  return nsa::without_secrets(dump(json::parse(case_to_json(the_case)), 1)) + "\n";
}

json causes_json(const std::vector<Cause>& causes) {
  json list = json::array();
  for (const Cause& cause : causes) {
    list.push_back({{"code", cause.code}, {"site", cause.site}, {"statement", cause.statement}});
  }
  return list;
}

json failing_json(const FailingCase& failing) {
  json sizes = json::object();
  for (const auto& [name, value] : sizes_of(failing.the_case.scenario)) sizes[name] = value;
  return {{"case", failing.the_case.label()},
          {"id", failing.the_case.id},
          {"outcome", name_of(failing.outcome)},
          {"causes", causes_json(failing.causes)},
          {"sizes", std::move(sizes)}};
}

Pairs kept_environment(Pairs environment) {
  for (auto& [name, value] : environment) value = nsa::value_without_secrets(name, value);
  return environment;
}

json says_of(const Bundle& bundle, const std::vector<Member>& others) {
  json tries = json::array();
  for (const ShrinkTry& one : bundle.tries) {
    tries.push_back({{"changes", one.changes}, {"saw", one.saw}, {"alike", one.alike}});
  }
  json members = json::object();
  for (const Member& member : others) {
    members[member.name] = {{"bytes", member.content.size()},
                            {"hash", nsa::hash_hex(member.content)}};
  }
  json says = {{"format", kFormat},
               {"failing", failing_json(bundle.failing)},
               {"asked", bundle.asked},
               {"versions", bundle.versions},
               {"environment", kept_environment(bundle.environment)},
               {"shrinking", {{"text", bundle.shrinking}, {"tries", std::move(tries)}}},
               {"members", std::move(members)}};
  if (bundle.original) says["original"] = failing_json(*bundle.original);
  return says;
}

std::vector<Member> members_of(const Bundle& bundle) {
  std::vector<Member> others = {{kCase, case_text_of(bundle.failing.the_case, bundle.text)}};
  if (bundle.original) {
    others.push_back({kOriginal, case_text_of(bundle.original->the_case, bundle.text)});
  }
  Scenario scenario = bundle.failing.the_case.scenario;
  drop_folder_of_kernel(scenario);
  others.push_back({kScenario, nsa::without_secrets(scenario.text)});
  others.push_back({kFindings, nsa::without_secrets(bundle.findings)});
  if (!bundle.operator_call.empty()) others.push_back({kOperator, bundle.operator_call});
  if (reads_text(bundle.failing.the_case)) others.push_back({text_name(bundle.text), bundle.text});
  return others;
}

std::string hash_line(const std::string& says) {
  return nsa::hash_hex(says) + "\n";
}

// Reads what strangers wrote; its messages name the file.
class BundleReader {
 public:
  BundleReader(std::vector<Member> members, std::string where) : where_(std::move(where)) {
    for (Member& member : members) contents_[member.name] = std::move(member.content);
  }

  Bundle read() {
    const json says = read_says();
    check_members(says);
    Bundle bundle;
    bundle.failing = read_failing(says, "failing", kCase);
    if (says.contains("original")) bundle.original = read_failing(says, "original", kOriginal);
    read_text(bundle);
    bundle.asked = read_pairs(says, "asked");
    bundle.versions = read_pairs(says, "versions");
    bundle.environment = read_pairs(says, "environment");
    read_tries(says, bundle);
    bundle.findings = content(kFindings);
    (void)content(kScenario);
    read_operator(bundle);
    if (!contents_.empty()) fail("found " + contents_.begin()->first + ", wanted no such member");
    return bundle;
  }

 private:
  [[noreturn]] void fail(const std::string& text) const { throw nsa::Error(where_ + ": " + text); }

  std::string content(const std::string& name) {
    const auto at = contents_.find(name);
    if (at == contents_.end()) fail("found no " + name + ": no bundle, or not all of it");
    std::string content = std::move(at->second);
    contents_.erase(at);
    return content;
  }

  // That it is a file of tensors is seen here; what it says of the operator, by the worker that runs it.
  void read_operator(Bundle& bundle) {
    if (contents_.count(kOperator) == 0) return;
    bundle.operator_call = content(kOperator);
    if (bundle.operator_call.size() > kMostOperatorBytes)
      fail(std::string(kOperator) + ": too long");
    (void)nsa::parse_safetensors(std::as_bytes(std::span(bundle.operator_call)),
                                 where_ + ": " + kOperator);
  }

  json read_says() {
    const std::string text = content(kSays);
    if (content(kSaysHash) != hash_line(text)) {
      fail(std::string(kSays) + " is not what its hash says: damaged or altered");
    }
    json says = nsa::parse_json_object(text, kSaysLimits, where_ + ": " + kSays);
    const std::int64_t format =
        nsa::integer_at(says, "format", 1, std::numeric_limits<std::int32_t>::max());
    if (format != kFormat) {
      fail("found format " + std::to_string(format) + ", wanted 1: a newer version made it");
    }
    return says;
  }

  void check_members(const json& says) const {
    const json& noted = says.at("members");
    if (!noted.is_object() || noted.size() != contents_.size()) {
      fail("its members are not those that it says");
    }
    for (const auto& [name, text] : contents_) {
      const auto at = noted.find(name);
      const bool whole = at != noted.end() && at->at("bytes").is_number_unsigned() &&
                         at->at("bytes") == text.size() && at->at("hash") == nsa::hash_hex(text);
      if (!whole) fail(name + " is not what its hash says: damaged or altered");
    }
  }

  Case read_case(const char* member) {
    const std::string text = content(member);
    if (text.size() > kLongestCase) fail(std::string(member) + ": too long");
    const Case the_case = case_from_json(text, where_ + ": " + member);
    if (the_case.scenario.is_command()) {
      fail("it holds a command line, wanted a case that this program runs itself");
    }
    Case bare = bare_case(the_case);
    bare.scenario.training.data.text = the_case.scenario.training.data.text;
    return bare;
  }

  FailingCase read_failing(const json& says, const char* key, const char* member) {
    const json& part = says.at(key);
    FailingCase failing;
    failing.the_case = read_case(member);
    const auto outcome = outcome_from(part.at("outcome").get_ref<const std::string&>());
    if (!outcome) fail(std::string(key) + ": found an outcome of no known name");
    failing.outcome = *outcome;
    for (const json& cause : list(part, "causes")) failing.causes.push_back(read_cause(cause));
    if (failing.causes.empty()) fail(std::string(key) + ": found no cause, wanted one");
    return failing;
  }

  [[nodiscard]] const json& list(const json& object, const char* key) const {
    const json& items = object.at(key);
    if (!items.is_array() || items.size() > kMostItems) {
      fail(std::string(key) + ": wanted a list of at most " + std::to_string(kMostItems));
    }
    return items;
  }

  [[nodiscard]] Cause read_cause(const json& from) const {
    const json& site = from.at("site");
    if (!site.is_object()) fail("a cause's site: wanted an object");
    for (const auto& [key, value] : site.items()) {
      if (key != "detail") check_numbers(value);
    }
    return {from.at("code").get<std::string>(),
            site.get<Site>(),
            from.at("statement").get<std::string>()};
  }

  // Every number of a site but its details is a whole one.
  void check_numbers(const json& value) const {
    if (value.is_array()) {
      for (const json& item : value) check_number(item);
    } else if (value.is_number()) {
      check_number(value);
    }
  }
  void check_number(const json& value) const {
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
    const bool good = value.is_number_unsigned() && value.get<std::uint64_t>() <= kMost;
    if (!good) fail("a cause's site: found " + nsa::found_text(value) + ", wanted whole numbers");
  }

  [[nodiscard]] Pairs read_pairs(const json& says, const char* key) const {
    return list(says, key).get<Pairs>();
  }

  void read_tries(const json& says, Bundle& bundle) const {
    const json& part = says.at("shrinking");
    part.at("text").get_to(bundle.shrinking);
    for (const json& one : list(part, "tries")) {
      bundle.tries.push_back({one.at("changes").get<std::string>(),
                              one.at("saw").get<std::string>(),
                              one.at("alike").get<bool>()});
    }
  }

  // Both cases read the member, and no file of this machine.
  void read_text(Bundle& bundle) {
    std::vector<std::string> wanted;
    if (reads_text(bundle.failing.the_case)) {
      const auto at = contents_.lower_bound("texts/");
      if (at == contents_.end()) fail("found no text, wanted that of the case");
      if (at->first != text_name(at->second)) fail("its text is not the one of its name");
      wanted = {at->first};
      bundle.text = content(at->first);
    }
    check_text(bundle.failing.the_case, wanted);
    if (bundle.original) check_text(bundle.original->the_case, wanted);
  }
  void check_text(const Case& the_case, const std::vector<std::string>& wanted) const {
    if (the_case.scenario.training.data.text != wanted) {
      fail("its case reads another text than the bundle's");
    }
  }

  std::string where_;
  std::map<std::string, std::string> contents_;
};

}  // namespace

Case bare_case(Case the_case) {
  Scenario& scenario = the_case.scenario;
  scenario.expect.reset();
  scenario.known.reset();
  scenario.bisect = BisectConfig();
  scenario.path.clear();
  scenario.training.data.text.clear();
  the_case.id = case_id(the_case);
  return the_case;
}

bool reads_text(const Case& the_case) {
  const Scenario& scenario = the_case.scenario;
  const bool trains =
      scenario.kind == "training" || scenario.kind == "throughput" || scenario.kind == "sweep";
  return trains && scenario.training.data.source == nsa::DataConfig::Source::text;
}

std::vector<std::string> texts_in(const Bundle& bundle) {
  std::vector<std::string> lines;
  for (const Member& member : members_of(bundle)) {
    const std::string begin = member.content.substr(0, member.content.find('\n'));
    const bool is_text = member.name != kOperator && begin.size() > 1;
    lines.push_back(member.name + ", " + std::to_string(member.content.size()) + " bytes" +
                    (is_text ? ": " + nsa::shortened(begin) + " ..." : ""));
  }
  for (const auto& [name, value] : bundle.environment) {
    lines.push_back("variable " + name + "=" + nsa::value_without_secrets(name, value));
  }
  for (const auto& [key, value] : bundle.asked) {
    lines.push_back("option --" + key + " " + nsa::without_secrets(value));
  }
  for (const auto& [name, value] : bundle.versions) {
    lines.push_back(name + " " + nsa::without_secrets(value));
  }
  return lines;
}

std::string write_bundle(const Bundle& bundle) {
  std::vector<Member> members = members_of(bundle);
  const std::string says = nsa::without_secrets(dump(says_of(bundle, members), 1)) + "\n";
  members.insert(members.begin(), {kSays, says});
  members.push_back({kSaysHash, hash_line(says)});
  std::string bytes = write_archive(members);
  if (bytes.size() > kMostBundleBytes) {
    throw nsa::Error("the bundle would have " + std::to_string(bytes.size()) +
                     " bytes, wanted at most " + std::to_string(kMostBundleBytes) +
                     ": let the case train on a shorter text (training.data.text)");
  }
  return bytes;
}

Bundle read_bundle(std::string_view bytes, const std::string& where) {
  if (bytes.size() > kMostBundleBytes) {
    throw nsa::Error(where + ": found " + std::to_string(bytes.size()) + " bytes, wanted at most " +
                     std::to_string(kMostBundleBytes));
  }
  return read_members(read_archive(bytes, kLimits, where), where);
}

Bundle read_members(std::vector<Member> members, const std::string& where) {
  try {
    return BundleReader(std::move(members), where).read();
  } catch (const json::exception& error) {
    throw nsa::Error(where + ": " + kSays + ": " + nsa::shortened(error.what()));
  }
}

Bundle read_bundle_file(const std::string& path) {
  return read_bundle(nsa::read_file(path, static_cast<std::int64_t>(kMostBundleBytes)), path);
}

std::vector<std::string> differences(const Pairs& there, const Pairs& here) {
  const std::map<std::string, std::string> now(here.begin(), here.end());
  std::map<std::string, std::string> only_here = now;
  std::vector<std::string> lines;
  const auto shown = [](const std::string& value) {
    return value.empty() ? std::string("none") : nsa::shortened(value);
  };
  const auto tell = [&](const std::string& name, const std::string& a, const std::string& b) {
    if (a != b) lines.push_back(name + ": " + shown(a) + " there, " + shown(b) + " here");
  };
  for (const auto& [name, value] : there) {
    const auto at = now.find(name);
    tell(name, value, at == now.end() ? "" : at->second);
    only_here.erase(name);
  }
  for (const auto& [name, value] : only_here) tell(name, "", value);
  return lines;
}

}  // namespace harness
