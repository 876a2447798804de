// What workers write can form no markup.
#include "reports/markdown.h"

#include <gtest/gtest.h>

namespace {

using reports::code_block;
using reports::escape;

TEST(Escape, KeepsPlainWords) {
  EXPECT_EQ(escape("W_K_cmp of layer 3, rank 1: 1.5e-07"), "W_K_cmp of layer 3, rank 1: 1.5e-07");
  EXPECT_EQ(escape("GRAD.MISSING @ layer 3"), "GRAD.MISSING @ layer 3");
}

TEST(Escape, DefusesMarkup) {
  EXPECT_EQ(escape("*a* `b` [c](d) ~e~ |f|"), "\\*a\\* \\`b\\` \\[c\\](d) \\~e\\~ \\|f\\|");
  EXPECT_EQ(escape("_a_"), "\\_a\\_");
  EXPECT_EQ(escape("<script>&amp;"), "&lt;script&gt;&amp;amp;");
  EXPECT_EQ(escape("@team"), "&#64;team");
  EXPECT_EQ(escape("see https://x.example www.x.example"),
            "see https&#58;//x.example www&#46;x.example");
  EXPECT_EQ(escape("\\"), "\\\\");
}

TEST(Escape, BeginsNoBlock) {
  EXPECT_EQ(escape("# a"), "\\# a");
  EXPECT_EQ(escape("- a"), "\\- a");
  EXPECT_EQ(escape("  + a"), "\\+ a");
  EXPECT_EQ(escape("12. a"), "12\\. a");
  EXPECT_EQ(escape("1) a"), "1\\) a");
  EXPECT_EQ(escape("1.5 a"), "1.5 a");
}

TEST(Escape, IsOneLineWithoutControlCharacters) {
  EXPECT_EQ(escape("a\n# b\r\tc\x1b[31m"), "a # b  c \\[31m");
  EXPECT_EQ(escape("a\xE2\x80\xAE"
                   "b\xE2\x81\xA6"
                   "c"),
            "abc");
  EXPECT_EQ(escape("\n\n"), "");
}

TEST(CodeBlock, CannotBeClosedFromInside) {
  EXPECT_EQ(code_block("a\n````\nb", "sh"), "`````sh\na\n````\nb\n`````\n");
  EXPECT_EQ(code_block("a"), "```\na\n```\n");
  EXPECT_EQ(code_block("a\x1b"
                       "b"),
            "```\nab\n```\n");
}

TEST(Numbers, AreGroupedAndHaveUnits) {
  EXPECT_EQ(reports::grouped(78'307'136), "78,307,136");
  EXPECT_EQ(reports::grouped(-1'000), "-1,000");
  EXPECT_EQ(reports::grouped(999), "999");
  EXPECT_EQ(reports::bytes_text(999), "999 B");
  EXPECT_EQ(reports::bytes_text(313'228'800), "313 MB");
  EXPECT_EQ(reports::counted(1, "case"), "1 case");
  EXPECT_EQ(reports::counted(0, "case"), "0 cases");
}

TEST(Table, HasOneLineARow) {
  reports::Table table({"a", "b"});
  EXPECT_TRUE(table.empty());
  table.row({"1", "2"});
  EXPECT_EQ(table.text(), "| a | b |\n| --- | --- |\n| 1 | 2 |\n\n");
}

}  // namespace
