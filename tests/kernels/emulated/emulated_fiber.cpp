#include "emulated_fiber.h"

#include <cstdint>
#include <vector>

#if !defined(__x86_64__)
#include <ucontext.h>
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

#if defined(__x86_64__)

// Stores the registers that a call keeps on this stack and goes on with another one: swapcontext makes a system call each
// time, and a kernel's lanes switch millions of times.
extern "C" void nsa_switch_stack(void** from, void* to);
asm(R"(
.text
.globl nsa_switch_stack
.type nsa_switch_stack, @function
nsa_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size nsa_switch_stack, .-nsa_switch_stack
.globl nsa_start_stack
.type nsa_start_stack, @function
nsa_start_stack:
  movq %r12, %rdi
  call *%r13
  ud2
.size nsa_start_stack, .-nsa_start_stack
)");
extern "C" void nsa_start_stack();

struct Fiber::Context {
  void* inside = nullptr;
  void* outside = nullptr;
};

Fiber::Fiber(const std::function<void()>& body)
    : body_(body), stack_(take_stack()), context_(std::make_unique<Context>()) {
  const auto top =
      (reinterpret_cast<std::uintptr_t>(stack_.get()) + kStackBytes) & ~std::uintptr_t{15};
  // As nsa_switch_stack leaves it: six registers, then where to go on; 16-byte alignment at the call.
  auto* frame = reinterpret_cast<std::uintptr_t*>(top) - 9;
  frame[0] = frame[1] = 0;
  frame[2] = reinterpret_cast<std::uintptr_t>(&Fiber::start);  // r13
  frame[3] = reinterpret_cast<std::uintptr_t>(this);           // r12
  frame[4] = frame[5] = 0;
  frame[6] = reinterpret_cast<std::uintptr_t>(&nsa_start_stack);
  frame[7] = frame[8] = 0;
  context_->inside = frame;
}

void Fiber::enter() {
  nsa_switch_stack(&context_->outside, context_->inside);
}
void Fiber::leave() {
  nsa_switch_stack(&context_->inside, context_->outside);
}

#else

struct Fiber::Context {
  ucontext_t inside;
  ucontext_t outside;
  static void run(unsigned low, unsigned high) {
    const auto address = (static_cast<std::uintptr_t>(high) << 32) | low;
    Fiber::start(reinterpret_cast<Fiber*>(address));
  }
};

Fiber::Fiber(const std::function<void()>& body)
    : body_(body), stack_(take_stack()), context_(std::make_unique<Context>()) {
  getcontext(&context_->inside);
  context_->inside.uc_stack.ss_sp = stack_.get();
  context_->inside.uc_stack.ss_size = kStackBytes;
  context_->inside.uc_link = nullptr;
  const auto address = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(this));
  makecontext(&context_->inside,
              reinterpret_cast<void (*)()>(&Context::run),
              2,
              static_cast<unsigned>(address),
              static_cast<unsigned>(address >> 32));
}

void Fiber::enter() {
  swapcontext(&context_->outside, &context_->inside);
}
void Fiber::leave() {
  swapcontext(&context_->inside, &context_->outside);
}

#endif

Fiber::~Fiber() {
  free_stacks.push_back(std::move(stack_));
}

void Fiber::start(Fiber* self) {
  self->run();
}

void Fiber::run() {
  try {
    body_();
  } catch (...) {
    error_ = std::current_exception();
  }
  done_ = true;
  leave();
}

}  // namespace nsa::emulated
