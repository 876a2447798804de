// A function that can be left and entered again, on a stack of its own.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>

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
  static void start(Fiber* self);
  void run();

  const std::function<void()>& body_;
  std::unique_ptr<std::byte[]> stack_;
  struct Context;
  std::unique_ptr<Context> context_;
  bool done_ = false;
  std::exception_ptr error_;
};

}  // namespace nsa::emulated
