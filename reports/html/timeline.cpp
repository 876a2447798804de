#include <algorithm>

#include "nsa/base/text.h"
#include "reports/html/charts.h"
#include "reports/html/markup.h"
#include "reports/html/parts.h"

namespace reports::html {
namespace {

constexpr double kWide = 1000.0;
constexpr std::size_t kMostDrawn =
    400;                               // stretches of a lane, of several hundred steps the longest
constexpr std::size_t kMostRows = 60;  // of the table of a lane

std::string at_text(std::int64_t ms) {
  return nsa::to_text(static_cast<double>(ms) / 1000.0, 4) + " s";
}

std::string what_of(const Stretch& one) {
  std::string what = one.name;
  if (one.number >= 0) {
    what += " " + std::to_string(one.number) + (one.group.empty() ? "" : " of " + one.group) +
            ", " + std::to_string(one.elements) + " elements";
  }
  if (one.step > 0) what += ", step " + std::to_string(one.step);
  return what;
}

std::string when_of(const Stretch& one) {
  return "from " + at_text(one.from_ms) +
         (one.open ? ", never ended" : " to " + at_text(one.to_ms));
}

// The longest, in the order of time.
std::vector<Stretch> drawn_of(const std::vector<Stretch>& all) {
  std::vector<Stretch> drawn = all;
  const auto length = [](const Stretch& one) { return one.to_ms - one.from_ms; };
  std::stable_sort(drawn.begin(), drawn.end(), [&](const Stretch& a, const Stretch& b) {
    return a.open != b.open ? a.open : length(a) > length(b);
  });
  if (drawn.size() > kMostDrawn) drawn.resize(kMostDrawn);
  std::stable_sort(drawn.begin(), drawn.end(), [](const Stretch& a, const Stretch& b) {
    return a.from_ms < b.from_ms;
  });
  return drawn;
}

class Drawing {
 public:
  explicit Drawing(std::int64_t end_ms)
      : scale_(kWide / static_cast<double>(std::max<std::int64_t>(end_ms, 1))) {}

  // Never thinner than can be seen.
  void stretch(const Stretch& one, const std::string& style, double top, double high) {
    const double wide = std::max(1.0, scale_ * static_cast<double>(one.to_ms - one.from_ms));
    out_ += "<rect class=\"" + style + "\" x=\"" + at(one.from_ms) + "\" y=\"" + number(top) +
            "\" width=\"" + number(wide) + "\" height=\"" + number(high) + "\"><title>" +
            text(what_of(one) + ", " + when_of(one)) + "</title></rect>";
  }
  void moment(const Moment& one) {
    out_ += "<path class=\"moment\" d=\"M" + at(one.at_ms) + " 0V24\"><title>" +
            text(one.what + " at " + at_text(one.at_ms)) + "</title></path>";
  }
  [[nodiscard]] std::string svg(const std::string& label) const {
    return "<svg class=\"lane\" viewBox=\"0 0 1000 24\" preserveAspectRatio=\"none\" role=\"img\" "
           "aria-label=\"" +
           text(label) + "\">" + out_ + "</svg>";
  }

 private:
  [[nodiscard]] std::string at(std::int64_t ms) const {
    return number(scale_ * static_cast<double>(ms));
  }
  double scale_;
  std::string out_;
};

// Words for what the drawing shows: where it ended, and what never did.
std::string words_of(const Lane& lane) {
  std::vector<std::string> words;
  if (!lane.phases.empty()) {
    const Stretch& last = lane.phases.back();
    words.push_back((last.open ? "never left " : "last: ") + last.name +
                    (last.step > 0 ? ", step " + std::to_string(last.step) : ""));
  }
  for (const Stretch& one : lane.collectives) {
    if (one.open) words.push_back("waits in " + what_of(one));
    constexpr std::size_t kMostWords = 4;
    if (words.size() == kMostWords) break;
  }
  for (const Moment& one : lane.moments) words.push_back(one.what + " at " + at_text(one.at_ms));
  return nsa::join(words, "; ");
}

std::string lane_of(const Lane& lane, const Timeline& all, std::vector<std::string>& phases) {
  Drawing drawing(all.end_ms);
  for (const Stretch& one : drawn_of(lane.phases)) {
    drawing.stretch(one, phase_style(one.name), 0.0, 14.0);
    if (std::find(phases.begin(), phases.end(), one.name) == phases.end()) {
      phases.push_back(one.name);
    }
  }
  for (const Stretch& one : drawn_of(lane.collectives)) {
    drawing.stretch(one, one.open ? "waits" : "collective", 16.0, 8.0);
  }
  for (const Moment& one : lane.moments) drawing.moment(one);
  const std::string name = harness::process_name(lane.process);
  const std::string words = words_of(lane);
  return "<li><span class=\"name\">" + text(name) + "</span>" + drawing.svg(name + ": " + words) +
         "<span class=\"words\">" + text(words) + "</span></li>\n";
}

std::string standstill_lane(const Timeline& timeline) {
  if (timeline.standstills.empty() && timeline.moments.empty()) return "";
  Drawing drawing(timeline.end_ms);
  std::vector<std::string> words;
  for (const Stretch& one : timeline.standstills) {
    drawing.stretch(one, "still", 0.0, 24.0);
    words.push_back("nothing moved " + when_of(one));
  }
  for (const Moment& one : timeline.moments) {
    drawing.moment(one);
    words.push_back(one.what + " at " + at_text(one.at_ms));
  }
  return "<li><span class=\"name\">all</span>" + drawing.svg(nsa::join(words, "; ")) +
         "<span class=\"words\">" + text(nsa::join(words, "; ")) + "</span></li>\n";
}

std::string legend_of(const std::vector<std::string>& phases) {
  const auto key = [](const std::string& style, const std::string& name) {
    return "<li><svg class=\"key\" viewBox=\"0 0 24 8\" aria-hidden=\"true\"><rect class=\"" +
           style + "\" width=\"24\" height=\"8\"/></svg>" + text(name) + "</li>";
  };
  std::string items;
  for (const std::string& phase : phases) items += key(phase_style(phase), phase);
  items += key("collective", "collective (lower half)") +
           key("waits", "collective that never ended") + key("still", "nothing moved");
  return "<ul class=\"legend\">" + items + "</ul>\n";
}

void add_rows(const Lane& lane, const std::vector<Stretch>& all, std::string& rows) {
  // Of very many the last: there the case ended.
  for (std::size_t i = all.size() - std::min(all.size(), kMostRows); i < all.size(); ++i) {
    rows += "<tr><td>" + text(harness::process_name(lane.process)) + "</td><td>" +
            text(what_of(all[i])) + "</td><td class=\"n\">" + text(at_text(all[i].from_ms)) +
            "</td><td class=\"n\">" +
            (all[i].open ? std::string("never ended") : text(at_text(all[i].to_ms))) +
            "</td></tr>\n";
  }
}

std::string table_of_times(const Timeline& timeline) {
  std::string rows;
  for (const Lane& lane : timeline.lanes) {
    add_rows(lane, lane.phases, rows);
    add_rows(lane, lane.collectives, rows);
  }
  if (rows.empty()) return "";
  return "<div class=\"wide\" tabindex=\"0\"><table><thead><tr><th scope=\"col\">process</th><th "
         "scope=\"col\">what</th><th scope=\"col\">from</th><th "
         "scope=\"col\">to</th></tr></thead><tbody>\n" +
         rows + "</tbody></table></div>\n";
}

}  // namespace

std::string timeline(const Timeline& timeline) {
  if (timeline.lanes.empty()) return "";
  std::vector<std::string> phases;
  std::string lanes;
  for (const Lane& lane : timeline.lanes) lanes += lane_of(lane, timeline, phases);
  return "<h4>Timeline</h4>\n" + legend_of(phases) + "<ul class=\"bars lanes\">\n" + lanes +
         standstill_lane(timeline) + "</ul>\n<p class=\"ends\"><span>0 s</span><span>" +
         text(at_text(timeline.end_ms)) + "</span></p>\n" +
         folded("Phases and collectives as a table", table_of_times(timeline));
}

}  // namespace reports::html
