// The tables of codes and sentences, from the files of the parts of a run: make_tables OUT FILE...
// A file has named texts, and codes with their variants. $name in a text stands for the text of that name. What is wrong with a
// row is said with file and line, and nothing is written.
#include <algorithm>
#include <array>
#include <iostream>
#include <map>
#include <tuple>

#include "harness/judge/codes/codes.h"
#include "harness/scenario/facts.h"
#include "nsa/base/fields_read.h"
#include "nsa/base/new_file.h"

namespace {

using nsa::Error;
using nsa::Field;
using nsa::YamlNode;

// Parts of a finding's place that sentences name (harness/scenario/site.h).
constexpr std::array<std::string_view, 11> kPlaces = {"ranks",
                                                      "layers",
                                                      "heads",
                                                      "rows",
                                                      "branch",
                                                      "param",
                                                      "op",
                                                      "when",
                                                      "step",
                                                      "sequence",
                                                      "bucket"};
constexpr std::string_view kNameBytes = "abcdefghijklmnopqrstuvwxyz_0123456789";

struct Variant {
  std::string name;
  std::optional<harness::Node> node;
  std::optional<harness::Witness> known_from;
  std::string statement;
  std::string ruled_out;
  std::string next_action;
  std::string details;
};

struct Row {
  std::string name;
  harness::Family family{};
  int place = 0;
  harness::Outcome outcome = harness::Outcome::fail;
  harness::Node node{};
  harness::Witness known_from{};
  std::string meaning;
  std::string confirmed_by;
  std::string next_action;
  std::string witness;
  std::vector<Variant> variants;
};

constexpr nsa::Accepts kSomeText =
    nsa::text_that([](const std::string& text) { return !text.empty(); }, "a text");
constexpr nsa::Shape kRequired = {.required = true};

constexpr std::tuple kVariantRows = {
    Field{"node", &Variant::node, "where it speaks, if not where its code does"},
    Field{"known_from", &Variant::known_from, "how it knows, if not as its code does"},
    Field{"statement", &Variant::statement, "what happened", kSomeText, kRequired},
    Field{"ruled_out", &Variant::ruled_out, "what it is not", kSomeText},
    Field{"next_action", &Variant::next_action, "in the place of the code's", kSomeText},
    Field{"details", &Variant::details, "facts that are listed", kSomeText}};

constexpr std::tuple kCodeRows = {
    Field{"family", &Row::family, "the part of a run", {}, kRequired},
    Field{"place", &Row::place, "in the order of causes", {}, kRequired},
    Field{"outcome", &Row::outcome, "of a case that begins with it"},
    Field{"node", &Row::node, "where in a step it speaks", {}, kRequired},
    Field{"known_from", &Row::known_from, "how it knows", {}, kRequired},
    Field{"meaning", &Row::meaning, "what it means", kSomeText, kRequired},
    Field{"confirmed_by", &Row::confirmed_by, "what confirms it", kSomeText, kRequired},
    Field{"next_action", &Row::next_action, "what to do about it", kSomeText, kRequired},
    Field{"witness", &Row::witness, "who attests it", kSomeText, kRequired}};

[[noreturn]] void throw_at(const YamlNode& node, const std::string& what, const std::string& text) {
  throw Error(node.where, what + ": " + text);
}

// Of a map, or of nothing. Throws: Error.
const std::vector<nsa::YamlEntry>& entries_of(const YamlNode& node, const std::string& what) {
  [[maybe_unused]] const nsa::YamlMap map(node, what);  // refuses what is no map
  return node.entries;
}

// The texts of one file, by name, and which of them it uses.
class Texts {
 public:
  Texts(const YamlNode* texts, const std::string& path) {
    if (texts == nullptr) return;
    for (const auto& [name, node] : entries_of(*texts, path)) {
      const std::string what = path + "." + name;
      texts_[name] = {filled(nsa::read_accepted(node, what, kSomeText), node, what), &node};
    }
  }

  // With the texts in the place of their names.
  std::string filled(std::string_view text, const YamlNode& node, const std::string& what) {
    std::string all;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t sign = std::min(text.find('$', at), text.size());
      all += text.substr(at, sign - at);
      if (sign == text.size()) break;
      at = std::min(text.find_first_not_of(kNameBytes, sign + 1), text.size());
      const std::string name(text.substr(sign + 1, at - sign - 1));
      const auto known = texts_.find(name);
      if (known == texts_.end()) {
        throw_at(node, what, "found $" + name + ", wanted the name of a text above it");
      }
      known->second.used = true;
      all += known->second.text;
    }
    return all;
  }

  void refuse_unused(const std::string& path) const {
    for (const auto& [name, text] : texts_) {
      if (!text.used) throw_at(*text.node, path + "." + name, "found no use of it, wanted one");
    }
  }

 private:
  struct Text {
    std::string text;
    const YamlNode* node = nullptr;
    bool used = false;
  };
  std::map<std::string, Text> texts_;
};

// A slot without its braces: name, name:form or name?one|many.
void check_slot(std::string_view slot, const YamlNode& node, const std::string& what) {
  const std::size_t end = std::min(slot.find_first_of(":?"), slot.size());
  std::string name(slot.substr(0, end));
  if (!name.empty() && name[0] >= 'A' && name[0] <= 'Z') name.erase(0, 1);
  const bool named = end > 0 && name.find_first_not_of(kNameBytes) == std::string::npos;
  const bool chooses = end < slot.size() && slot[end] == '?';
  if (!named || end + 1 == slot.size() ||
      (chooses && slot.find('|', end) == std::string_view::npos)) {
    throw_at(node,
             what,
             "found the slot {" + std::string(slot) +
                 "}, wanted {name}, {name:form} or "
                 "{name?one|many}");
  }
  std::string fact(slot.substr(0, end));
  if (fact[0] >= 'A' && fact[0] <= 'Z') fact[0] = static_cast<char>(fact[0] - 'A' + 'a');
  const bool place = std::find(kPlaces.begin(), kPlaces.end(), fact) != kPlaces.end();
  if (!place && !harness::is_fact(fact.c_str())) {
    throw_at(node,
             what,
             "found the slot {" + std::string(slot) +
                 "}, wanted a part of the place or a fact of harness/scenario/facts.h");
  }
}

// The grammar of harness/judge/wording/find_wording.h: neither brackets nor braces stand in their own kind.
void check_pattern(std::string_view text, const YamlNode& node, const std::string& what) {
  bool bracket = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    const std::size_t end = std::min(text.find_first_of("{}[]", at + 1), text.size());
    const bool opens_slot = c == '{' && end < text.size() && text[end] == '}';
    if ((c == '{' && !opens_slot) || c == '}' || (c == '[' && bracket) || (c == ']' && !bracket)) {
      throw_at(node,
               what,
               "found " + std::string(1, c) + " without its other half before \"" +
                   std::string(text.substr(at + 1, 20)) + "\", wanted pairs");
    }
    if (c == '[' || c == ']') bracket = c == '[';
    if (!opens_slot) continue;
    check_slot(text.substr(at + 1, end - at - 1), node, what);
    at = end;
  }
  if (bracket) throw_at(node, what, "found [ without ], wanted pairs");
}

// Fills every text below the node, and checks it as a pattern.
void fill(YamlNode& node, const std::string& what, Texts& texts) {
  if (node.kind == YamlNode::Kind::scalar) {
    node.scalar = texts.filled(node.scalar, node, what);
    check_pattern(node.scalar, node, what);
  }
  for (auto& [key, value] : node.entries) fill(value, what + "." + key, texts);
}

Row row_of(const std::string& name, const YamlNode& node, const std::string& path) {
  Row row;
  row.name = name;
  nsa::YamlMap map(node, path);
  nsa::read_fields(kCodeRows, map, row);
  if (const YamlNode* variants = map.get("variants")) {
    for (const auto& [key, value] : entries_of(*variants, map.name("variants"))) {
      row.variants.emplace_back().name = key;
      nsa::read_map(kVariantRows, value, map.name("variants") + "." + key, row.variants.back());
    }
  }
  map.finish();
  return row;
}

class Table {
 public:
  void read(const std::string& file) {
    YamlNode root = nsa::load_yaml(file);
    nsa::YamlMap map(root, "");
    Texts texts(map.get("texts"), "texts");
    YamlNode none;
    YamlNode& codes = map.get("codes") == nullptr ? none : *root.find("codes");
    fill(codes, "codes", texts);
    for (const auto& [name, node] : entries_of(codes, "codes")) {
      add(row_of(name, node, "codes." + name), node);
    }
    map.finish();
    texts.refuse_unused("texts");
    if (codes.entries.empty()) throw Error(root.where, "found no codes, wanted some");
  }

  // By family and place.
  std::vector<Row> rows() && {
    std::sort(rows_.begin(), rows_.end(), [](const Row& a, const Row& b) {
      return std::tuple(a.family, a.place) < std::tuple(b.family, b.place);
    });
    return std::move(rows_);
  }

 private:
  void add(Row row, const YamlNode& node) {
    once(row.name, node, "the code " + row.name);
    once(std::to_string(row.place), node, "the place of " + row.name);
    rows_.push_back(std::move(row));
  }

  void once(const std::string& key, const YamlNode& node, const std::string& what) {
    const auto [at, is_new] = places_.emplace(key, node.where);
    if (!is_new) throw_at(node, what, "found it at " + at->second.text() + " too, wanted it once");
  }

  std::vector<Row> rows_;
  std::map<std::string, nsa::Location> places_;  // of each code, and of each place in the order
};

std::string literal_of(std::string_view text) {
  std::string literal = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') literal += '\\';
    literal += c;
  }
  return literal + "\"";
}

template <nsa::Named Enum>
std::string enumerator(const char* type, Enum value) {
  std::string name = nsa::name_of(value);
  for (char& c : name) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return std::string(type) + "::" + name;
}

std::string source_of(const std::vector<Row>& rows) {
  std::string codes;
  std::string words;
  const auto add = [](std::string& to, const char* type, const std::vector<std::string>& values) {
    to += std::string("    ") + type + "{" + nsa::join(values) + "},\n";
  };
  for (const Row& row : rows) {
    add(codes,
        "Code",
        {literal_of(row.name),
         enumerator("Family", row.family),
         std::to_string(row.place),
         enumerator("Outcome", row.outcome),
         enumerator("Node", row.node),
         enumerator("Witness", row.known_from),
         literal_of(row.meaning),
         literal_of(row.confirmed_by),
         literal_of(row.next_action),
         literal_of(row.witness)});
    for (const Variant& variant : row.variants) {
      add(words,
          "Wording",
          {literal_of(row.name),
           literal_of(variant.name),
           literal_of(variant.statement),
           literal_of(variant.ruled_out),
           literal_of(variant.next_action),
           literal_of(variant.details),
           enumerator("Node", variant.node.value_or(row.node)),
           enumerator("Witness", variant.known_from.value_or(row.known_from))});
    }
  }
  return "// Written by make_tables from harness/judge/codes/*.yaml.\n"
         "#include \"harness/judge/wording/find_wording.h\"\n\n"
         "namespace harness {\n\n"
         "std::span<const Code> all_codes() {\n"
         "  static constexpr std::array kCodes = {\n" +
         codes +
         "  };\n  return kCodes;\n}\n\n"
         "std::span<const Wording> all_wordings() {\n"
         "  static constexpr std::array kWordings = {\n" +
         words +
         "  };\n  return kWordings;\n}\n\n"
         "}  // namespace harness\n";
}

}  // namespace

int main(int count, char** arguments) {
  try {
    if (count < 3) throw Error("make_tables: wanted OUT FILE...");
    Table table;
    for (int i = 2; i < count; ++i) table.read(arguments[i]);
    nsa::NewFile file(arguments[1]);
    file.write(source_of(std::move(table).rows()));
    file.keep(false);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
