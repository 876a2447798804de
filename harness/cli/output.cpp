#include "harness/cli/output.h"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string_view>
#include <unistd.h>

#include "harness/checks/list.h"
#include "nsa/base/secrets.h"
#include "nsa/base/text.h"

namespace harness::cli {
namespace {

constexpr std::size_t kOutcomeWidth = 12;  // INCONCLUSIVE
constexpr const char* kRed = "\x1b[31m";
constexpr const char* kGreen = "\x1b[32m";
constexpr const char* kYellow = "\x1b[33m";
constexpr const char* kPlain = "\x1b[0m";

bool shows_colours() {
  const char* terminal = std::getenv("TERM");
  const bool dumb = terminal == nullptr || std::string_view(terminal) == "dumb";
  return std::getenv("NO_COLOR") == nullptr && !dumb && isatty(STDOUT_FILENO) != 0;
}

}  // namespace

std::string without_controls(const std::string& text) {
  return nsa::without_steering(text);
}

void log_line(const std::string& line) {
  std::cerr << "nsa-harness: " + without_controls(nsa::without_secrets(line)) + "\n" << std::flush;
}

std::string outcome_line(const std::string& outcome,
                         const std::string& label,
                         double seconds,
                         const std::string& reason) {
  std::string word = outcome;
  word.resize(std::max(kOutcomeWidth, word.size()), ' ');
  return without_controls(word + "  " + label + "  " + nsa::to_text(seconds, 3) + " s  " +
                          nsa::without_secrets(reason));
}

std::string megabytes(std::int64_t bytes) {
  return nsa::to_text(static_cast<double>(bytes) / 1e6, 4) + " MB";
}

bool is_failure(Outcome outcome) {
  switch (outcome) {
    case Outcome::fail:
    case Outcome::hang:
    case Outcome::slow:
    case Outcome::crash:
    case Outcome::oom:
    case Outcome::xpass:
    case Outcome::error: return true;
    default: return false;
  }
}

void print_outcome(std::ostream& out,
                   Outcome outcome,
                   const std::string& label,
                   double seconds,
                   const std::string& reason) {
  const std::string line = outcome_line(name_of(outcome), label, seconds, reason);
  if (&out != &std::cout || !shows_colours()) {
    out << line << "\n";
    return;
  }
  const char* colour = is_failure(outcome) ? kRed : outcome == Outcome::pass ? kGreen : kYellow;
  const std::size_t word = line.find(' ');
  out << colour << line.substr(0, word) << kPlain << line.substr(word) << "\n";
}

std::vector<std::pair<std::string, std::string>> check_about() {
  std::vector<std::pair<std::string, std::string>> about;
  for (const Check& check : all_checks()) about.emplace_back(check.name, check.about);
  return about;
}

}  // namespace harness::cli
