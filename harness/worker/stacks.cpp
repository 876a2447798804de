#include "harness/worker/stacks.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <dirent.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <fstream>
#include <sstream>
#include <string>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

namespace harness {
namespace {

constexpr int kStackSignal = SIGUSR2;
constexpr int kMaxFrames = 48;
constexpr int kMaxThreads = 128;
// Long enough for a thread inside a system call to be interrupted and walk its stack; a thread in state D never answers.
constexpr auto kAnswerDeadline = std::chrono::milliseconds(400);

constexpr int kNotAnswered = -1;
constexpr int kWriting = -2;

struct Slot {
  std::atomic<int> tid{0};
  std::atomic<int> count{kNotAnswered};
  std::array<void*, kMaxFrames> frames{};
};
// Read by the signal handler, which may use nothing but static memory.
std::array<Slot, kMaxThreads> slots;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
std::atomic<int> slots_used{0};       // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

void answer(int /*signal*/) {
  const int saved_errno = errno;
  const int tid = static_cast<int>(syscall(SYS_gettid));
  for (int i = 0; i < slots_used.load(); ++i) {
    Slot& slot = slots[static_cast<std::size_t>(i)];
    int wanted = kNotAnswered;
    if (slot.tid.load() == tid && slot.count.compare_exchange_strong(wanted, kWriting)) {
      // The slot may have been given to another thread since the first look.
      slot.count =
          slot.tid.load() == tid ? backtrace(slot.frames.data(), kMaxFrames) : kNotAnswered;
      break;
    }
  }
  errno = saved_errno;
}

std::vector<int> thread_ids() {
  std::vector<int> ids;
  if (DIR* folder = opendir("/proc/self/task")) {
    while (const dirent* entry = readdir(folder)) {
      if (const int id = std::atoi(entry->d_name); id > 0 && ids.size() < kMaxThreads) {
        ids.push_back(id);
      }
    }
    closedir(folder);
  }
  return ids;
}

std::string thread_name(int tid) {
  std::ifstream file("/proc/self/task/" + std::to_string(tid) + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

std::string hexadecimal(std::uintptr_t value) {
  std::ostringstream text;
  text << "+0x" << std::hex << value;
  return text.str();
}

std::uintptr_t distance(const void* from, const void* to) {
  return reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from);
}

// False: a thread still writes its answer of an earlier look into it. It is taken as a thread takes it, so that no late answer
// begins meanwhile.
bool take(Slot& slot, int tid) {
  int count = slot.count.load();
  do {
    if (count == kWriting) {
      slot.tid = 0;
      return false;
    }
  } while (!slot.count.compare_exchange_weak(count, kWriting));
  slot.tid = tid;
  slot.count = kNotAnswered;
  return true;
}

// The slot of each thread, -1 where none is free.
std::vector<int> take_slots(const std::vector<int>& ids) {
  std::vector<int> taken;
  int next = 0;
  for (const int tid : ids) {
    while (next < kMaxThreads && !take(slots[static_cast<std::size_t>(next)], tid)) ++next;
    taken.push_back(next < kMaxThreads ? next++ : -1);
  }
  slots_used = next;
  return taken;
}

void wait_for_answers(const std::vector<int>& taken) {
  const auto answered = [](int slot) {
    return slot < 0 || slots[static_cast<std::size_t>(slot)].count.load() >= 0;
  };
  const auto deadline = std::chrono::steady_clock::now() + kAnswerDeadline;
  while (std::chrono::steady_clock::now() < deadline) {
    if (std::all_of(taken.begin(), taken.end(), answered)) {
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

std::vector<std::string> frames_in(int slot) {
  std::vector<std::string> frames;
  if (slot < 0) {
    return frames;
  }
  const Slot& of = slots[static_cast<std::size_t>(slot)];
  constexpr int kHandlerFrames = 2;  // the handler and the kernel's trampoline
  for (int f = kHandlerFrames; f < of.count.load(); ++f) {
    frames.push_back(frame_text(of.frames[static_cast<std::size_t>(f)]));
  }
  return frames;
}

}  // namespace

std::string demangled(const char* name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string words = status == 0 && text != nullptr ? text : name;
  std::free(text);  // NOLINT(cppcoreguidelines-no-malloc)
  return words;
}

std::string frame_text(void* address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) {
    return "?";
  }
  const char* slash = std::strrchr(info.dli_fname, '/');
  const std::string library = slash != nullptr ? slash + 1 : info.dli_fname;
  if (info.dli_sname == nullptr) {
    return library + hexadecimal(distance(info.dli_fbase, address));
  }
  std::string name = demangled(info.dli_sname);
  constexpr std::size_t kLongest = 160;  // template arguments beyond that tell nobody anything
  if (name.size() > kLongest) {
    name.resize(kLongest);
    name += "...";
  }
  return name + hexadecimal(distance(info.dli_saddr, address)) + " (" + library + ")";
}

void prepare_stacks() {
  // The first call of backtrace() loads libgcc, which a signal handler must not do.
  void* warm = nullptr;
  backtrace(&warm, 1);
  struct sigaction action {};
  action.sa_handler = answer;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(kStackSignal, &action, nullptr);
}

std::vector<ThreadStack> sample_stacks() {
  const std::vector<int> ids = thread_ids();
  const std::vector<int> taken = take_slots(ids);
  for (const int tid : ids) {
    syscall(SYS_tgkill, getpid(), tid, kStackSignal);
  }
  wait_for_answers(taken);
  slots_used = 0;  // who comes to its handler from here on finds nothing to write to
  std::vector<ThreadStack> stacks;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ThreadStack stack;
    stack.thread = thread_name(ids[i]) + " " + std::to_string(ids[i]);
    stack.frames = frames_in(taken[i]);
    stacks.push_back(std::move(stack));
  }
  return stacks;
}

}  // namespace harness
