#include "harness/run/record/kept_text.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/run/processes/spawn_process.h"
#include "nsa/base/corpus.h"
#include "nsa/base/error.h"
#include "nsa/base/file.h"
#include "nsa/base/hash.h"

namespace harness {
namespace {

constexpr std::int64_t kLargestKept = std::int64_t{64} << 20;

mode_t mode_of(const std::string& path) {
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0) throw nsa::Error(nsa::system_error_text("read", path));
  return status.st_mode & 0777U;
}

// What all sources allow, and never to write or to run it.
mode_t common_mode(const nsa::Corpus& corpus) {
  mode_t mode = 0444;
  for (const std::string& file : corpus.files) mode &= mode_of(file);
  return mode | S_IRUSR;  // the ranks read it as this user
}

bool is_kept(const std::string& path, std::size_t bytes) {
  std::error_code error;
  return std::filesystem::file_size(path, error) == bytes && !error;
}

}  // namespace

void keep_text(nsa::DataConfig& data, const std::string& folder) {
  if (data.source != nsa::DataConfig::Source::text) return;
  const nsa::Corpus corpus = nsa::find_corpus(data.text);
  if (corpus.bytes > kLargestKept) return;
  const std::string text = nsa::read_corpus(corpus);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw nsa::Error(folder + ": cannot make the folder: " + error.message());
  const std::string path = folder + "/" + nsa::hash_hex(text) + ".txt";
  const mode_t mode = common_mode(corpus);
  if (!is_kept(path, text.size())) {
    nsa::write_durably(path, text, mode);
  } else if ((mode_of(path) & ~mode) != 0) {  // the same content from a source that fewer may read
    if (chmod(path.c_str(), mode) != 0) throw nsa::Error(nsa::system_error_text("protect", path));
  }
  data.text = {path};
}

}  // namespace harness
