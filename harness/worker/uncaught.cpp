#include "harness/worker/uncaught.h"

#include <cstdlib>
#include <exception>

#include "harness/worker/error_report.h"

namespace harness {
namespace {

// The handler of std::terminate has no argument.
struct Teller {
  Channel* channel = nullptr;
  const Progress* progress = nullptr;
  std::terminate_handler before = nullptr;
};
Teller teller;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

[[noreturn]] void tell_and_end() {
  if (teller.channel != nullptr && std::current_exception() != nullptr) {
    teller.channel->write(
        describe_current_exception(teller.progress->phase(), teller.progress->step()));
  }
  if (teller.before != nullptr) teller.before();  // prints it, and aborts
  std::abort();
}

}  // namespace

TellUncaught::TellUncaught(Channel& channel, const Progress& progress) {
  teller.channel = &channel;
  teller.progress = &progress;
  teller.before = std::set_terminate(tell_and_end);
}

TellUncaught::~TellUncaught() {
  std::set_terminate(teller.before);
  teller = {};
}

}  // namespace harness
