#include "harness/run/processes/guardian.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <poll.h>
#include <unistd.h>

#include "harness/run/processes/left_behind.h"

namespace harness {
namespace {

constexpr int kControllerFd = 3;
constexpr useconds_t kKeepersUs =
    3'000'000;  // a keeper gives its command two seconds after SIGTERM

bool has_reader() {
  pollfd pipe{kControllerFd, 0, 0};
  const int ready = poll(&pipe, 1, -1);  // whoever started this process ends it
  return ready < 0 && errno == EINTR;
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
  usleep(kKeepersUs);
  return end_left_behind(mark).stayed.empty() ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace harness
