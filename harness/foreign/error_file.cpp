#include "harness/foreign/error_file.h"

#include <nlohmann/json.hpp>
#include <sstream>

#include "harness/foreign/printed.h"
#include "nsa/base/file.h"

namespace harness {
namespace {

using nlohmann::json;

constexpr std::int64_t kMostBytes = std::int64_t{1} << 20;
constexpr std::size_t kLongest = 4096;  // bytes of a message, as of a line that was printed

// The member, where both it and the object are; an empty one otherwise.
json member(const json& object, const char* name) {
  if (!object.is_object()) return {};
  const auto at = object.find(name);
  return at == object.end() ? json() : *at;
}

std::string text_of(const json& value) {
  return value.is_string() ? value.get<std::string>() : "";
}

// Of text that Python printed.
std::optional<WorkerError> last_error(const std::string& traceback) {
  std::istringstream lines(traceback);
  Printed printed;
  read_printed(lines, printed, 0);
  if (printed.errors.empty()) return std::nullopt;
  return printed.errors.back().error;
}

}  // namespace

std::string error_file_of(std::string_view environment) {
  constexpr std::string_view kName = "TORCHELASTIC_ERROR_FILE=";
  while (!environment.empty()) {
    const std::string_view one = environment.substr(0, environment.find('\0'));
    if (one.starts_with(kName)) return std::string(one.substr(kName.size()));
    environment.remove_prefix(std::min(environment.size(), one.size() + 1));
  }
  return "";
}

std::optional<WorkerError> error_in_file(const std::string& text) {
  const json message = member(json::parse(text, nullptr, false), "message");
  const std::string said = text_of(message.is_string() ? message : member(message, "message"));
  constexpr const char* kBegin = "Traceback (most recent call last):\n";
  std::string stack = text_of(member(member(message, "extraInfo"), "py_callstack"));
  if (stack.find(kBegin) == std::string::npos) stack = kBegin + said + "\n";
  auto error = last_error(stack);
  if (!error) return std::nullopt;
  // The traceback's last line has the type with its module, and ends where the message's first line does.
  const std::size_t colon = said.find(": ");
  const std::string whole = colon == std::string::npos ? "" : said.substr(colon + 2);
  if (whole.starts_with(error->what)) error->what = whole.substr(0, kLongest);
  return error;
}

std::optional<WorkerError> read_error_file(const std::string& path) {
  if (path.empty()) return std::nullopt;
  try {
    return error_in_file(nsa::read_file(path, kMostBytes));
  } catch (const nsa::Error&) {
    return std::nullopt;
  }
}

}  // namespace harness
