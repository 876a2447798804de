// Sentences from patterns.
#include <algorithm>
#include <cctype>
#include <optional>

#include "harness/judge/wording/find_wording.h"
#include "nsa/base/text.h"

namespace harness {
namespace {

using nlohmann::json;

struct Slot {  // {Name:form} or {name?one|many}
  std::string name;
  std::string form;
  std::string one;
  std::string many;
  bool capital = false;
  bool chooses = false;
};

Slot slot_of(std::string_view text) {
  Slot slot;
  const std::size_t end = text.find_first_of(":?");
  slot.name = text.substr(0, end);
  slot.capital = !slot.name.empty() && std::isupper(static_cast<unsigned char>(slot.name[0])) != 0;
  if (slot.capital) {
    slot.name[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(slot.name[0])));
  }
  if (end == std::string_view::npos) return slot;
  const std::string_view rest = text.substr(end + 1);
  if (text[end] == ':') {
    slot.form = rest;
    return slot;
  }
  slot.chooses = true;
  const std::size_t bar = rest.find('|');
  slot.one = rest.substr(0, bar);
  slot.many = bar == std::string_view::npos ? "" : rest.substr(bar + 1);
  return slot;
}

const json* fact_named(const Finding& finding, const std::string& name) {
  const json* fact = finding.facts.find(name);
  return fact != nullptr ? fact : finding.site.detail.find(name);
}

std::optional<std::vector<int>> list_named(const Site& site, const std::string& name) {
  if (name == "ranks") return site.ranks;
  if (name == "layers") return site.layers;
  if (name == "heads") return site.heads;
  if (name == "rows") return site.rows;
  return std::nullopt;
}

// "step 3", "cmp": parts of the site that are no list. "" where the site does not say it.
std::string part_named(const Site& site, const std::string& name) {
  if (name == "branch") return site.branch;
  if (name == "param") return site.param;
  if (name == "op") return site.op;
  if (name == "when") return site.when();
  if (name == "step" && site.step) return "step " + std::to_string(*site.step);
  if (name == "bucket" && site.bucket) return "bucket " + std::to_string(*site.bucket);
  if (name == "sequence" && site.sequence) return std::to_string(*site.sequence);
  return "";
}

std::string number_text(double value, const std::string& form) {
  if (form == "%") return nsa::to_text(100.0 * value, 3) + " %";
  if (form == "MiB") return nsa::to_text(value / (1 << 20), 4) + " MiB";
  const auto digits = nsa::parse_int(form);
  return digits ? nsa::to_text(value, static_cast<int>(*digits)) : nsa::to_text(value);
}

std::string text_of(const json& value, const std::string& form);

// The rest of a list that was cut is counted in the fact NAME_more.
std::string list_text(const json& list) {
  std::vector<int> numbers;
  std::vector<std::string> words;
  for (const json& item : list) {
    if (item.is_number_integer()) numbers.push_back(item.get<int>());
    words.push_back(text_of(item, ""));
  }
  if (numbers.size() != list.size()) return nsa::join(words);
  std::sort(numbers.begin(), numbers.end());
  return nsa::ranges_text(numbers);
}

std::string text_of(const json& value, const std::string& form) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return number_text(value.get<double>(), form);
  if (value.is_number() && (form == "%" || form == "MiB")) {
    return number_text(value.get<double>(), form);
  }
  if (value.is_array()) return list_text(value);
  if (value.is_object()) {
    std::vector<std::string> parts;
    for (const auto& [key, item] : value.items()) parts.push_back(key + ": " + text_of(item, ""));
    return nsa::join(parts, "; ");
  }
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

bool is_noun(const std::string& form) {
  return !form.empty() && form != "%" && form != "MiB" && !nsa::parse_int(form);
}

bool is_one(const json& value) {
  return value.is_array() || value.is_object() ? value.size() == 1 : value == 1;
}

std::string plural_of(const std::string& noun) {
  return noun + (noun.ends_with("sh") || noun.ends_with("ch") || noun.ends_with("s") ? "es" : "s");
}

std::string capitalised(std::string text) {
  if (!text.empty()) {
    text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  }
  return text;
}

// Nothing where the finding does not know the name.
std::optional<std::string> value_of(const Slot& slot, const Finding& finding) {
  const json* fact = fact_named(finding, slot.name);
  const auto list = list_named(finding.site, slot.name);
  if (fact == nullptr && list && list->empty()) return std::nullopt;
  if (slot.chooses) {
    if (fact == nullptr && !list) return std::nullopt;
    const bool one = fact != nullptr ? is_one(*fact) : list->size() == 1;
    return one ? slot.one : slot.many;
  }
  if (fact == nullptr && list) {
    return numbers_text(slot.name.substr(0, slot.name.size() - 1), *list);
  }
  if (fact == nullptr) {
    const std::string part = part_named(finding.site, slot.name);
    return part.empty() ? std::nullopt : std::optional(part);
  }
  std::string text = text_of(*fact, slot.form);
  if (is_noun(slot.form)) text += " " + (is_one(*fact) ? slot.form : plural_of(slot.form));
  const json* more = fact_named(finding, slot.name + "_more");
  return more == nullptr ? text : text + " and " + text_of(*more, "") + " more";
}

class Renderer {
 public:
  Renderer(std::string_view pattern, const Finding& finding, std::vector<std::string>* missing)
      : pattern_(pattern), finding_(finding), missing_(missing) {}

  std::string text() {
    while (at_ < pattern_.size()) {
      if (pattern_[at_] == '[') {
        const std::size_t end = pattern_.find(']', at_);
        const std::string part = part_of(pattern_.substr(at_ + 1, end - at_ - 1));
        text_ += part;
        at_ = end + 1;
      } else {
        const std::size_t end = std::min(pattern_.find('[', at_), pattern_.size());
        text_ += filled(pattern_.substr(at_, end - at_), missing_, "unknown");
        at_ = end;
      }
    }
    return text_;
  }

 private:
  std::string part_of(std::string_view part) {
    std::vector<std::string> lacking;
    std::string text = filled(part, &lacking, "");
    return lacking.empty() ? text : "";
  }

  std::string filled(std::string_view part,
                     std::vector<std::string>* missing,
                     const std::string& instead) {
    std::string text;
    for (std::size_t at = 0; at < part.size();) {
      const std::size_t open = std::min(part.find('{', at), part.size());
      text += part.substr(at, open - at);
      if (open == part.size()) break;
      const std::size_t close = part.find('}', open);
      const Slot slot = slot_of(part.substr(open + 1, close - open - 1));
      const auto value = value_of(slot, finding_);
      if (!value && missing != nullptr) missing->push_back(slot.name);
      const std::string told = value.value_or(instead);
      text += slot.capital ? capitalised(told) : told;
      at = close + 1;
    }
    return text;
  }

  std::string_view pattern_;
  const Finding& finding_;
  std::vector<std::string>* missing_;
  std::size_t at_ = 0;
  std::string text_;
};

}  // namespace

std::string rendered(std::string_view pattern,
                     const Finding& finding,
                     std::vector<std::string>* missing) {
  return Renderer(pattern, finding, missing).text();
}

std::vector<std::string> names_in(std::string_view pattern) {
  std::vector<std::string> names;
  for (std::size_t at = pattern.find('{'); at < pattern.size(); at = pattern.find('{', at + 1)) {
    names.push_back(slot_of(pattern.substr(at + 1, pattern.find('}', at) - at - 1)).name);
  }
  return names;
}

std::vector<std::pair<std::string, std::string>> details_of(const Finding& finding) {
  std::vector<std::pair<std::string, std::string>> details;
  const Wording* words = find_wording(finding.code, finding.variant);
  if (words == nullptr) return details;
  std::string_view rest = words->details;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    const std::string name(rest.substr(0, end));
    const auto value = value_of(slot_of(name), finding);
    if (value) details.emplace_back(name, *value);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return details;
}

}  // namespace harness
