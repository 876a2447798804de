#include "harness/run/looks/control_group.h"

#include <algorithm>
#include <fstream>

#include "nsa/base/text.h"

namespace harness {
namespace {

// "a,memory,b" holds the word "memory".
bool names_memory(const std::string& controllers) {
  return ("," + controllers + ",").find(",memory,") != std::string::npos;
}

std::optional<std::int64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return nsa::parse_int(line);  // "max" is none
}

}  // namespace

std::optional<std::int64_t> read_counter(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind(name, 0) != 0) continue;
    const std::size_t begin = line.find_first_of("0123456789", name.size());
    if (begin == std::string::npos) return std::nullopt;
    const std::size_t end = line.find_first_not_of("0123456789", begin);
    return nsa::parse_int(line.substr(begin, end == std::string::npos ? end : end - begin));
  }
  return std::nullopt;
}

// Version 2 has one line "0::PATH"; version 1 one line per set of controllers, "4:memory:PATH".
ControlGroup::ControlGroup(const std::string& membership, const std::string& mount) {
  std::ifstream file(membership);
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool unified = controllers.empty();
    if (!unified && !names_memory(controllers)) continue;
    const std::string root = unified ? mount : mount + "/memory";
    std::string path = root + line.substr(second + 1);  // "ROOT/outer/inner"
    while (path.size() > root.size()) {
      folders_.push_back({path, unified});
      path.resize(path.rfind('/'));
    }
    folders_.push_back({root, unified});
  }
}

std::optional<std::int64_t> ControlGroup::memory_limit() const {
  std::optional<std::int64_t> smallest;
  for (const Folder& folder : folders_) {
    const auto limit =
        number_in(folder.path + (folder.unified ? "/memory.max" : "/memory.limit_in_bytes"));
    if (limit && *limit > 0) smallest = std::min(smallest.value_or(*limit), *limit);
  }
  return smallest;
}

std::optional<std::int64_t> ControlGroup::oom_kills() const {
  for (const Folder& folder : folders_) {
    const auto kills = read_counter(
        folder.path + (folder.unified ? "/memory.events" : "/memory.oom_control"), "oom_kill ");
    if (kills) return kills;
  }
  return std::nullopt;
}

}  // namespace harness
