#include "nsa/base/temporary_folder.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <ftw.h>

#include "nsa/base/error.h"
#include "nsa/base/file.h"

namespace nsa {

namespace fs = std::filesystem;

namespace {

constexpr int kMostOpenFolders = 16;

int remove_one(const char* path,
               const struct stat* /*status*/,
               int /*type*/,
               struct FTW* /*place*/) {
  (void)std::remove(path);
  return 0;
}

}  // namespace

TemporaryFolder::TemporaryFolder()
    : path_((fs::temp_directory_path() / "nsa_harness_XXXXXX").string()) {
  if (mkdtemp(path_.data()) == nullptr) throw Error(system_error_text("make the folder", path_));
}

TemporaryFolder::~TemporaryFolder() {
  // Not std::filesystem::remove_all: in a process with LibTorch that is another function, which jumps to address 0.
  (void)nftw(path_.c_str(), remove_one, kMostOpenFolders, FTW_DEPTH | FTW_PHYS);
}

}  // namespace nsa
