#include "harness/cli/signals.h"

#include <csignal>

namespace harness::cli {
namespace {

void on_signal(int number) {
  interrupted().store(number);
}

}  // namespace

std::atomic<int>& interrupted() {
  static std::atomic<int> number{0};
  static_assert(std::atomic<int>::is_always_lock_free);
  return number;
}

void catch_signals() {
  (void)interrupted();  // made before a handler can ask for it
  struct sigaction action = {};
  action.sa_handler = on_signal;  // without SA_RESTART: a wait ends
  sigemptyset(&action.sa_mask);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaction(number, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

}  // namespace harness::cli
