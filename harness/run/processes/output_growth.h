// Whether what a command prints grows: its two files, by their sizes.
#pragma once

#include <cstdint>
#include <string>

namespace harness {

class OutputGrowth {
 public:
  OutputGrowth(std::string out_path, std::string err_path);

  // More is there than the last time. `without_stderr`: what came there does not count.
  [[nodiscard]] bool more(bool without_stderr);
  [[nodiscard]] const std::string& out_path() const { return out_path_; }
  [[nodiscard]] const std::string& err_path() const { return err_path_; }

 private:
  std::string out_path_;
  std::string err_path_;
  std::int64_t out_bytes_ = 0;
  std::int64_t err_bytes_ = 0;
};

}  // namespace harness
