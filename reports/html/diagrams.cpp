#include "reports/html/diagrams.h"

#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <vector>

#include "nsa/base/text.h"
#include "reports/html/charts.h"
#include "reports/html/markup.h"

namespace reports::html {
namespace {

std::vector<std::string> lines_of(const std::string& code) {
  std::vector<std::string> lines;
  std::istringstream stream(code);
  for (std::string line; std::getline(stream, line);) {
    const std::size_t first = line.find_first_not_of(' ');
    if (first != std::string::npos) lines.push_back(line.substr(first));
  }
  return lines;
}

std::string in_quotes(const std::string& line) {
  const std::size_t first = line.find('"');
  const std::size_t last = line.rfind('"');
  return first == std::string::npos || last <= first ? ""
                                                     : line.substr(first + 1, last - first - 1);
}

std::vector<double> numbers_of(const std::string& line) {
  const std::size_t first = line.find('[');
  const std::size_t last = line.rfind(']');
  std::vector<double> numbers;
  if (first == std::string::npos || last == std::string::npos || last < first) return numbers;
  std::istringstream stream(line.substr(first + 1, last - first - 1));
  for (std::string word; std::getline(stream, word, ',');) {
    std::istringstream(word) >> numbers.emplace_back();
  }
  return numbers;
}

// `"FAIL" : 3`
std::string shares(const std::vector<std::string>& lines) {
  std::vector<std::pair<std::string, double>> rows;
  double all = 0.0;
  for (const std::string& line : lines) {
    const std::size_t colon = line.rfind(" : ");
    if (!line.starts_with("\"") || colon == std::string::npos) continue;
    rows.emplace_back(in_quotes(line.substr(0, colon)), 0.0);
    std::istringstream(line.substr(colon + 3)) >> rows.back().second;
    all += rows.back().second;
  }
  if (!(all > 0.0)) return "";
  std::string body;
  for (const auto& [name, count] : rows) {
    body += "<li><span class=\"name\">" + word(name) + " " + number(count) + "</span>" +
            share_bar(count / all, -1.0, false) + "</li>";
  }
  return "<ul class=\"bars\">" + body + "</ul>\n";
}

std::string lines_chart(const std::vector<std::string>& lines) {
  std::string title;
  std::vector<double> x;
  Line drawn;
  std::vector<double> y;
  for (const std::string& line : lines) {
    if (line.starts_with("title ")) title = in_quotes(line);
    if (line.starts_with("x-axis ")) {
      drawn.name = in_quotes(line);
      x = numbers_of(line);
    }
    if (line.starts_with("line ")) y = numbers_of(line);
  }
  for (std::size_t i = 0; i < y.size(); ++i) {
    drawn.points.emplace_back(i < x.size() ? x[i] : static_cast<double>(i + 1), y[i]);
  }
  if (drawn.points.size() < 2) return "";
  const std::string axis = drawn.name;
  drawn.name = title;
  return line_chart(title,
                    axis + " " + nsa::to_text(drawn.points.front().first, 5),
                    nsa::to_text(drawn.points.back().first, 5),
                    {drawn});
}

struct Tree {
  std::map<std::string, std::string> labels;  // of nodes, by name
  std::vector<std::string> order;
  std::map<std::string, std::vector<std::string>> children;
  std::set<std::string> inner;  // that hang on another one

  void node(const std::string& text) {
    const std::size_t bracket = text.find('[');
    const std::string name = text.substr(0, bracket);
    if (labels.try_emplace(name).second) order.push_back(name);
    if (bracket != std::string::npos) labels[name] = in_quotes(text);
  }
  [[nodiscard]] std::string list(const std::string& name, std::set<std::string>& shown) const {
    if (!shown.insert(name).second) return "";
    std::string body;
    const auto at = children.find(name);
    if (at != children.end()) {
      for (const std::string& child : at->second) body += list(child, shown);
    }
    return "<li>" + text(labels.at(name)) + (body.empty() ? "" : "<ul>" + body + "</ul>") + "</li>";
  }
};

std::string tree_list(const std::vector<std::string>& lines) {
  Tree tree;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const std::size_t arrow = lines[i].find(" --> ");
    if (arrow == std::string::npos) {
      tree.node(lines[i]);
      continue;
    }
    const std::string from = lines[i].substr(0, arrow);
    const std::string to = lines[i].substr(arrow + 5);
    tree.node(from);
    tree.node(to);
    const std::string child = to.substr(0, to.find('['));
    tree.children[from].push_back(child);
    tree.inner.insert(child);
  }
  std::string body;
  std::set<std::string> shown;
  for (const std::string& name : tree.order) {
    if (!tree.inner.contains(name)) body += tree.list(name, shown);
  }
  return body.empty() ? "" : "<ul class=\"tree\">" + body + "</ul>\n";
}

}  // namespace

std::string diagram(const std::string& code) {
  const std::vector<std::string> lines = lines_of(code);
  if (lines.empty()) return "";
  if (lines.front().starts_with("pie")) return shares(lines);
  if (lines.front().starts_with("xychart")) return lines_chart(lines);
  if (lines.front().starts_with("flowchart")) return tree_list(lines);
  return "";
}

}  // namespace reports::html
