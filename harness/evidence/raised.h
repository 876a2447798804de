// What kind of failure was the exception that ended a worker? Asked in this order: its type with its base classes, the error
// number of the device's runtime, the function that raised it. The words of its message are the last witness: they change with
// the version of LibTorch, and whoever goes by them says so.
#pragma once

#include <string>
#include <string_view>

#include "harness/evidence/rows.h"

namespace harness {

enum class Failure {
  own,  // of the code that was running: nothing says otherwise
  host_memory,
  device_memory,
  device,         // its runtime reported an error
  communication,  // a collective or the store, which a peer left
  reducer         // c10d::Reducer, about its own state
};
enum class ToldBy { nothing, type, device_code, origin, words };

struct Raised {
  Failure failure = Failure::own;
  ToldBy told_by = ToldBy::nothing;
  std::string words;  // those of the message that tell it, where only they do
};

[[nodiscard]] Raised raised_as(const WorkerError& error);

// The variant of CRASH.EXCEPTION for an end that is common and has a known way out, as "raised.port_in_use"; "" for all others.
[[nodiscard]] std::string common_end(const WorkerError& error);

// "c10d::Reducer::autograd_hook(unsigned long) (libtorch_cpu.so)": the innermost function that is no helper for raising.
// "" where it is not known.
[[nodiscard]] std::string raised_by(const WorkerError& error);

// Whether that function's name begins so. False where it is not known.
[[nodiscard]] bool raised_by_function(const WorkerError& error, std::string_view begin);

[[nodiscard]] const char* name_of(ToldBy value);  // "type", "number of the device's runtime"

}  // namespace harness
