// Drawings as inline SVG. They stretch to the width of the page; words stand beside them as text, so that they keep
// their size on a phone and are read aloud. A colour never stands alone: lines have their own dashes, bars their own
// words.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace reports::html {

struct Line {
  std::string name;
  std::vector<std::pair<double, double>>
      points;  // ascending x; a point that is not finite is left out
};

// `title` and `x_name` are plain text; `first_x` and `last_x` stand below the ends. "" where no line has two points.
[[nodiscard]] std::string line_chart(const std::string& title,
                                     const std::string& first_x,
                                     const std::string& last_x,
                                     const std::vector<Line>& lines);

struct Part {
  std::string name;
  double size = 0.0;
};

// The class of a phase's colour: the same in every drawing.
[[nodiscard]] std::string phase_style(const std::string& phase);

// One bar of parts beside each other, each a phase, `whole` being the width of all.
[[nodiscard]] std::string parts_bar(const std::vector<Part>& parts, double whole);

// One bar from 0 to 1 with a mark at `limit` where that is within; longer ones are cut.
[[nodiscard]] std::string share_bar(double share, double limit, bool beyond);

}  // namespace reports::html
