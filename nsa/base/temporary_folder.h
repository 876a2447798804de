// A folder below the one for temporary files, which goes with its owner. What a killed process leaves there is the system's
// to clear away.
#pragma once

#include <string>

namespace nsa {

class TemporaryFolder {
 public:
  // Throws: Error if it cannot be made.
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] std::string operator/(const char* name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace nsa
