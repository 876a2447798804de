#include "nsa/base/temporary_folder.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace nsa {
namespace {

namespace fs = std::filesystem;

TEST(TemporaryFolder, GoesWithAllThatIsInItAndFollowsNoLink) {
  const TemporaryFolder outside;
  std::ofstream(outside / "kept") << "kept";
  std::string path;
  {
    const TemporaryFolder folder;
    path = folder / "";
    fs::create_directories(folder / "a/b/c");
    std::ofstream(folder / "a/b/file") << "text";
    fs::create_directory_symlink(outside / "", folder / "a/link");
    EXPECT_TRUE(fs::exists(path));
  }
  EXPECT_FALSE(fs::exists(path));
  EXPECT_TRUE(fs::exists(outside / "kept"));
}

}  // namespace
}  // namespace nsa
