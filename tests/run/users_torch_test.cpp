// Which torch a command imports, told from files that are laid out as environments lay them out.
#include "harness/run/processes/users_torch.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace {

namespace fs = std::filesystem;
using harness::users_torch;

class UsersTorch : public ::testing::Test {
 protected:
  UsersTorch() {
    std::string path = fs::temp_directory_path() / "torch_XXXXXX";
    folder_ = mkdtemp(path.data());
  }
  ~UsersTorch() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
    fs::permissions(folder_ / name, fs::perms::owner_all);
  }
  void environment(const std::string& name, const std::string& version) const {
    write(name + "/bin/python3",
          "\x7f"
          "ELF");
    write(name + "/lib/python3.11/site-packages/torch/version.py",
          "from typing import Optional\n\n__all__ = []\n__version__ = '" + version + "'\n");
  }
  [[nodiscard]] std::string at(const std::string& name) const { return (folder_ / name).string(); }

  fs::path folder_;
};

TEST_F(UsersTorch, ThatOfThePythonTheScriptOrPath) {
  environment("a", "2.11.0+cpu");
  environment("b", "2.7.1");
  write("a/bin/torchrun", "#!" + at("a/bin/python3") + "\n# -*- coding\n");
  write("b/bin/tool", "#!/usr/bin/env python3\n");
  const std::vector<std::string> path = {"HOME=/x",
                                         "PATH=/nowhere:" + at("b/bin") + ":" + at("a/bin")};
  EXPECT_EQ(users_torch(at("a/bin/python3"), {}), "2.11.0+cpu");
  EXPECT_EQ(users_torch(at("a/bin/torchrun"), path), "2.11.0+cpu");
  EXPECT_EQ(users_torch("python3", path), "2.7.1");
  EXPECT_EQ(users_torch("tool", path), "2.7.1");
  EXPECT_EQ(users_torch("/bin/sh", path), "2.11.0+cpu") << "torchrun comes before python3";
}

// An environment's Python is a link; one without a torch of its own may see that of the Python behind the link.
TEST_F(UsersTorch, ThatOfAnEnvironmentOrOfThePythonBehindIt) {
  environment("base", "2.9.0");
  fs::create_directories(folder_ / "venv/bin");
  fs::create_symlink(folder_ / "base/bin/python3", folder_ / "venv/bin/python3");
  EXPECT_EQ(users_torch(at("venv/bin/python3"), {}), "2.9.0");
  environment("own", "2.11.0");
  fs::remove(folder_ / "own/bin/python3");
  fs::create_symlink(folder_ / "base/bin/python3", folder_ / "own/bin/python3");
  EXPECT_EQ(users_torch(at("own/bin/python3"), {}), "2.11.0");
}

TEST_F(UsersTorch, ThatOfAnEnvironmentBetweenThisOneAndThePythonOfTheSystem) {
  environment("system", "0.0.0");
  fs::remove_all(folder_ / "system/lib");
  environment("middle", "2.11.0");
  fs::remove(folder_ / "middle/bin/python3");
  fs::create_symlink(folder_ / "system/bin/python3", folder_ / "middle/bin/python3");
  fs::create_directories(folder_ / "venv/bin");
  fs::create_symlink("../../middle/bin/python3", folder_ / "venv/bin/python3");
  EXPECT_EQ(users_torch(at("venv/bin/python3"), {}), "2.11.0");
}

TEST_F(UsersTorch, NothingWhereNothingTells) {
  environment("a", "2.11.0");
  fs::remove_all(folder_ / "a/lib");
  write("empty", "");
  for (const std::string& program :
       {at("a/bin/python3"), at("none"), at("empty"), at("a"), std::string()}) {
    EXPECT_EQ(users_torch(program, {}), "") << program;
  }
  EXPECT_FALSE(harness::is_at_least("", 0, 0));
}

}  // namespace
