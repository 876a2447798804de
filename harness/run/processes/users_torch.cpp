#include "harness/run/processes/users_torch.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <unistd.h>

namespace harness {
namespace {

namespace fs = std::filesystem;

std::string on_path(const std::string& program, const std::vector<std::string>& environment) {
  if (program.find('/') != std::string::npos) return program;
  for (const std::string& one : environment) {
    if (!one.starts_with("PATH=")) continue;
    std::istringstream folders(one.substr(5));
    for (std::string folder; std::getline(folders, folder, ':');) {
      std::string path = folder + "/" + program;
      if (access(path.c_str(), X_OK) == 0) return path;
    }
  }
  return "";
}

// Of a script the program of its first line; of `env` the one that it looks for.
std::string interpreter_of(const std::string& path, const std::vector<std::string>& environment) {
  std::error_code error;
  if (path.empty() || !fs::is_regular_file(path, error)) return "";
  std::ifstream file(path, std::ios::binary);
  constexpr std::streamsize kLongest = 512;  // more than the kernel reads
  std::string line(static_cast<std::size_t>(kLongest), '\0');
  file.read(line.data(), kLongest);
  line.resize(static_cast<std::size_t>(file.gcount()));
  if (!line.starts_with("#!")) return path;
  std::istringstream words(line.substr(2, line.find('\n') - 2));
  std::string first;
  std::string second;
  words >> first >> second;
  return fs::path(first).filename() == "env" ? on_path(second, environment) : first;
}

std::string version_in(const fs::path& file) {
  constexpr std::string_view kBegin = "__version__ = '";
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(kBegin)) continue;
    const std::string rest = line.substr(kBegin.size());
    return rest.substr(0, rest.find('\''));
  }
  return "";
}

// In the folders where a Python of this prefix looks for packages.
std::string version_below(const fs::path& prefix) {
  std::error_code error;
  for (const char* lib : {"lib", "lib64"}) {
    fs::directory_iterator at(prefix / lib, error);
    for (; !error && at != fs::directory_iterator(); at.increment(error)) {
      if (!at->path().filename().string().starts_with("python3")) continue;
      for (const char* packages : {"site-packages", "dist-packages"}) {
        const std::string version = version_in(at->path() / packages / "torch" / "version.py");
        if (!version.empty()) return version;
      }
    }
  }
  return "";
}

// A Python of an environment is a link to that of another one, whose packages it may see as well.
std::string version_of(const std::string& python) {
  constexpr int kMostLinks = 8;
  fs::path at = python;
  std::error_code error;
  for (int i = 0; i < kMostLinks && !error; ++i) {
    if (std::string version = version_below(at.parent_path().parent_path()); !version.empty())
      return version;
    const fs::path next = fs::read_symlink(at, error);
    if (!error) at = at.parent_path() / next;  // an absolute one replaces it
  }
  const fs::path real = fs::canonical(python, error);
  return error ? "" : version_below(real.parent_path().parent_path());
}

bool is_python(const std::string& path) {
  return fs::path(path).filename().string().starts_with("python");
}

}  // namespace

std::string users_torch(const std::string& program, const std::vector<std::string>& environment) {
  try {
    for (const std::string& one :
         {program, std::string("torchrun"), std::string("python3"), std::string("python")}) {
      const std::string python = interpreter_of(on_path(one, environment), environment);
      if (!is_python(python)) continue;
      std::string version = version_of(python);
      if (!version.empty() || one == program) return version;
    }
  } catch (const std::exception&) {  // a path that cannot be read tells nothing
  }
  return "";
}

bool is_at_least(const std::string& version, int major, int minor) {
  std::istringstream text(version);
  int found_major = 0;
  int found_minor = 0;
  char dot = 0;
  text >> found_major >> dot >> found_minor;
  return text && dot == '.' &&
         (found_major > major || (found_major == major && found_minor >= minor));
}

}  // namespace harness
