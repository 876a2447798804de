// A function that can be left and entered again, on a stack of its own.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <ucontext.h>

namespace nsa::emulated {

class Fiber {
 public:
  // Refers to `body`, which must outlive it.
  explicit Fiber(const std::function<void()>& body);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  void enter();  // until the body leaves or ends
  void leave();  // from within the body
  [[nodiscard]] bool done() const { return done_; }
  [[nodiscard]] std::exception_ptr error() const { return error_; }

 private:
  static void start(unsigned low, unsigned high);
  void run();
  void swap(ucontext_t& from, ucontext_t& to, bool into);

  const std::function<void()>& body_;
  std::unique_ptr<std::byte[]> stack_;
  ucontext_t inside_{};
  ucontext_t outside_{};
  bool started_ = false;
  bool done_ = false;
  std::exception_ptr error_;
  const void* outer_stack_ = nullptr;
  std::size_t outer_size_ = 0;
  void* fake_stack_ = nullptr;
  void* outer_fake_stack_ = nullptr;
  struct Jumps;
  std::unique_ptr<Jumps> jumps_;
};

}  // namespace nsa::emulated
