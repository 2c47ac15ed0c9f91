// SPDX-License-Identifier: MIT
// A fiber: a function with its own stack, which runs until it pauses and can be resumed
// there. AddressSanitizer is told of the change of stacks.
//
// Threads: all calls of a fiber on one thread.
#pragma once

// Not boost/context/fiber.hpp: that unwinds a stack that is given up, by an exception.
#include <boost/context/detail/fcontext.hpp>
#include <cstddef>

namespace mnemon {

// Stacks of equal size, each below a page without access, so that an overflow ends the
// process.
class FiberStacks {
 public:
  static constexpr size_t kBytes = size_t{128} << 10;

  explicit FiberStacks(size_t count);
  ~FiberStacks();
  FiberStacks(const FiberStacks&) = delete;
  FiberStacks& operator=(const FiberStacks&) = delete;

  size_t count() const { return count_; }
  // Prepares the stack for a new fiber, whatever the last one left there.
  char* Clean(size_t index);

 private:
  size_t count_;
  char* begin_;
};

class Fiber {
 public:
  // Runs on a stack of FiberStacks, at its lower end. `run` must not throw.
  Fiber(char* stack, void (*run)(void*), void* argument);
  // If it has not ended, its stack stays as it is: nothing there is destroyed.
  ~Fiber() = default;
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs it until it pauses or ends. REQUIRES: it has not ended, no fiber is running.
  void Resume();
  bool ended() const { return ended_; }
  // Called by the running fiber: returns to its Resume.
  void Pause();

 private:
  static void Begin(boost::context::detail::transfer_t resumer);

  char* const stack_;
  void (*const run_)(void*);
  void* const argument_;
  bool ended_ = false;
  // Where either continues.
  boost::context::detail::fcontext_t own_, resumer_ = nullptr;
  void* fake_stack_ = nullptr;  // AddressSanitizer's, of the fiber
  const void* resumer_stack_ = nullptr;
  size_t resumer_bytes_ = 0;
};

}  // namespace mnemon
