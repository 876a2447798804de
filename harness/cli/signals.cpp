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
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before = {};
    const bool known = sigaction(number, nullptr, &before) == 0;
    if (known && before.sa_handler == SIG_IGN) continue;  // NOLINT: nohup, or a job of a script
    sigaction(number, &action, nullptr);
  }
}

void survive_failed_writes() {
  for (const int number : {SIGPIPE, SIGXFSZ}) std::signal(number, SIG_IGN);
}

}  // namespace harness::cli
