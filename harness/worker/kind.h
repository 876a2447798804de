// A kind: what a process of a case does. One .cpp in harness/kinds and its name in harness/kinds/list.cpp.
#pragma once

#include <string>

#include "harness/worker/session.h"

namespace harness {

struct Kind {
  std::string name;
  std::string about;
  // Runs this process's part of the case, as a rank or as the twin. What the system under test throws passes through.
  void (*run)(Session& session) = nullptr;
};

}  // namespace harness
