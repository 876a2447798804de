// The text that a run is trained on: files, and folders that are walked. Which files and in which order is a pure function of
// what lies there: named ones in the order given, those of a folder sorted by their path inside it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace nsa {

struct Corpus {
  std::vector<std::string> files;
  std::int64_t bytes = 0;  // of all files together
};

// A named file is taken whatever its ending. A folder gives its regular files, at any depth, that end in .h .hpp .cpp .cu
// .cuh .cmake .md .yaml .txt .py .sh; hidden names, folders named `build` and symbolic links are skipped.
// Throws: Error naming the path: missing, unreadable, no text file in the folder, more than 4 GiB in all.
[[nodiscard]] Corpus find_corpus(std::span<const std::string> paths);

// The files' bytes one after the other. Throws: Error naming a file that cannot be read or has changed its size.
[[nodiscard]] std::string read_corpus(const Corpus& corpus);

}  // namespace nsa
