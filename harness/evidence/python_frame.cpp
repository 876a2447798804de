#include "harness/evidence/python_frame.h"

#include <algorithm>

namespace harness {
namespace {

// Behind the last folder that ends in `mark`, or nothing.
std::optional<std::string_view> behind(std::string_view path, std::string_view mark) {
  const std::size_t at = path.rfind(mark);
  if (at == std::string_view::npos) return std::nullopt;
  return path.substr(at + mark.size());
}

}  // namespace

std::optional<std::string_view> library_path(std::string_view path) {
  for (const std::string_view mark : {"site-packages/", "dist-packages/"}) {
    if (const auto rest = behind(path, mark)) return rest;
  }
  if (const auto rest = behind(path, "/lib/python3")) {
    const std::size_t folder = rest->find('/');
    if (folder != std::string_view::npos) return rest->substr(folder + 1);
  }
  if (const std::size_t at = path.rfind("/nsa_harness/"); at != std::string_view::npos) {
    return path.substr(at + 1);  // in a checkout
  }
  // What installs put beside Python itself: torchrun, accelerate. It has no suffix.
  if (const auto rest = behind(path, "/bin/"); rest && rest->find_first_of("/.") == rest->npos)
    return rest;
  if (path.starts_with("<")) return path;  // "<frozen importlib._bootstrap>", "<string>"
  return std::nullopt;
}

std::string told_frame(std::string_view name,
                       std::string_view path,
                       std::string_view line,
                       std::string_view text) {
  constexpr std::size_t kMostShown = 100;
  const auto of_library = library_path(path);
  const std::string_view file = of_library ? *of_library : path.substr(path.rfind('/') + 1);
  std::string frame(name);
  frame.append(" (").append(file).append(":").append(line).append(")");
  if (of_library || text.empty()) return frame;
  return frame.append(": ")
      .append(text.substr(0, kMostShown))
      .append(text.size() > kMostShown ? "..." : "");
}

bool is_of_user(const std::string& frame) {
  return frame.find("): ") != std::string::npos;
}

std::string users_line(const std::vector<std::string>& frames) {
  // Torch's handler of a signal raises where a worker of a loader was killed, in whatever line the process has come to.
  constexpr std::string_view kHandler = "(torch/utils/data/_utils/signal_handling.py:";
  const auto own = std::find_if(frames.begin(), frames.end(), &is_of_user);
  const bool by_chance = std::any_of(frames.begin(), own, [&](const std::string& frame) {
    return frame.find(kHandler) != std::string::npos;
  });
  if (own == frames.end() || by_chance) return "";
  const bool goes_on = own->ends_with(':') || own->ends_with(',');
  return goes_on ? own->substr(0, own->size() - 1) : *own;
}

}  // namespace harness
