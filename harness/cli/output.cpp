#include "harness/cli/output.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>

#include "harness/checks/list.h"
#include "nsa/base/error.h"
#include "nsa/base/file.h"
#include "nsa/base/text.h"

namespace harness::cli {
namespace {

constexpr std::size_t kOutcomeWidth = 12;  // INCONCLUSIVE

}  // namespace

std::string without_controls(std::string text) {
  for (char& letter : text) {
    if (static_cast<unsigned char>(letter) < 0x20 || letter == 0x7f) letter = ' ';
  }
  return text;
}

void log_line(const std::string& line) {
  std::cerr << "nsa-harness: " + without_controls(line) + "\n" << std::flush;
}

std::string outcome_line(const std::string& outcome,
                         const std::string& label,
                         double seconds,
                         const std::string& reason) {
  std::string word = outcome;
  word.resize(std::max(kOutcomeWidth, word.size()), ' ');
  return without_controls(word + "  " + label + "  " + nsa::to_text(seconds, 3) + " s  " + reason);
}

void write_file(const std::string& path, const std::string& content) {
  const std::string partial = path + ".partial";
  {
    std::ofstream file(partial, std::ios::binary | std::ios::trunc);
    file << content;
    file.close();
    if (!file) throw nsa::Error(nsa::system_error_text("write", partial));
  }
  if (std::rename(partial.c_str(), path.c_str()) != 0) {
    throw nsa::Error(nsa::system_error_text("write", path));
  }
}

std::vector<std::pair<std::string, std::string>> check_about() {
  std::vector<std::pair<std::string, std::string>> about;
  for (const Check& check : all_checks()) about.emplace_back(check.name, check.about);
  return about;
}

}  // namespace harness::cli
