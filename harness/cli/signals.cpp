#include "harness/cli/signals.h"

#include <csignal>
#include <initializer_list>

namespace harness::cli {
namespace {

void on_signal(int number) {
  interrupted().store(number);
}

std::atomic<int> asked{0};
std::atomic<std::uint64_t> passed{0};
static_assert(std::atomic<int>::is_always_lock_free &&
              std::atomic<std::uint64_t>::is_always_lock_free);

void on_question(int /*number*/) {
  asked.fetch_add(1);
}

void on_passed(int number) {
  passed.fetch_or(std::uint64_t{1} << number);
}

bool handle(std::initializer_list<int> numbers, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;  // without SA_RESTART: a wait ends
  sigemptyset(&action.sa_mask);
  for (const int number : numbers) {
    struct sigaction before = {};
    const bool known = sigaction(number, nullptr, &before) == 0;
    if (known && before.sa_handler == SIG_IGN) continue;  // NOLINT: nohup, or a job of a script
    sigaction(number, &action, nullptr);
  }
  return true;
}

}  // namespace

std::atomic<int>& asked_to_tell() {
  static const bool caught = handle({SIGQUIT}, &on_question);
  (void)caught;
  return asked;
}

std::atomic<std::uint64_t>& to_pass_on() {
  static const bool caught = handle({SIGUSR1, SIGUSR2, SIGCONT, SIGWINCH}, &on_passed);
  (void)caught;
  return passed;
}

std::atomic<int>& interrupted() {
  static std::atomic<int> number{0};
  return number;
}

void catch_signals() {
  (void)interrupted();  // made before a handler can ask for it
  handle({SIGINT, SIGTERM, SIGHUP}, &on_signal);
}

void survive_failed_writes() {
  for (const int number : {SIGPIPE, SIGXFSZ}) std::signal(number, SIG_IGN);
}

}  // namespace harness::cli
