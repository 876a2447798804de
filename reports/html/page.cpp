#include "reports/html/page.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "reports/html/markup.h"
#include "reports/html/style.h"
#include "reports/sections/list.h"

namespace reports::html {
namespace {

struct Chapter {
  std::string id;
  std::string title;  // "" where the body has its own
  std::string body;
  std::string menu;  // its word there, "" where it is not in it
};

std::string html_of(const Chapter& chapter) {
  if (chapter.body.empty()) return "";
  const std::string title = chapter.title.empty() ? "" : "<h2>" + text(chapter.title) + "</h2>\n";
  return "<section id=\"" + chapter.id + "\">" + title + chapter.body + "</section>\n";
}

// A short word for the sections that are looked for; "" of the others, which stand below them.
std::string menu_word(const std::string& title) {
  constexpr std::array<std::pair<std::string_view, const char*>, 8> kWords = {
      {{"Alarms", "Alarms"},
       {"Comparison with the previous night", "Last night"},
       {"What changed", "Changes"},
       {"Self-test", "Self-test"},
       {"Critical findings", "Findings"},
       {"Configuration", "Configuration"},
       {"Evidence", "Evidence"},
       {"Reproduce", "Reproduce"}}};
  for (const auto& [known, word] : kWords) {
    if (known == title) return word;
  }
  return "";
}

// Headings of a section belong to its title; where a section has none, to the one that says what it is here.
Chapter chapter_of(const Section& section, const ReportView& view, Anchors& anchors) {
  const std::string title = section.title;
  Chapter chapter;
  chapter.title = title;
  chapter.body = elements(blocks_of(section.body(view)), title, anchors);
  chapter.menu = menu_word(title);
  if (!chapter.body.empty()) chapter.id = anchors.add("", title);
  return chapter;
}

// The decision and what the report is about. The header of the section's first table is its first row.
std::string head_of(const ReportView& view, Anchors& anchors) {
  std::string out;
  bool first = true;
  for (const Block& block : blocks_of(section::head().body(view))) {
    if (block.kind == Block::Kind::heading && block.level == 1) {
      const std::string why = plain(block.text);
      const std::size_t rest = std::min(why.find(view.decision) + view.decision.size(), why.size());
      out += "<h1>" + word(view.decision) + text(why.substr(rest)) + "</h1>\n";
    } else if (block.kind == Block::Kind::table && first) {
      out += facts(block);
      first = false;
    } else {
      out += elements({block}, "", anchors);
    }
  }
  return out;
}

// The first screen without its list of failures, which has links here.
std::string rest_of_summary(const ReportView& view, Anchors& anchors) {
  std::vector<Block> blocks = blocks_of(section::summary().body(view));
  const bool failed = !blocks.empty() && blocks.front().kind == Block::Kind::heading &&
                      blocks.size() > 1 && blocks[1].kind == Block::Kind::numbers;
  if (failed) blocks.erase(blocks.begin(), blocks.begin() + 2);
  return elements(blocks, "", anchors);
}

bool is_told_on_top(const Section& section) {
  const std::string title = section.title;
  return title.empty() || title == section::alarms().title ||
         title == section::previous_night().title || title == section::changes().title ||
         title == section::selftest().title || title == section::supersedes().title;
}

std::string menu(const std::vector<Chapter>& chapters) {
  std::string links;
  for (const Chapter& chapter : chapters) {
    if (!chapter.menu.empty() && !chapter.body.empty())
      links += link(chapter.id, chapter.menu) + "\n";
  }
  return "<nav aria-label=\"Parts of the report\"><div>" + links + "</div></nav>\n";
}

// Only a script can search: without one it does not show.
std::string search() {
  return "<input id=\"find\" type=\"search\" placeholder=\"find a case\" "
         "aria-label=\"Find a case\" hidden>\n";
}

std::string document(const std::string& title, const std::string& body) {
  return "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
         "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
         "style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action "
         "'none'\">\n"
         "<meta name=\"referrer\" content=\"no-referrer\">\n<title>" +
         text(title) + "</title>\n<style>" + style() + "</style></head>\n<body>\n" + body +
         "<script>" + script() + "</script>\n</body></html>\n";
}

}  // namespace

std::string page(const ReportView& view, const std::vector<Curve>& timed) {
  Anchors anchors;
  for (const char* own : {"top", "failed", "cases", "case", "curves", "costs", "limits", "find"}) {
    anchors.add("", own);
  }
  std::vector<Chapter> below;
  for (const Section& section : sections()) {
    if (!is_told_on_top(section)) below.push_back(chapter_of(section, view, anchors));
  }
  std::vector<Chapter> chapters;
  chapters.push_back({"top", "", head_of(view, anchors), ""});
  chapters.push_back(chapter_of(section::alarms(), view, anchors));
  chapters.push_back({"failed", "What failed", causes(view, anchors), "Failed"});
  chapters.push_back({anchors.add("", "summary"), "", rest_of_summary(view, anchors), ""});
  for (const Section& section : {section::previous_night(),
                                 section::changes(),
                                 section::selftest(),
                                 section::supersedes()}) {
    chapters.push_back(chapter_of(section, view, anchors));
  }
  chapters.push_back(
      {"cases", "Cases", view.cases.empty() ? "" : search() + case_tables(view), "Cases"});
  chapters.push_back(
      {"case", "Case by case: what failed", failed_in_full(view, anchors), "Case by case"});
  chapters.push_back({"curves", "Times over the nights", curves(timed), "Nights"});
  chapters.push_back({"costs", "Time and memory", costs(view), "Time and memory"});
  chapters.push_back({"limits", "Limits", nearest_to_limits(view), "Limits"});
  for (Chapter& chapter : below) chapters.push_back(std::move(chapter));
  std::string body = menu(chapters) + "<main>\n";
  for (const Chapter& chapter : chapters) body += html_of(chapter);
  return document(view.decision + ": " + plain(spans_of(why(view))), body + "</main>\n");
}

}  // namespace reports::html
