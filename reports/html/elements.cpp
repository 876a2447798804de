#include "reports/html/elements.h"

#include <algorithm>
#include <cctype>

#include "reports/html/diagrams.h"
#include "reports/html/markup.h"

namespace reports::html {
namespace {

std::string lettered(const std::string& words) {
  constexpr std::size_t kLongest = 60;
  std::string id;
  for (const char c : words) {
    const auto byte = static_cast<unsigned char>(c);
    if (id.size() == kLongest) break;
    if (byte < 0x80 && std::isalnum(byte) != 0) {
      id += static_cast<char>(std::tolower(byte));
    } else if (!id.empty() && id.back() != '-') {
      id += '-';
    }
  }
  return id;
}

bool is_number(const std::string& cell) {
  constexpr std::string_view kMay = "0123456789.,+-eE–% ";
  const bool begins = !cell.empty() && (std::isdigit(static_cast<unsigned char>(cell[0])) != 0 ||
                                        cell[0] == '-' || cell[0] == '+');
  return begins && cell.find_first_not_of(kMay) == std::string::npos;
}

// Columns of numbers, named once for the whole table: "c2 c3". A dash stands where there is none.
std::string number_columns(const Block& table) {
  constexpr std::size_t kMostColumns = 12;  // that the style knows
  std::string names;
  for (std::size_t column = 0; column < std::min(table.rows.front().size(), kMostColumns);
       ++column) {
    std::size_t numbers = 0;
    const bool all = std::all_of(table.rows.begin() + 1, table.rows.end(), [&](const auto& row) {
      const std::string words = plain(row[column]);
      numbers += is_number(words) ? 1 : 0;
      return words.empty() || words == "–" || is_number(words);
    });
    if (!all || numbers == 0) continue;
    names += (names.empty() ? "c" : " c") + std::to_string(column + 1);
  }
  return names;
}

bool is_nameless(const std::vector<Spans>& header) {
  return std::all_of(
      header.begin(), header.end(), [](const Spans& cell) { return plain(cell).empty(); });
}

// Wide tables scroll inside of themselves, by keys as well.
std::string scrolling(const std::string& table) {
  return "<div class=\"wide\" tabindex=\"0\">" + table + "</div>\n";
}

std::string table_of(const Block& block) {
  if (is_nameless(block.rows.front()) && block.rows.front().size() == 2) {
    Block named = block;
    named.rows.erase(named.rows.begin());
    return facts(named);
  }
  std::string head;
  for (const Spans& cell : block.rows.front()) {
    head += "<th scope=\"col\">" + spans(cell) + "</th>";
  }
  std::string body;
  for (std::size_t i = 1; i < block.rows.size(); ++i) {
    body += "<tr>";
    for (const Spans& cell : block.rows[i]) body += "<td>" + spans(cell) + "</td>";
    body += "</tr>\n";
  }
  const std::string columns = number_columns(block);
  return scrolling((columns.empty() ? "<table>" : "<table class=\"" + columns + "\">") +
                   "<thead><tr>" + head + "</tr></thead><tbody>\n" + body + "</tbody></table>");
}

std::string heading_of(const Block& block, const std::string& section, Anchors& anchors) {
  const std::string level = std::to_string(std::clamp(block.level, 1, 4));
  return "<h" + level + " id=\"" + anchors.add(section, plain(block.text)) + "\">" +
         spans(block.text) + "</h" + level + ">\n";
}

std::string code_of(const Block& block) {
  if (block.language == "mermaid") return diagram(block.code);
  return "<pre tabindex=\"0\"><code>" + text(block.code) + "</code></pre>\n";
}

std::string list_of(const Block& block, const std::string& section, Anchors& anchors) {
  const std::string name = block.kind == Block::Kind::bullets ? "ul" : "ol";
  std::string body;
  for (const auto& item : block.items) {
    const bool short_one = !item.empty() && item.front().kind == Block::Kind::paragraph;
    body += "<li>";
    if (short_one) body += spans(item.front().text);
    body += elements(
        std::vector<Block>(item.begin() + (short_one ? 1 : 0), item.end()), section, anchors);
    body += "</li>\n";
  }
  return "<" + name + ">\n" + body + "</" + name + ">\n";
}

}  // namespace

std::string Anchors::add(const std::string& section, const std::string& words) {
  const std::string base = lettered(section + " " + words);
  std::string id = base.empty() ? "part" : base;
  for (int i = 2; !taken_.insert(id).second; ++i) id = base + "-" + std::to_string(i);
  ids_.try_emplace({section, words}, id);
  return id;
}

std::string Anchors::find(const std::string& section, const std::string& words) const {
  const auto at = ids_.find({section, words});
  return at == ids_.end() ? "" : at->second;
}

std::string facts(const Block& table) {
  std::string body;
  for (const auto& row : table.rows) {
    body += "<tr><th scope=\"row\">" + spans(row.front()) + "</th>";
    for (std::size_t i = 1; i < row.size(); ++i) body += "<td>" + spans(row[i]) + "</td>";
    body += "</tr>\n";
  }
  return scrolling("<table class=\"facts\"><tbody>\n" + body + "</tbody></table>");
}

std::string elements(const std::vector<Block>& blocks,
                     const std::string& section,
                     Anchors& anchors) {
  std::string out;
  for (const Block& block : blocks) {
    switch (block.kind) {
      case Block::Kind::heading: out += heading_of(block, section, anchors); break;
      case Block::Kind::paragraph: out += "<p>" + spans(block.text) + "</p>\n"; break;
      case Block::Kind::table: out += table_of(block); break;
      case Block::Kind::bullets:
      case Block::Kind::numbers: out += list_of(block, section, anchors); break;
      case Block::Kind::code: out += code_of(block); break;
      case Block::Kind::folded:
        out += folded(spans(block.text), elements(block.items.at(0), section, anchors));
        break;
    }
  }
  return out;
}

}  // namespace reports::html
