// What the sections of a report say, as values: headings, paragraphs, tables, lists. A section writes it once, as
// Markdown in the dialect of markdown.h; this reads that text back, so that a page in another form says the same and
// no more. What escape() defused is plain text again here, with the bytes that a worker wrote: whoever shows it
// escapes it for its own form.
//
// The dialect, line by line: "## heading", "| a | table |", "- a list", "1. a list", fences of code_block(),
// folded(), and paragraphs; inside of a line "**strong**". What belongs to an item of a list is indented by two
// spaces or more.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace reports {

struct Span {
  std::string text;
  bool strong = false;
};
using Spans = std::vector<Span>;  // one line

struct Block {
  enum class Kind { heading, paragraph, table, bullets, numbers, code, folded };
  Kind kind = Kind::paragraph;
  int level = 0;                          // heading: 1 is the report's title
  Spans text;                             // heading, paragraph, title of what is folded
  std::vector<std::vector<Spans>> rows;   // table: the header first, all of the same width
  std::vector<std::vector<Block>> items;  // of a list; of what is folded one
  std::string language;                   // code: "sh", "mermaid", ""
  std::string code;                       // ends with a newline unless it is empty
};

[[nodiscard]] std::vector<Block> blocks_of(std::string_view markdown);

// One line of Markdown: a cell, a title, the text of a failure.
[[nodiscard]] Spans spans_of(std::string_view markdown);

[[nodiscard]] std::string plain(const Spans& spans);

}  // namespace reports
