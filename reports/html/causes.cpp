#include <algorithm>

#include "reports/html/markup.h"
#include "reports/html/parts.h"
#include "reports/sections/failures.h"

namespace reports::html {
namespace {

constexpr std::size_t kMostCases = 8;  // named with a link; the tables have all
constexpr std::size_t kMostOpen = 10;  // commands that are shown at once

struct Place {  // where a section says more of a case
  const char* link;
  const char* section;
  std::string heading;
};

std::vector<Place> places_of(const ReportView& view, const CaseView& one) {
  const std::string name = plain(spans_of(case_name(view, one)));
  return {{"what was found", "Critical findings", name + ": " + harness::name_of(one.outcome())},
          {"root cause", "Root cause", name},
          {"checks", "Results", "Checks of " + name},
          {"evidence", "Evidence", name},
          {"configuration", "Configuration", name}};
}

std::string places_items(const ReportView& view, const CaseView& one, const Anchors& anchors) {
  std::string links;
  for (const Place& place : places_of(view, one)) {
    const std::string id = anchors.find(place.section, place.heading);
    if (!id.empty()) links += "<li>" + link(id, place.link) + "</li>";
  }
  return links;
}

std::string linked(const std::string& items) {
  return items.empty() ? "" : "<ul class=\"links\">" + items + "</ul>\n";
}

std::string cases_items(const Failure& failure) {
  std::string links;
  for (std::size_t i = 0; i < std::min(failure.cases.size(), kMostCases); ++i) {
    const CaseView& one = *failure.cases[i];
    links += "<li>" + link(case_id(one), "case " + one.record.label) + "</li>";
  }
  if (failure.cases.size() > kMostCases) {
    links +=
        "<li>" +
        link("cases", "and " + std::to_string(failure.cases.size() - kMostCases) + " more cases") +
        "</li>";
  }
  return links;
}

std::string of_failure(const ReportView& view,
                       const Failure& failure,
                       std::size_t index,
                       const Anchors& anchors) {
  std::string out = "<li class=\"cause\" id=\"cause_" + std::to_string(index + 1) + "\"><p>" +
                    word(harness::name_of(failure.outcome)) + " " + spans(spans_of(failure.what)) +
                    "</p>\n";
  if (!failure.next.empty()) {
    out += "<p class=\"next\"><strong>Next:</strong> " + spans(spans_of(failure.next)) + "</p>\n";
  }
  if (!failure.cases.empty()) {
    out += linked(cases_items(failure) + places_items(view, *failure.cases.front(), anchors));
  }
  const std::string command =
      failure.command.empty()
          ? ""
          : "<pre tabindex=\"0\"><code>" + text(failure.command) + "</code></pre>\n";
  out += index < kMostOpen ? command : folded("Run it again", command);
  return out + "</li>\n";
}

}  // namespace

std::string case_links(const ReportView& view, const CaseView& one, const Anchors& anchors) {
  return linked(places_items(view, one, anchors));
}

std::string causes(const ReportView& view, const Anchors& anchors) {
  const std::vector<Failure> all = failures(view);
  std::string items;
  for (std::size_t i = 0; i < all.size(); ++i) items += of_failure(view, all[i], i, anchors);
  return items.empty() ? "" : "<ol class=\"causes\">\n" + items + "</ol>\n";
}

}  // namespace reports::html
