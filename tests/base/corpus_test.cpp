#include "nsa/base/corpus.h"

#include <filesystem>
#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/error_of.h"
#include "tests/fakes/temp_folder.h"

namespace {

namespace fs = std::filesystem;
using Texts = std::vector<std::string>;

class CorpusTest : public testing::Test {
 protected:
  [[nodiscard]] Texts names(const Texts& paths) const {
    Texts found;
    for (const std::string& file : nsa::find_corpus(paths).files) {
      found.push_back(fs::path(file).lexically_relative(folder_.path()).generic_string());
    }
    return found;
  }
  fakes::TempFolder folder_;
};

TEST_F(CorpusTest, WalksAFolderInSortedOrder) {
  for (const char* name :
       {"b.md", "a/z.cpp", "a/b/c.py", "a.txt", "z.yaml", "no.bin", "Makefile"}) {
    folder_.write(name, name);
  }
  EXPECT_EQ(names({folder_.path()}), (Texts{"a.txt", "a/b/c.py", "a/z.cpp", "b.md", "z.yaml"}));
}

TEST_F(CorpusTest, SkipsWhatIsHiddenBuiltOrLinked) {
  folder_.write("a.txt", "a");
  folder_.write(".git/b.txt", "b");
  folder_.write(".hidden.md", "c");
  folder_.write("build/d.txt", "d");
  folder_.write("sub/build/e.txt", "e");
  fs::create_symlink(folder_ / "a.txt", folder_ / "link.txt");
  fs::create_directory_symlink(folder_.path(), folder_ / "loop");
  ASSERT_EQ(mkfifo((folder_ / "pipe.txt").c_str(), 0600), 0);
  EXPECT_EQ(names({folder_.path()}), Texts{"a.txt"});
}

TEST_F(CorpusTest, NamedFilesComeInTheOrderGiven) {
  folder_.write("b.bin", "bb");
  folder_.write("a.bin", "a");
  const nsa::Corpus corpus = nsa::find_corpus(Texts{folder_ / "b.bin", folder_ / "a.bin"});
  EXPECT_EQ(corpus.bytes, 3);
  EXPECT_EQ(nsa::read_corpus(corpus), "bba");
}

TEST_F(CorpusTest, ErrorsNameTheFile) {
  folder_.write("bin/x.bin", "x");
  const auto find = [&](const std::string& path) {
    return error_of([&] { (void)nsa::find_corpus(Texts{path}); });
  };
  EXPECT_THAT(find(folder_ / "none.txt"),
              testing::HasSubstr((folder_ / "none.txt") + ": No such file"));
  EXPECT_THAT(find(folder_ / "bin"), testing::HasSubstr("found no text file"));
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(find(folder_ / "pipe"), testing::HasSubstr("wanted a regular file"));
}

TEST_F(CorpusTest, AFileThatGrewIsNoticed) {
  const std::string path = folder_.write("a.txt", "a");
  const nsa::Corpus corpus = nsa::find_corpus(Texts{path});
  folder_.write("a.txt", "ab");
  EXPECT_THAT(error_of([&] { (void)nsa::read_corpus(corpus); }), testing::HasSubstr("changed"));
}

}  // namespace
