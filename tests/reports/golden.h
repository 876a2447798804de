// Compares a text with a file of tests/reports/golden. NSA_WRITE_GOLDEN=1 writes the files anew.
#pragma once

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "tests/fakes/where.h"

namespace fixtures {

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

inline void expect_golden(const std::string& name, const std::string& text) {
  const std::string path = fakes::tree() + "/tests/reports/golden/" + name;
  if (std::getenv("NSA_WRITE_GOLDEN") != nullptr) std::ofstream(path, std::ios::binary) << text;
  EXPECT_EQ(text, read_file(path)) << "differs from " << path;
}

}  // namespace fixtures
