// The control groups that this process is in: what they let it use of the machine's memory, and how often the kernel killed
// one of their processes for memory. Both versions of control groups; in a container the path that the kernel tells may be
// the host's, so what is missing is looked for in the groups above, up to the root of the mount.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace harness {

class ControlGroup {
 public:
  explicit ControlGroup(const std::string& membership = "/proc/self/cgroup",
                        const std::string& mount = "/sys/fs/cgroup");

  // The smallest of this group and of all above it. Nothing: none is set.
  [[nodiscard]] std::optional<std::int64_t> memory_limit() const;
  // Of the nearest group that counts them. Nothing: none does.
  [[nodiscard]] std::optional<std::int64_t> oom_kills() const;

 private:
  struct Folder {
    std::string path;
    bool unified = true;  // version 2
  };
  std::vector<Folder> folders_;  // this group first, then those above it
};

// The number after `name` in a file of lines "name number ...". Nothing: no such line.
[[nodiscard]] std::optional<std::int64_t> read_counter(const std::string& path,
                                                       const std::string& name);

}  // namespace harness
