#include "harness/worker/thrown.h"

#include <array>
#include <cstdlib>
#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <mutex>
#include <typeinfo>

#include "harness/worker/stacks.h"

namespace harness {
namespace {

struct Throw {
  const void* object = nullptr;
  int count = 0;
  std::array<void*, 24> frames{};
};

// The last throws of all threads: those of a backward or a collective come from other threads than the one that catches them.
constexpr std::size_t kKept = 64;
std::mutex throws_mutex;          // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
std::array<Throw, kKept> throws;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
std::size_t next_throw = 0;       // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

// Not inlined: its frame is one of those that frames_of() leaves out.
__attribute__((noinline)) void keep_throw(const void* object) {
  Throw made;
  made.object = object;
  made.count = backtrace(made.frames.data(), static_cast<int>(made.frames.size()));
  const std::lock_guard lock(throws_mutex);
  throws[next_throw++ % kKept] = made;
}

}  // namespace

std::vector<std::string> frames_of(const std::exception& error) {
  const void* object =
      dynamic_cast<const void*>(&error);  // the whole of it, whatever base it was caught by
  Throw found;
  {
    const std::lock_guard lock(throws_mutex);
    for (std::size_t back = 1; back <= kKept && found.object == nullptr; ++back) {
      const Throw& kept = throws[(next_throw + kKept - back) % kKept];
      if (kept.object == object) found = kept;
    }
  }
  constexpr int kOwnFrames = 2;  // keep_throw and __cxa_throw
  std::vector<std::string> frames;
  for (int i = kOwnFrames; i < found.count; ++i) {
    frames.push_back(frame_text(found.frames[static_cast<std::size_t>(i)]));
  }
  return frames;
}

std::vector<std::string> types_of(const std::exception& error) {
  std::vector<std::string> names;
  const std::type_info* type = &typeid(error);
  while (type != nullptr) {
    names.push_back(demangled(type->name()));
    const auto* derived = dynamic_cast<const abi::__si_class_type_info*>(type);
    type = derived == nullptr ? nullptr : derived->__base_type;
  }
  return names;
}

}  // namespace harness

// The symbol and the arguments are those of the C++ ABI. The linker exports it, so that shared libraries find it before the other.
// It has a name of its own here: the compiler declares __cxa_throw by itself.
extern "C" [[noreturn]] __attribute__((noinline)) void harness_throw(
    void* object, void* type, void (*destroy)(void*)) __asm__("__cxa_throw");

extern "C" void harness_throw(void* object, void* type, void (*destroy)(void*)) {
  using Raise = void (*)(void*, void*, void (*)(void*));
  static const auto raise = reinterpret_cast<Raise>(dlsym(RTLD_NEXT, "__cxa_throw"));
  harness::keep_throw(object);
  raise(object, type, destroy);
  std::abort();
}
