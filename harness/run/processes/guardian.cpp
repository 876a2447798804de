#include "harness/run/processes/guardian.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <poll.h>
#include <sstream>
#include <string>
#include <unistd.h>
#include <vector>

#include "harness/run/looks/proc_look.h"
#include "harness/run/processes/keeper.h"
#include "harness/run/processes/left_behind.h"

namespace harness {
namespace {

constexpr int kControllerFd = 3;
constexpr useconds_t kKeeperUs = 200'000;  // between two looks whether a keeper is there

// Of its command line; "" where it has none.
std::string second_word_of(pid_t pid) {
  std::istringstream words(proc_file(pid, "cmdline"));
  std::string word;
  std::getline(words, word, '\0');
  return std::getline(words, word, '\0') ? word : "";
}

bool has_reader() {
  pollfd pipe{kControllerFd, 0, 0};
  const int ready = poll(&pipe, 1, -1);  // whoever started this process ends it
  return ready < 0 && errno == EINTR;
}

// A command of the user's own goes on without the controller, under its keeper.
bool keeper_lives(const CaseMark& mark) {
  const std::vector<pid_t> all = process_ids();
  return std::any_of(all.begin(), all.end(), [&](pid_t pid) {
    return has_mark(pid, mark) && second_word_of(pid) == kKeepArgument;
  });
}

}  // namespace

ProcessRequest guardian_of(const CaseMark& mark, const std::string& program) {
  ProcessRequest request;
  request.argv = {program, kGuardArgument, std::to_string(mark.number), mark.variable};
  request.out_path = "/dev/null";
  request.err_path = "/dev/null";
  return request;
}

int guard(char** argv) {
  if (argv[0] == nullptr || argv[1] == nullptr) return EXIT_FAILURE;
  constexpr int kDecimal = 10;
  const CaseMark mark{argv[1], std::strtoull(argv[0], nullptr, kDecimal)};
  if (mark.variable.empty()) return EXIT_FAILURE;
  for (const int number : {SIGHUP, SIGINT, SIGTERM, SIGPIPE}) std::signal(number, SIG_IGN);
  while (has_reader()) {
  }
  while (keeper_lives(mark)) usleep(kKeeperUs);
  return end_left_behind(mark).stayed.empty() ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace harness
