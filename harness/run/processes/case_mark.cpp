#include "harness/run/processes/case_mark.h"

#include <filesystem>
#include <random>
#include <string_view>
#include <unistd.h>

#include "harness/run/looks/proc_look.h"
#include "nsa/base/text.h"

namespace harness {
namespace {

constexpr int kLimit = RLIMIT_LOCKS;  // NOLINT: of glibc's enumeration in C++, of a macro elsewhere
constexpr std::string_view kLimitInProc = "Max file locks";

std::mutex& of_this_process() {
  static std::mutex mutex;
  return mutex;
}

std::uint64_t random_below(std::uint64_t limit) {
  std::random_device random;
  return ((std::uint64_t{random()} << 32U) | random()) % limit;
}

// /proc/PID/limits has lines such as "Max file locks            unlimited            unlimited            locks".
bool has_number(pid_t pid, std::uint64_t number) {
  const std::string limits = proc_file(pid, "limits");
  const std::size_t line = limits.find(kLimitInProc);
  if (line == std::string::npos) return false;
  const std::size_t begin = limits.find_first_not_of(' ', line + kLimitInProc.size());
  if (begin == std::string::npos) return false;
  return limits.compare(begin, limits.find(' ', begin) - begin, std::to_string(number)) == 0;
}

bool has_variable(pid_t pid, const std::string& variable) {
  const std::string environment = '\0' + proc_file(pid, "environ") + '\0';
  return environment.find('\0' + variable + '\0') != std::string::npos;
}

}  // namespace

std::uint64_t draw_number() {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 61U;
  constexpr std::uint64_t kTooFew = std::uint64_t{1} << 40U;
  rlimit limit{};
  if (getrlimit(kLimit, &limit) != 0) return 0;
  const std::uint64_t most = limit.rlim_max < kMost ? limit.rlim_max : kMost;
  if (most < kTooFew) return 0;
  const std::uint64_t number = most / 2 + random_below(most / 2);
  const Marking tried(number);
  return has_number(getpid(), number) ? number : 0;
}

CaseMark draw_mark(const std::string& folder) {
  return {"NSA_HARNESS_CASE_FOLDER=" + std::filesystem::absolute(folder).string(), draw_number()};
}

bool has_mark(pid_t pid, const CaseMark& mark) {
  return (mark.number != 0 && has_number(pid, mark.number)) ||
         (!mark.variable.empty() && has_variable(pid, mark.variable));
}

Marking::Marking(std::uint64_t number) : lock_(of_this_process()) {
  if (number == 0 || getrlimit(kLimit, &before_) != 0) return;
  rlimit marked = before_;
  marked.rlim_cur = number;
  changed_ = setrlimit(kLimit, &marked) == 0;
}

Marking::~Marking() {
  if (changed_) (void)setrlimit(kLimit, &before_);
}

}  // namespace harness
