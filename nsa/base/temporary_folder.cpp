#include "nsa/base/temporary_folder.h"

#include <cstdlib>
#include <filesystem>

#include "nsa/base/error.h"
#include "nsa/base/file.h"

namespace nsa {

namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder()
    : path_((fs::temp_directory_path() / "nsa_harness_XXXXXX").string()) {
  if (mkdtemp(path_.data()) == nullptr) throw Error(system_error_text("make the folder", path_));
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace nsa
