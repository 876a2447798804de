#include "nsa/base/hash.h"

#include <set>

#include <gtest/gtest.h>

#include "tests/fakes/error_of.h"
#include "tests/fakes/temp_folder.h"

namespace {

// Of the XXH3 reference: the digest of nothing, and of a text, most significant byte first.
TEST(Hash, IsXxh3InCanonicalForm) {
  EXPECT_EQ(nsa::hash_hex(std::string_view()), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(nsa::hash_hex("abc").size(), 32U);
}

TEST(Hash, OfAFileIsThatOfItsBytes) {
  const fakes::TempFolder folder;
  for (const std::size_t size : {0U, 1U, 240U, 241U, 1U << 20U, (1U << 20U) + 1, 3'000'000U}) {
    std::string content(size, 'a');
    for (std::size_t i = 0; i < size; ++i) content[i] = static_cast<char>(i * 2654435761U >> 13U);
    const std::string path = folder.write("f", content);
    EXPECT_EQ(nsa::hash_file(path), nsa::hash_hex(content)) << size;
  }
}

TEST(Hash, EveryBitCounts) {
  std::string content(200, 'x');
  std::set<std::string> seen = {nsa::hash_hex(content)};
  for (std::size_t bit = 0; bit < 8 * content.size(); ++bit) {
    std::string other = content;
    other[bit / 8] = static_cast<char>(other[bit / 8] ^ (1 << (bit % 8)));
    seen.insert(nsa::hash_hex(other));
  }
  EXPECT_EQ(seen.size(), 8 * content.size() + 1);
}

TEST(Hash, NamesAFileThatCannotBeRead) {
  const fakes::TempFolder folder;
  EXPECT_NE(error_of([&] { (void)nsa::hash_file(folder / "none"); }).find(folder / "none"),
            std::string::npos);
  EXPECT_NE(error_of([&] { (void)nsa::hash_file(folder.path()); }).find("a folder"),
            std::string::npos);
}

}  // namespace
