#include "harness/cli/machine/cards.h"

#include <algorithm>
#include <set>
#include <sstream>

#include "nsa/base/text.h"

namespace harness::cli {
namespace {

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  const std::size_t last = text.find_last_not_of(" \t\r");
  return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

std::vector<std::string> fields_of(const std::string& text) {
  std::vector<std::string> fields;
  std::istringstream stream(text);
  for (std::string field; std::getline(stream, field, ',');) fields.push_back(trimmed(field));
  return fields;
}

// "8.0" -> 80; 0 where it is no such number.
int capability_in(const std::string& field) {
  const std::size_t dot = field.find('.');
  if (dot == std::string::npos || dot > 2 || field.size() != dot + 2) return 0;
  const auto major = nsa::parse_int(field.substr(0, dot));
  const auto minor = nsa::parse_int(field.substr(dot + 1));
  return major && minor && *major > 0 ? static_cast<int>(10 * *major + *minor) : 0;
}

// "(UUID: GPU-...)" at the end of a line.
std::string id_in(const std::string& line) {
  const std::string key = "(UUID: ";
  const std::size_t start = line.find(key);
  if (start == std::string::npos) return "";
  const std::size_t from = start + key.size();
  return line.substr(from, line.find(')', from) - from);
}

// Of a profile, "3g.20gb". nvidia-smi tells the memory of an instance nowhere in a form to be read; these are decimal
// gigabytes, a little less than what the instance has.
std::int64_t memory_mib_of(const std::string& profile) {
  const std::size_t dot = profile.find('.');
  const std::size_t unit = profile.find("gb", dot == std::string::npos ? 0 : dot);
  if (dot == std::string::npos || unit == std::string::npos) return 0;
  const auto gigabytes = nsa::parse_int(profile.substr(dot + 1, unit - dot - 1));
  constexpr double kMibPerGigabyte = 1e9 / (1024.0 * 1024.0);
  return static_cast<std::int64_t>(static_cast<double>(gigabytes.value_or(0)) * kMibPerGigabyte);
}

// "  MIG 3g.20gb     Device  0: (UUID: MIG-...)", below the line of its card.
void read_instances(const std::string& list, std::vector<Card>& cards) {
  Card* card = nullptr;
  std::istringstream stream(list);
  for (std::string line; std::getline(stream, line);) {
    const std::string text = trimmed(line);
    const std::string id = id_in(text);
    if (text.starts_with("GPU ")) {
      const auto at = std::find_if(
          cards.begin(), cards.end(), [&](const Card& one) { return one.whole.id == id; });
      card = at == cards.end() ? nullptr : &*at;
    } else if (text.starts_with("MIG ") && card != nullptr && !id.empty()) {
      const std::string profile = text.substr(4, text.find(' ', 4) - 4);
      card->instances.push_back({card->whole.name + " MIG " + profile,
                                 memory_mib_of(profile),
                                 id,
                                 card->whole.capability});
    }
  }
}

// What the card is to a process that names no instance; nothing: it is divided, and no instance was made.
std::optional<Gpu> shown_of(const Card& card) {
  if (!card.divided) return card.whole;
  if (card.instances.empty()) return std::nullopt;
  return card.instances.front();
}

// The one that begins so; nothing: none, or several.
std::optional<Gpu> with_id(const std::vector<Card>& cards, const std::string& beginning) {
  std::vector<Gpu> found;
  for (const Card& card : cards) {
    if (card.whole.id.starts_with(beginning)) {
      if (const auto gpu = shown_of(card)) found.push_back(*gpu);
    }
    for (const Gpu& instance : card.instances) {
      if (instance.id.starts_with(beginning)) found.push_back(instance);
    }
  }
  return found.size() == 1 ? std::optional(found.front()) : std::nullopt;
}

std::optional<Gpu> named(const std::vector<Card>& cards, const std::string& name) {
  if (const auto number = nsa::parse_int(name)) {
    const bool known = *number >= 0 && *number < static_cast<std::int64_t>(cards.size());
    return known ? shown_of(cards[static_cast<std::size_t>(*number)]) : std::nullopt;
  }
  const bool is_id = name.starts_with("GPU-") || name.starts_with("MIG-");
  return is_id ? with_id(cards, name) : std::nullopt;
}

}  // namespace

std::vector<std::vector<std::string>> csv_rows(const std::string& text) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) rows.push_back(fields_of(line));
  return rows;
}

Cards read_cards(const std::string& query, const std::string& list) {
  Cards read;
  for (const std::vector<std::string>& fields : csv_rows(query)) {
    if (fields.size() != kCardFields.size()) continue;
    Card card;
    card.whole = {
        fields[0], nsa::parse_int(fields[1]).value_or(0), fields[3], capability_in(fields[5])};
    card.divided = fields[4] == "Enabled";
    read.cards.push_back(std::move(card));
    read.driver = fields[2];
  }
  read_instances(list, read.cards);
  return read;
}

std::vector<Gpu> visible_cards(const std::vector<Card>& cards,
                               const std::optional<std::string>& visible) {
  std::vector<std::optional<Gpu>> wanted;
  if (visible) {
    for (const std::string& name : fields_of(*visible)) wanted.push_back(named(cards, name));
  } else {
    for (const Card& card : cards) {
      if (const auto gpu = shown_of(card)) wanted.push_back(gpu);
    }
  }
  std::vector<Gpu> shown;
  std::set<std::string> seen;
  for (const auto& gpu : wanted) {
    if (!gpu || !seen.insert(gpu->id).second) break;
    const bool instance = gpu->id.starts_with("MIG-");
    if (instance && !shown.empty()) continue;  // beside whole cards it is not shown
    shown.push_back(*gpu);
    if (instance) break;
  }
  return shown;
}

}  // namespace harness::cli
