#include "reports/blocks.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace reports {
namespace {

using Lines = std::vector<std::string_view>;

constexpr std::string_view kFolds = "<details>";
constexpr std::string_view kUnfolds = "</details>";
constexpr std::string_view kTitle = "<summary>";
constexpr std::string_view kTitleEnd = "</summary>";
constexpr std::size_t kIndent = 2;

Lines lines_of(std::string_view text) {
  Lines lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// The character that an entity of escape() or folded() stands for, and how many bytes it takes; 0 where there is none.
std::pair<char, std::size_t> entity_at(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, char>, 6> kEntities = {{{"&amp;", '&'},
                                                                           {"&lt;", '<'},
                                                                           {"&gt;", '>'},
                                                                           {"&#64;", '@'},
                                                                           {"&#58;", ':'},
                                                                           {"&#46;", '.'}}};
  for (const auto& [entity, c] : kEntities) {
    if (text.starts_with(entity)) return {c, entity.size()};
  }
  return {'\0', 0};
}

std::size_t spaces(std::string_view line) {
  return std::min(line.find_first_not_of(' '), line.size());
}

bool is_blank(std::string_view line) {
  return spaces(line) == line.size();
}

// How long the beginning of an item is: "- ", "12. "; 0 where the line begins none.
std::size_t bullet(std::string_view line) {
  return line.starts_with("- ") ? 2 : 0;
}
std::size_t number(std::string_view line) {
  const std::size_t digits = line.find_first_not_of("0123456789");
  if (digits == 0 || digits == std::string_view::npos) return 0;
  return line.substr(digits).starts_with(". ") ? digits + 2 : 0;
}

int heading_level(std::string_view line) {
  const std::size_t signs = line.find_first_not_of('#');
  constexpr std::size_t kMost = 6;
  const bool is_one = signs != std::string_view::npos && signs > 0 && signs <= kMost;
  return is_one && line[signs] == ' ' ? static_cast<int>(signs) : 0;
}

std::size_t fence_of(std::string_view line) {
  const std::size_t ticks = std::min(line.find_first_not_of('`'), line.size());
  return ticks >= 3 ? ticks : 0;
}

bool ends_paragraph(std::string_view line) {
  return is_blank(line) || heading_level(line) > 0 || fence_of(line) > 0 || bullet(line) > 0 ||
         number(line) > 0 || line.starts_with("| ") || line == kFolds || line == kUnfolds;
}

// The cells of "| a | b |": a bar of a worker's is escaped.
std::vector<Spans> cells_of(std::string_view line) {
  std::vector<Spans> cells;
  std::size_t from = 2;
  for (std::size_t at = from; at < line.size(); ++at) {
    if (line[at] == '\\') {
      ++at;
    } else if (line[at] == '|') {
      const std::string_view cell = line.substr(from, at - from);
      const std::size_t end = cell.find_last_not_of(' ');
      cells.push_back(spans_of(end == std::string_view::npos ? "" : cell.substr(0, end + 1)));
      from = std::min(at + 2, line.size());
    }
  }
  return cells;
}

class Reader {
 public:
  explicit Reader(Lines lines) : lines_(std::move(lines)) {}

  std::vector<Block> all() {
    std::vector<Block> blocks;
    while (at_ < lines_.size()) {
      if (is_blank(lines_[at_]) || lines_[at_] == kUnfolds) {
        ++at_;
      } else {
        blocks.push_back(next());
      }
    }
    return blocks;
  }

 private:
  Block next() {
    const std::string_view line = lines_[at_];
    if (line == kFolds) return folded();
    if (fence_of(line) > 0) return code();
    if (const int level = heading_level(line); level > 0) return heading(level);
    if (line.starts_with("| ")) return table();
    if (bullet(line) > 0) return list(Block::Kind::bullets, &bullet);
    if (number(line) > 0) return list(Block::Kind::numbers, &number);
    return paragraph();
  }

  Block heading(int level) {
    Block block;
    block.kind = Block::Kind::heading;
    block.level = level;
    block.text = spans_of(lines_[at_++].substr(static_cast<std::size_t>(level) + 1));
    return block;
  }

  Block paragraph() {
    Block block;
    std::string text(lines_[at_++]);
    while (at_ < lines_.size() && !ends_paragraph(lines_[at_])) {
      text += " " + std::string(lines_[at_++]);
    }
    block.text = spans_of(text);
    return block;
  }

  Block code() {
    const std::size_t ticks = fence_of(lines_[at_]);
    Block block;
    block.kind = Block::Kind::code;
    block.language = lines_[at_++].substr(ticks);
    for (; at_ < lines_.size(); ++at_) {
      if (fence_of(lines_[at_]) == ticks && lines_[at_].size() == ticks) break;
      block.code += std::string(lines_[at_]) + "\n";
    }
    if (at_ < lines_.size()) ++at_;
    return block;
  }

  Block table() {
    Block block;
    block.kind = Block::Kind::table;
    block.rows.push_back(cells_of(lines_[at_++]));
    if (at_ < lines_.size() && lines_[at_].starts_with("| ---")) ++at_;
    while (at_ < lines_.size() && lines_[at_].starts_with("| ")) {
      block.rows.push_back(cells_of(lines_[at_++]));
      block.rows.back().resize(block.rows.front().size());
    }
    return block;
  }

  template <typename Begin>
  Block list(Block::Kind kind, Begin begin) {
    Block block;
    block.kind = kind;
    while (another(begin)) {
      Lines item = {lines_[at_].substr(begin(lines_[at_]))};
      ++at_;
      take_indented(item);
      block.items.push_back(Reader(std::move(item)).all());
    }
    return block;
  }

  // Goes to the next item, over blank lines.
  template <typename Begin>
  bool another(Begin begin) {
    std::size_t next = at_;
    while (next < lines_.size() && is_blank(lines_[next])) ++next;
    if (next == lines_.size() || begin(lines_[next]) == 0) return false;
    at_ = next;
    return true;
  }

  // The lines that belong to an item, without their indentation; blank ones only between others.
  void take_indented(Lines& item) {
    std::size_t indent = 0;
    while (at_ < lines_.size()) {
      std::size_t more = at_;
      while (more < lines_.size() && is_blank(lines_[more])) ++more;
      if (more == lines_.size() || spaces(lines_[more]) < kIndent) return;
      if (indent == 0) indent = spaces(lines_[more]);
      for (; at_ < more; ++at_) item.emplace_back();
      item.push_back(lines_[at_].substr(std::min(indent, spaces(lines_[at_]))));
      ++at_;
    }
  }

  Block folded() {
    Block block;
    block.kind = Block::Kind::folded;
    ++at_;
    if (at_ < lines_.size() && lines_[at_].starts_with(kTitle)) {
      std::string_view title = lines_[at_++].substr(kTitle.size());
      if (title.ends_with(kTitleEnd)) title.remove_suffix(kTitleEnd.size());
      block.text = title_of(title);
    }
    std::vector<Block> body;
    while (at_ < lines_.size() && lines_[at_] != kUnfolds) {
      if (is_blank(lines_[at_])) {
        ++at_;
      } else {
        body.push_back(next());
      }
    }
    if (at_ < lines_.size()) ++at_;
    block.items = {std::move(body)};
    return block;
  }

  // Inside of HTML, where Markdown means nothing.
  static Spans title_of(std::string_view title) {
    std::string text;
    for (std::size_t at = 0; at < title.size();) {
      const auto [c, bytes] = entity_at(title.substr(at));
      text += bytes == 0 ? title[at] : c;
      at += std::max<std::size_t>(bytes, 1);
    }
    return text.empty() ? Spans{} : Spans{{std::move(text), false}};
  }

  Lines lines_;
  std::size_t at_ = 0;
};

}  // namespace

std::vector<Block> blocks_of(std::string_view markdown) {
  return Reader(lines_of(markdown)).all();
}

Spans spans_of(std::string_view markdown) {
  Spans spans;
  Span span;
  const auto end_span = [&] {
    if (!span.text.empty()) spans.push_back(span);
    span.text.clear();
  };
  for (std::size_t at = 0; at < markdown.size();) {
    const std::string_view rest = markdown.substr(at);
    const auto [c, bytes] = entity_at(rest);
    if (bytes > 0) {
      span.text += c;
      at += bytes;
    } else if (rest.starts_with("**")) {
      end_span();
      span.strong = !span.strong;
      at += 2;
    } else {
      const bool escaped = rest.size() > 1 && rest[0] == '\\' &&
                           std::ispunct(static_cast<unsigned char>(rest[1])) != 0;
      span.text += rest[escaped ? 1 : 0];
      at += escaped ? 2 : 1;
    }
  }
  end_span();
  return spans;
}

std::string plain(const Spans& spans) {
  std::string text;
  for (const Span& span : spans) text += span.text;
  return text;
}

}  // namespace reports
