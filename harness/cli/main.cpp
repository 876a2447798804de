#include <csignal>
#include <malloc.h>
#include <string_view>

#include "harness/cli/verbs.h"
#include "harness/run/processes/guardian.h"
#include "harness/run/processes/keeper.h"

namespace {

// The oracle takes and gives back tensors of some megabytes all the time. Given back to the system each time, they cost a page
// fault for every 4 KiB when they are taken again: a quarter of a judgement.
void keep_freed_memory() {
  constexpr int kLargestKept = 32 << 20;
  constexpr int kMostKept = 512 << 20;
  mallopt(M_MMAP_THRESHOLD, kLargestKept);
  mallopt(M_TRIM_THRESHOLD, kMostKept);
}

}  // namespace

int main(int argc, char** argv) {
  // Some parents leave it ignored, and then nobody can learn how a process ended.
  std::signal(SIGCHLD, SIG_DFL);
  if (argc > 2 && std::string_view(argv[1]) == harness::kKeepArgument)
    return harness::keep(argv + 2);
  if (argc > 3 && std::string_view(argv[1]) == harness::kGuardArgument)
    return harness::guard(argv + 2);
  keep_freed_memory();
  return harness::cli::run_command_line(argc, argv);
}
