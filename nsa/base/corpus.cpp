#include "nsa/base/corpus.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "nsa/base/error.h"
#include "nsa/base/file.h"

namespace nsa {
namespace {

namespace fs = std::filesystem;

// Bytes are tokens, held in memory by every rank.
constexpr std::int64_t kMaxCorpusBytes = std::int64_t{4} << 30;
// Deeper folders than people make: ends a walk that a broken file system would make endless.
constexpr int kMaxFolderDepth = 64;

constexpr std::array<std::string_view, 11> kTextEndings = {
    ".h", ".hpp", ".cpp", ".cu", ".cuh", ".cmake", ".md", ".yaml", ".txt", ".py", ".sh"};

bool is_text(const fs::path& path) {
  const std::string ending = path.extension().string();
  return std::find(kTextEndings.begin(), kTextEndings.end(), ending) != kTextEndings.end();
}

bool is_skipped(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename().string();
  return name.starts_with('.') || name == "build" || entry.is_symlink();
}

// Paths inside `folder`, in generic form, of all text files.
void walk(const fs::path& folder,
          const fs::path& inside,
          int depth,
          std::vector<std::string>& found) {
  if (depth > kMaxFolderDepth) throw Error(Location{folder.string()}, "folders nested too deeply");
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (is_skipped(entry)) continue;
    const fs::path name = inside / entry.path().filename();
    if (entry.is_directory()) {
      walk(entry.path(), name, depth + 1, found);
    } else if (entry.is_regular_file() && is_text(entry.path())) {
      found.push_back(name.generic_string());
    }
  }
}

std::vector<std::string> text_files_of(const std::string& folder) {
  std::vector<std::string> inside;
  try {
    walk(folder, {}, 0, inside);
  } catch (const fs::filesystem_error& error) {
    throw Error("cannot read " + error.path1().string() + ": " + error.code().message());
  }
  if (inside.empty()) throw Error(Location{folder}, "found no text file in this folder");
  std::sort(inside.begin(), inside.end());
  std::vector<std::string> files;
  files.reserve(inside.size());
  for (const std::string& name : inside) files.push_back((fs::path(folder) / name).string());
  return files;
}

}  // namespace

Corpus find_corpus(std::span<const std::string> paths) {
  Corpus corpus;
  for (const std::string& path : paths) {
    std::error_code ignored;  // a missing file is told by file_size() below
    const bool folder = fs::is_directory(path, ignored);
    const std::vector<std::string> files =
        folder ? text_files_of(path) : std::vector<std::string>{path};
    for (const std::string& file : files) {
      corpus.bytes += file_size(file);
      if (corpus.bytes > kMaxCorpusBytes) {
        throw Error(
            Location{file},
            "with this file the text is longer than " + std::to_string(kMaxCorpusBytes) + " bytes");
      }
      corpus.files.push_back(file);
    }
  }
  return corpus;
}

std::string read_corpus(const Corpus& corpus) {
  std::string text;
  text.reserve(static_cast<std::size_t>(corpus.bytes));
  for (const std::string& file : corpus.files) text += read_file(file, kMaxCorpusBytes);
  if (static_cast<std::int64_t>(text.size()) != corpus.bytes) {
    throw Error("the text changed while it was read: found " + std::to_string(text.size()) +
                " bytes, wanted " + std::to_string(corpus.bytes));
  }
  return text;
}

}  // namespace nsa
