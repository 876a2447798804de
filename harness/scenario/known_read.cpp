// Known failures: the list of a scenario file, of which one may hold at a point of the axes, and the one of a case.
#include <algorithm>
#include <chrono>

#include "harness/scenario/case_json.h"
#include "harness/scenario/overrides.h"
#include "harness/scenario/planted_fields.h"
#include "harness/scenario/scenario_read.h"
#include "harness/scenario/schema.h"
#include "nsa/base/fields_read.h"
#include "nsa/base/text.h"

namespace harness {
namespace {

using nlohmann::json;
using nsa::Error;
using nsa::YamlMap;
using nsa::YamlNode;

struct Entry {
  KnownFailure failure;  // without `when`
  const YamlNode* when = nullptr;
};

Entry read_entry(const YamlNode& node) {
  YamlMap map(node, "known");
  Entry entry;
  entry.when = &map.require("when");
  YamlMap(*entry.when, "known.when");  // refuses what is no map
  nsa::YamlKeyLog::note("known.when.PATH");
  if (entry.when->entries.empty()) {
    throw Error(entry.when->where, "known.when: found nothing, wanted the point where it fails");
  }
  nsa::read_fields(kKnownFields, map, entry.failure);
  map.finish();
  return entry;
}

std::vector<Entry> read_entries(const YamlNode& node) {
  if (node.kind != YamlNode::Kind::sequence) {
    throw Error(node.where,
                "known: found " + nsa::found_text(node) + ", wanted a list of known failures");
  }
  std::vector<Entry> entries;
  for (const YamlNode& item : node.items) entries.push_back(read_entry(item));
  return entries;
}

bool has_expired(const KnownFailure& known, const std::string& today) {
  return !today.empty() && known.until <= today;  // dates of this form are ordered as texts
}

// As flow_text() would print what is read back from it.
std::string flow_text(const json& value) {
  std::vector<std::string> parts;
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return nsa::to_text(value.get<double>());
  if (value.is_array()) {
    for (const json& item : value) parts.push_back(flow_text(item));
    return "[" + nsa::join(parts) + "]";
  }
  if (value.is_object()) {
    for (const auto& [key, item] : value.items()) parts.push_back(key + ": " + flow_text(item));
    return "{" + nsa::join(parts) + "}";
  }
  return value.dump();
}

const json* find_path(const json& document, const std::string& path) {
  const json* node = &document;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    const auto at = node->is_object() ? node->find(path.substr(begin, end - begin)) : node->end();
    if (!node->is_object() || at == node->end()) return nullptr;
    node = &*at;
    begin = end + 1;
  }
  return node;
}

bool is_documented(const std::string& path) {
  return std::any_of(
      schema().begin(), schema().end(), [&](const SchemaKey& key) { return path == key.path; });
}

// A scenario with every default filled in, beside the document that it was read from.
class KnownPoint {
 public:
  KnownPoint(const YamlNode& root, const Scenario& scenario)
      : root_(root), filled_(scenario_json(scenario)) {}

  // The value of `path` that holds, of those that `node` accepts; nothing when none does.
  [[nodiscard]] std::optional<std::string> match(const std::string& path,
                                                 const YamlNode& node) const {
    const YamlNode* written = nsa::find_yaml_path(root_, path);
    const json* filled = find_path(filled_, path);
    if (written == nullptr && filled == nullptr && !is_documented(path)) {
      throw Error(node.where,
                  "known.when: found " + path + ", wanted the path of a value of the scenario");
    }
    for (const std::string& accepted : texts_of(node)) {
      const bool as_written = written != nullptr && harness::flow_text(*written) == accepted;
      const bool as_filled = filled != nullptr && flow_text(*filled) == accepted;
      if (as_written || as_filled) return accepted;
    }
    return std::nullopt;
  }

 private:
  static std::vector<std::string> texts_of(const YamlNode& node) {
    if (node.kind != YamlNode::Kind::sequence) return {harness::flow_text(node)};
    std::vector<std::string> texts;
    for (const YamlNode& item : node.items) texts.push_back(harness::flow_text(item));
    return texts;
  }

  const YamlNode& root_;
  json filled_;
};

// Every path is looked up, also after one that does not hold: a mistake must not hide behind it.
std::optional<KnownFailure> held(const Entry& entry, const KnownPoint& point) {
  KnownFailure failure = entry.failure;
  bool holds = true;
  for (const auto& [path, node] : entry.when->entries) {
    const auto value = point.match(path, node);
    holds = holds && value.has_value();
    if (value) failure.when.emplace_back(path, *value);
  }
  std::sort(failure.when.begin(), failure.when.end());
  return holds ? std::optional(failure) : std::nullopt;
}

KnownFailure of_case(const YamlNode& node) {
  const Entry entry = read_entry(node);
  KnownFailure failure = entry.failure;
  for (const auto& [path, value] : entry.when->entries) {
    failure.when.emplace_back(path, nsa::read_text(value, "known.when"));
  }
  std::sort(failure.when.begin(), failure.when.end());
  return failure;
}

}  // namespace

bool is_date(const std::string& text) {
  if (text.size() != 10 || text[4] != '-' || text[7] != '-') return false;
  std::string digits = text;
  digits.erase(7, 1).erase(4, 1);
  if (digits.find_first_not_of("0123456789") != std::string::npos) return false;
  const int number = static_cast<int>(nsa::parse_int(digits).value_or(0));
  return std::chrono::year_month_day(std::chrono::year(number / 10'000),
                                     std::chrono::month(unsigned(number / 100 % 100)),
                                     std::chrono::day(unsigned(number % 100)))
      .ok();
}

bool is_not_empty(const std::string& text) {
  return !text.empty();
}

std::optional<KnownFailure> read_known(const YamlNode& root,
                                       const Scenario& scenario,
                                       const ReadContext& context) {
  const YamlNode& node = *root.find("known");
  if (node.kind == YamlNode::Kind::null) return std::nullopt;
  if (context.options == nullptr) return of_case(node);
  const std::vector<Entry> entries = read_entries(node);
  if (!entries.empty() && !scenario.bisect.over.empty()) {
    throw Error(node.where, "known: found it beside bisect, wanted one of them");
  }
  const KnownPoint point(root, scenario);
  std::optional<KnownFailure> first;
  for (const Entry& entry : entries) {
    const auto failure = held(entry, point);
    if (!first && failure && !has_expired(*failure, context.options->today)) first = failure;
  }
  return first;
}

std::vector<std::string> expired_known(const YamlNode& root, const std::string& today) {
  std::vector<std::string> lines;
  const YamlNode* node = root.find("known");
  if (node == nullptr || node->kind == YamlNode::Kind::null) return lines;
  for (const Entry& entry : read_entries(*node)) {
    if (!has_expired(entry.failure, today)) continue;
    lines.push_back(entry.when->where.text() + ": known failure expired on " + entry.failure.until +
                    ", it counts again: " + entry.failure.because);
  }
  return lines;
}

}  // namespace harness
