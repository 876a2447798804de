#include "emulated_fiber.h"

#include <csetjmp>
#include <cstdint>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace nsa::emulated {
namespace {

constexpr std::size_t kStackBytes = std::size_t{128} << 10;

// Stacks are used again: a grid has thousands of fibers.
std::vector<std::unique_ptr<std::byte[]>> free_stacks;

std::unique_ptr<std::byte[]> take_stack() {
  if (free_stacks.empty()) return std::unique_ptr<std::byte[]>(new std::byte[kStackBytes]);
  auto stack = std::move(free_stacks.back());
  free_stacks.pop_back();
  return stack;
}

}  // namespace

// swapcontext makes a system call each time; after the first entry jumps do.
struct Fiber::Jumps {
  jmp_buf inside;
  jmp_buf outside;
};

Fiber::Fiber(const std::function<void()>& body)
    : body_(body), stack_(take_stack()), jumps_(std::make_unique<Jumps>()) {}
Fiber::~Fiber() {
  free_stacks.push_back(std::move(stack_));
}

void Fiber::start(unsigned low, unsigned high) {
  const std::uintptr_t address = (static_cast<std::uintptr_t>(high) << 32) | low;
  reinterpret_cast<Fiber*>(address)->run();
}

void Fiber::run() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &outer_stack_, &outer_size_);
#endif
  try {
    body_();
  } catch (...) {
    error_ = std::current_exception();
  }
  done_ = true;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(nullptr, outer_stack_, outer_size_);
#endif
  _longjmp(jumps_->outside, 1);
}

void Fiber::enter() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&outer_fake_stack_, stack_.get(), kStackBytes);
#endif
  if (_setjmp(jumps_->outside) == 0) {
    if (started_) _longjmp(jumps_->inside, 1);
    started_ = true;
    getcontext(&inside_);
    inside_.uc_stack.ss_sp = stack_.get();
    inside_.uc_stack.ss_size = kStackBytes;
    inside_.uc_link = nullptr;
    const auto address = reinterpret_cast<std::uintptr_t>(this);
    makecontext(&inside_,
                reinterpret_cast<void (*)()>(&Fiber::start),
                2,
                static_cast<unsigned>(address),
                static_cast<unsigned>(address >> 32));
    setcontext(&inside_);
  }
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(outer_fake_stack_, nullptr, nullptr);
#endif
}

void Fiber::leave() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&fake_stack_, outer_stack_, outer_size_);
#endif
  if (_setjmp(jumps_->inside) == 0) _longjmp(jumps_->outside, 1);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake_stack_, &outer_stack_, &outer_size_);
#endif
}

}  // namespace nsa::emulated
