#include "harness/worker/stacks.h"

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <dirent.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <fstream>
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

struct Slot {
  std::atomic<int> tid{0};
  std::atomic<int> count{-1};  // -1: not answered
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
    if (slot.tid.load() == tid && slot.count.load() < 0) {
      slot.count = backtrace(slot.frames.data(), kMaxFrames);
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

std::string frame_text(void* address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) {
    return "?";
  }
  const char* slash = std::strrchr(info.dli_fname, '/');
  const std::string library = slash != nullptr ? slash + 1 : info.dli_fname;
  if (info.dli_sname == nullptr) {
    return library;
  }
  int status = 0;
  char* demangled = abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status);
  std::string name = status == 0 && demangled != nullptr ? demangled : info.dli_sname;
  std::free(demangled);                  // NOLINT(cppcoreguidelines-no-malloc)
  constexpr std::size_t kLongest = 160;  // template arguments beyond that tell nobody anything
  if (name.size() > kLongest) {
    name.resize(kLongest);
    name += "...";
  }
  return name + " (" + library + ")";
}

void ask_threads(const std::vector<int>& ids) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    slots[i].count = -1;
    slots[i].tid = ids[i];
  }
  slots_used = static_cast<int>(ids.size());
  for (const int tid : ids) {
    syscall(SYS_tgkill, getpid(), tid, kStackSignal);
  }
}

void wait_for_answers(std::size_t threads) {
  const auto deadline = std::chrono::steady_clock::now() + kAnswerDeadline;
  while (std::chrono::steady_clock::now() < deadline) {
    bool all = true;
    for (std::size_t i = 0; i < threads; ++i) {
      all = all && slots[i].count.load() >= 0;
    }
    if (all) {
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace

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
  ask_threads(ids);
  wait_for_answers(ids.size());
  std::vector<ThreadStack> stacks;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ThreadStack stack;
    stack.thread = thread_name(ids[i]) + " " + std::to_string(ids[i]);
    constexpr int kHandlerFrames = 2;  // the handler and the kernel's trampoline
    for (int f = kHandlerFrames; f < slots[i].count.load(); ++f) {
      stack.frames.push_back(frame_text(slots[i].frames[static_cast<std::size_t>(f)]));
    }
    stacks.push_back(std::move(stack));
  }
  slots_used = 0;
  return stacks;
}

}  // namespace harness
