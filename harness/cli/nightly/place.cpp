#include "harness/cli/nightly/place.h"

#include <algorithm>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <unistd.h>

#include "harness/cli/paths.h"
#include "nsa/base/error.h"
#include "nsa/base/new_file.h"

namespace harness::cli {
namespace {

namespace fs = std::filesystem;

// Folders that do not exist yet included.
fs::path resolved(const std::string& path) {
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(fs::absolute(path, error), error);
  return error ? fs::path(path) : whole;
}

}  // namespace

std::string earlier_nights_database(const std::string& database) {
  const std::string path = (fs::path(database).parent_path() / "nightly.db").string();
  std::error_code error;
  return path != database && fs::is_regular_file(path, error) ? path : "";
}

void refuse_inside(const std::string& tree, const std::string& path, const std::string& what) {
  std::error_code error;
  if (!fs::exists(tree + "/nsa-harness", error)) return;  // an installed tree
  const fs::path root = resolved(tree);
  const fs::path there = resolved(path);
  const auto [end, at] = std::mismatch(root.begin(), root.end(), there.begin(), there.end());
  if (end != root.end()) return;
  throw nsa::Error(what + ": found " + path + ", which lies in the checkout " + root.string() +
                   ", wanted a place outside: a checkout that a night writes into is another one "
                   "the next night");
}

NightLock::NightLock(const std::string& database) {
  const std::string path = database + ".nightly.lock";
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  fd_ = nsa::open_to_add(path, O_RDWR);
  mine_ = ::flock(fd_, LOCK_EX | LOCK_NB) == 0;
}

NightLock::~NightLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace harness::cli
