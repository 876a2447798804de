// The text of a case: one copy a content, and nobody reads it who might not read its source.
#include "harness/run/record/kept_text.h"

#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "nsa/base/error.h"
#include "tests/fakes/temp_folder.h"

namespace harness {
namespace {

namespace fs = std::filesystem;

class KeptText : public ::testing::Test {
 protected:
  std::string keep(const std::vector<std::string>& text) const {
    nsa::DataConfig data;
    data.source = nsa::DataConfig::Source::text;
    data.text = text;
    keep_text(data, texts_);
    EXPECT_EQ(data.text.size(), 1U);
    return data.text.at(0);
  }
  static int mode_of(const std::string& path) {
    return static_cast<int>(fs::status(path).permissions()) & 0777;
  }
  std::string write(const std::string& name, const std::string& text, int mode) const {
    const std::string path = folder_.write(name, text);
    fs::permissions(path, static_cast<fs::perms>(mode));
    return path;
  }
  [[nodiscard]] std::ptrdiff_t files() const {
    return std::distance(fs::directory_iterator(texts_), fs::directory_iterator());
  }

  fakes::TempFolder folder_;
  std::string texts_ = folder_ / "run/texts";
};

TEST_F(KeptText, CasesOfOneTextShareOneCopy) {
  const std::string a = write("a.txt", "hello", 0644);
  const std::string kept = keep({a});
  EXPECT_EQ(keep({write("b.txt", "hello", 0644)}), kept);
  EXPECT_NE(keep({write("c.txt", "other", 0644)}), kept);
  EXPECT_EQ(files(), 2);
  std::ofstream(a) << "edited";  // while the case runs
  std::ifstream file(kept);
  EXPECT_EQ(std::string((std::istreambuf_iterator<char>(file)), {}), "hello");
}

TEST_F(KeptText, IsReadByNobodyWhoMightNotReadItsSources) {
  EXPECT_EQ(mode_of(keep({write("private.txt", "mine", 0600)})), 0400);
  EXPECT_EQ(mode_of(keep({write("public.txt", "ours", 0755)})), 0444);
  EXPECT_EQ(mode_of(keep({write("a.txt", "both ", 0644), write("b.txt", "of us", 0640)})), 0440);
  const std::string kept = keep({write("open.txt", "same", 0644)});
  EXPECT_EQ(mode_of(kept), 0444);
  EXPECT_EQ(keep({write("shut.txt", "same", 0600)}), kept);
  EXPECT_EQ(mode_of(kept), 0400);
  (void)keep({write("open.txt", "same", 0644)});
  EXPECT_EQ(mode_of(kept), 0400) << "never opened again";
}

TEST_F(KeptText, ThreadsThatKeepTheSameTextAtOnce) {
  const std::string path = write("a.txt", std::string(1'000'000, 'a'), 0644);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) threads.emplace_back([&] { (void)keep({path}); });
  }
  EXPECT_EQ(files(), 1);
}

TEST_F(KeptText, OtherDataHasNoText) {
  nsa::DataConfig data;
  data.source = nsa::DataConfig::Source::uniform;
  keep_text(data, texts_);
  EXPECT_FALSE(fs::exists(texts_));
}

}  // namespace
}  // namespace harness
