#include "harness/store/prune.h"

#include <filesystem>

namespace harness {
namespace {

namespace fs = std::filesystem;

// Also through symbolic links: where the file really is.
bool is_inside(const fs::path& file, const fs::path& folder) {
  std::error_code error;
  const fs::path real = fs::weakly_canonical(file, error);
  const fs::path root = error ? fs::path() : fs::weakly_canonical(folder, error);
  if (error) return false;
  const fs::path inside = real.lexically_relative(root);
  return !inside.empty() && inside != "." && *inside.begin() != "..";
}

}  // namespace

std::int64_t prune_case(const Evidence& evidence) {
  std::int64_t freed = 0;
  for (const auto& row : evidence.artefacts) {
    const fs::path file = fs::path(evidence.folder) / row.row.path;
    std::error_code error;
    if (!is_inside(file, evidence.folder) || !fs::is_regular_file(file, error)) continue;
    const auto bytes = fs::file_size(file, error);
    if (fs::remove(file, error)) freed += static_cast<std::int64_t>(bytes);
  }
  return freed;
}

}  // namespace harness
