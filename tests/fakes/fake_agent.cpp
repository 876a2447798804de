// The program as far as launchers and agents need it: keeps a launcher, and joins as a rank.
#include <cstdlib>
#include <iostream>
#include <string>

#include "harness/run/join/agent.h"
#include "harness/run/processes/keeper.h"
#include "nsa/base/error.h"

int main(int argc, char** argv) {
  const std::string role = argc > 1 ? argv[1] : "";
  if (role == harness::kKeepArgument) return harness::keep(argv + 2);
  try {
    return harness::join_as_rank([](const char* name) { return std::getenv(name); });
  } catch (const nsa::Error& error) {
    std::cerr << "fake_agent: " << error.what() << "\n";
    return 3;
  }
}
