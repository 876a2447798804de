// The installed program, as a user starts it: another process, its own database, the real worker, ranks over Gloo.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/fakes/temp_folder.h"

namespace e2e {

struct Told {
  int exit_code = -1;
  nlohmann::json out;  // of --json; null when it printed none
  std::string text;    // what it printed
};

class Installed {
 public:
  // ARGS after the verb; database and run folders lie in a folder of this object. Fails the test when the program does not
  // start, does not end in five minutes, or prints something that is no JSON where --json is among ARGS.
  Told operator()(const std::string& verb, std::vector<std::string> args) const;

  [[nodiscard]] std::string folder() const { return folder_.path(); }

 private:
  fakes::TempFolder folder_;
};

// The shipped scenario of this name, `faults/rank_killed` for example, as it was installed.
std::string scenario(const std::string& name);

}  // namespace e2e
