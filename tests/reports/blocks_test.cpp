// What a section wrote is read back as it was meant, whatever a worker's text has in it.
#include "reports/blocks.h"

#include <random>

#include <gtest/gtest.h>

#include "reports/markdown.h"
#include "tests/fakes/where.h"
#include "tests/reports/golden.h"

namespace {

using reports::Block;
using reports::blocks_of;
using reports::escape;
using reports::plain;
using Kind = reports::Block::Kind;

// What escape() keeps of a text: one line, no control characters, no space around it.
std::string kept(std::string text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return "";
  text.erase(0, first);
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
  }
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

std::string letters(const std::string& text) {
  std::string kept;
  for (const char c : text) {
    if (std::isalpha(static_cast<unsigned char>(c)) != 0) kept += c;
  }
  return kept;
}

// Pieces that mean something in Markdown or HTML, in any order.
std::string drawn_text(std::mt19937& random) {
  constexpr const char* kPieces[] = {"a",          "_",          "*",
                                     "**",         "|",          " | ",
                                     "\\",         "`",          "```",
                                     "<",          "&lt;",       "&amp;",
                                     "#",          "# ",         "- ",
                                     "1. ",        "\n",         "\n\n",
                                     "@b",         "</details>", "<details>",
                                     "\n   ```\n", "www.",       "://",
                                     "]]>",        "\xff",       "\xe2\x82\xac",
                                     "&#64;",      "| --- |",    "!["};
  std::uniform_int_distribution<std::size_t> piece(0, std::size(kPieces) - 1);
  std::string text;
  for (int i = 0; i < 8; ++i) text += kPieces[piece(random)];
  return text;
}

TEST(Blocks, ReadBackWhateverWasEscaped) {
  std::mt19937 random(1);
  for (int i = 0; i < 2'000; ++i) {
    const std::string text = "x" + drawn_text(random);
    const std::string wanted = kept(text);
    EXPECT_EQ(plain(reports::spans_of(escape(text))), wanted) << escape(text);
    reports::Table table({"a", escape(text)});
    table.row({escape(text), "**" + escape(text) + "**"});
    const std::string inside = "- " + escape(text) + "\n  - " + escape(text) + "\n\n" +
                               table.text() + reports::code_block(text, "sh") + "\n" +
                               escape(text) + "\n\n";
    const std::vector<Block> blocks =
        blocks_of("# " + escape(text) + "\n\n" + reports::folded("title", inside) + "last\n");
    ASSERT_EQ(blocks.size(), 3U) << inside;
    EXPECT_EQ(plain(blocks[0].text), wanted);
    ASSERT_EQ(blocks[1].kind, Kind::folded);
    const std::vector<Block>& body = blocks[1].items.at(0);
    ASSERT_EQ(body.size(), 4U) << inside;
    EXPECT_EQ(plain(body[0].items.at(0).at(0).text), wanted);
    EXPECT_EQ(plain(body[0].items.at(0).at(1).items.at(0).at(0).text), wanted);
    EXPECT_EQ(plain(body[1].rows.at(0).at(1)), wanted);
    EXPECT_EQ(plain(body[1].rows.at(1).at(0)), wanted);
    ASSERT_EQ(body[1].rows.at(1).at(1).size(), 1U) << table.text();
    EXPECT_TRUE(body[1].rows.at(1).at(1).at(0).strong);
    EXPECT_EQ(body[2].kind, Kind::code);
    EXPECT_EQ(letters(body[2].code), letters(text));
    EXPECT_EQ(plain(body[3].text), wanted);
    EXPECT_EQ(plain(blocks[2].text), "last");
  }
}

TEST(Blocks, AreWhatSectionsWrite) {
  const std::vector<Block> blocks = blocks_of(
      "## What failed\n\n"
      "1. **FAIL** a case: why\n\n   Next: do this.\n\n   ```sh\n   run it\n   and this\n   ```\n\n"
      "2. **HANG** another\n"
      "\nand more.\n\n"
      "| a | b |\n| --- | --- |\n| 1 |  |\n\n"
      "- one\n  - two\n  - three\n- four\n\n"
      "<details>\n<summary>1 &lt; 2</summary>\n\n### inner\n\n</details>\n\n");
  ASSERT_EQ(blocks.size(), 6U);
  EXPECT_EQ(blocks[0].level, 2);
  ASSERT_EQ(blocks[1].kind, Kind::numbers);
  ASSERT_EQ(blocks[1].items.size(), 2U);
  ASSERT_EQ(blocks[1].items[0].size(), 3U);
  EXPECT_TRUE(blocks[1].items[0][0].text.at(0).strong);
  EXPECT_EQ(plain(blocks[1].items[0][1].text), "Next: do this.");
  EXPECT_EQ(blocks[1].items[0][2].code, "run it\nand this\n");
  EXPECT_EQ(blocks[1].items[0][2].language, "sh");
  EXPECT_EQ(plain(blocks[2].text), "and more.");
  ASSERT_EQ(blocks[3].rows.size(), 2U);
  EXPECT_EQ(plain(blocks[3].rows[1].at(1)), "");
  ASSERT_EQ(blocks[4].kind, Kind::bullets);
  ASSERT_EQ(blocks[4].items.size(), 2U);
  EXPECT_EQ(blocks[4].items[0].at(1).items.size(), 2U);
  EXPECT_EQ(plain(blocks[5].text), "1 < 2");
  EXPECT_EQ(blocks[5].items.at(0).at(0).level, 3);
}

// Every character of a report that is no markup, in its order.
std::string words_of(const std::vector<Block>& blocks) {
  std::string words;
  for (const Block& block : blocks) {
    words += plain(block.text) + block.code;
    for (const auto& row : block.rows) {
      for (const reports::Spans& cell : row) words += plain(cell);
    }
    for (const auto& item : block.items) words += words_of(item);
  }
  return words;
}

// Of whole reports nothing is lost and nothing is told twice.
TEST(Blocks, HaveAllWordsOfAReport) {
  for (const char* name :
       {"engineer.md", "since.md", "long.md", "bisection.md", "diagnosis.md", "summary.md"}) {
    std::string text = fixtures::read_file(fakes::tree() + "/tests/reports/golden/" + name);
    const std::string words = letters(words_of(blocks_of(text)));
    for (const char* markup : {"<details>",
                               "</details>",
                               "<summary>",
                               "</summary>",
                               "```sh",
                               "```mermaid",
                               "&lt;",
                               "&gt;",
                               "&amp;"}) {
      for (std::size_t at = 0; (at = text.find(markup)) != std::string::npos;) {
        text.erase(at, std::string(markup).size());
      }
    }
    EXPECT_EQ(words, letters(text)) << name;
  }
}

}  // namespace
