#include "harness/cli/verbs.h"

int main(int argc, char** argv) {
  return harness::cli::run_command_line(argc, argv);
}
