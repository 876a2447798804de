#include "reports/html/charts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>

#include "nsa/base/text.h"
#include "reports/html/markup.h"

namespace reports::html {
namespace {

constexpr double kWide = 1000.0;
constexpr double kHigh = 200.0;

struct Window {  // of the values that are drawn
  double x0 = std::numeric_limits<double>::infinity();
  double x1 = -x0;
  double y0 = x0;
  double y1 = -x0;

  void add(double x, double y) {
    x0 = std::min(x0, x);
    x1 = std::max(x1, x);
    y0 = std::min(y0, y);
    y1 = std::max(y1, y);
  }
  [[nodiscard]] double across(double x) const { return (x - x0) / (x1 - x0) * kWide; }
  [[nodiscard]] double up(double y) const { return kHigh - (y - y0) / (y1 - y0) * kHigh; }
};

bool is_drawn(const std::pair<double, double>& point) {
  return std::isfinite(point.first) && std::isfinite(point.second);
}

// With some air above and below, so that what hardly changes looks as if it hardly changed.
Window window_of(const std::vector<Line>& lines) {
  Window window;
  std::size_t drawn = 0;
  for (const Line& line : lines) {
    for (const auto& point : line.points) {
      if (!is_drawn(point)) continue;
      window.add(point.first, point.second);
      ++drawn;
    }
  }
  if (drawn == 0) return window;
  constexpr double kLeastShare = 0.05;
  const double middle = (window.y0 + window.y1) / 2.0;
  const double span = std::max({window.y1 - window.y0, std::abs(middle) * kLeastShare, 1e-12});
  window.y0 = middle - 0.6 * span;
  window.y1 = middle + 0.6 * span;
  return window;
}

// A line through its points, and each of them as a dot: a line of no length with round ends keeps its form when
// stretched.
std::string path_of(const Line& line, const Window& window, std::size_t index) {
  std::string path;
  std::string dots;
  for (const auto& point : line.points) {
    if (!is_drawn(point)) continue;
    const std::string at =
        number(window.across(point.first)) + " " + number(window.up(point.second));
    path += (path.empty() ? "M" : "L") + at;
    dots += "M" + at + "h0";
  }
  const std::string style = "l" + std::to_string(index % 4);
  return "<path class=\"line " + style + "\" d=\"" + path + "\"/><path class=\"dots " + style +
         "\" d=\"" + dots + "\"/>";
}

std::string legend(const std::vector<Line>& lines) {
  std::string items;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    items +=
        "<li><svg class=\"key\" viewBox=\"0 0 24 8\" aria-hidden=\"true\"><path class=\"line l" +
        std::to_string(i % 4) + "\" d=\"M0 4H24\"/></svg>" + text(lines[i].name) + "</li>";
  }
  return "<ul class=\"legend\">" + items + "</ul>";
}

}  // namespace

std::string line_chart(const std::string& title,
                       const std::string& first_x,
                       const std::string& last_x,
                       const std::vector<Line>& lines) {
  const Window window = window_of(lines);
  if (!(window.x1 > window.x0)) return "";
  std::string drawing;
  for (std::size_t i = 0; i < lines.size(); ++i) drawing += path_of(lines[i], window, i);
  return "<figure><figcaption>" + text(title) + "</figcaption>" + legend(lines) +
         "<div class=\"plot\"><span class=\"top\">" + text(nsa::to_text(window.y1, 3)) +
         "</span><svg viewBox=\"0 0 1000 200\" preserveAspectRatio=\"none\" role=\"img\" "
         "aria-label=\"" +
         text(title) + "\"><path class=\"grid\" d=\"M0 0H1000M0 100H1000M0 200H1000\"/>" + drawing +
         "</svg><span class=\"bottom\">" + text(nsa::to_text(window.y0, 3)) +
         "</span></div><p class=\"ends\"><span>" + text(first_x) + "</span><span>" + text(last_x) +
         "</span></p></figure>\n";
}

std::string phase_style(const std::string& phase) {
  constexpr std::array<std::pair<std::string_view, const char*>, 7> kStyles = {
      {{"rendezvous", "p0"},
       {"data", "p2"},
       {"forward", "p1"},
       {"backward", "p3"},
       {"optimizer", "p5"},
       {"save", "p2"},
       {"done", "p0"}}};
  for (const auto& [name, style] : kStyles) {
    if (name == phase) return style;
  }
  return "p4";
}

std::string parts_bar(const std::vector<Part>& parts, double whole) {
  if (!(whole > 0.0)) return "";
  std::string drawing;
  double at = 0.0;
  for (const Part& part : parts) {
    const double wide = part.size / whole * kWide;
    if (!(wide > 0.0)) continue;
    drawing += "<rect class=\"" + phase_style(part.name) + "\" x=\"" + number(at) + "\" width=\"" +
               number(wide) + "\" height=\"16\"><title>" + text(part.name) + "</title></rect>";
    at += wide;
  }
  return "<svg class=\"bar\" viewBox=\"0 0 1000 16\" preserveAspectRatio=\"none\" "
         "aria-hidden=\"true\">" +
         drawing + "</svg>";
}

std::string share_bar(double share, double limit, bool beyond) {
  const double wide = std::clamp(std::isfinite(share) ? share : 1.0, 0.0, 1.0) * kWide;
  const std::string at = number(limit * kWide);
  return std::string(
             "<svg class=\"bar\" viewBox=\"0 0 1000 16\" preserveAspectRatio=\"none\" "
             "aria-hidden=\"true\"><rect class=\"") +
         (beyond ? "over" : "within") + "\" width=\"" + number(wide) +
         "\" height=\"16\"/><path class=\"limit\" d=\"M" + at + " 0V16\"/></svg>";
}

}  // namespace reports::html
