#include "harness/run/processes/output_growth.h"

#include <filesystem>
#include <utility>

namespace harness {
namespace {

std::int64_t size_of(const std::string& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  return error ? 0 : static_cast<std::int64_t>(size);
}

}  // namespace

OutputGrowth::OutputGrowth(std::string out_path, std::string err_path)
    : out_path_(std::move(out_path)), err_path_(std::move(err_path)) {}

bool OutputGrowth::more(bool without_stderr) {
  const std::int64_t out_bytes = size_of(out_path_);
  const std::int64_t err_bytes = size_of(err_path_);
  const bool more_out = std::exchange(out_bytes_, out_bytes) != out_bytes;
  const bool more_err = std::exchange(err_bytes_, err_bytes) != err_bytes;
  return more_out || (more_err && !without_stderr);
}

}  // namespace harness
