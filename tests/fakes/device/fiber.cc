// SPDX-License-Identifier: MIT
#include "tests/fakes/device/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <new>

#include "base/check.h"

// Null without AddressSanitizer.
extern "C" {
__attribute__((weak)) void __sanitizer_start_switch_fiber(void** fake_stack,
                                                          const void* bottom,
                                                          size_t size);
__attribute__((weak)) void __sanitizer_finish_switch_fiber(void* fake_stack,
                                                           const void** bottom,
                                                           size_t* size);
__attribute__((weak)) void __asan_unpoison_memory_region(void const volatile* begin,
                                                         size_t size);
}

namespace mnemon {

using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;
using boost::context::detail::transfer_t;

namespace {

size_t Guard() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

void StartSwitch(void** fake_stack, const void* bottom, size_t size) {
  if (__sanitizer_start_switch_fiber != nullptr)
    __sanitizer_start_switch_fiber(fake_stack, bottom, size);
}

void FinishSwitch(void* fake_stack, const void** bottom, size_t* size) {
  if (__sanitizer_finish_switch_fiber != nullptr)
    __sanitizer_finish_switch_fiber(fake_stack, bottom, size);
}

}  // namespace

FiberStacks::FiberStacks(size_t count) : count_(count) {
  const size_t each = kBytes + Guard();
  void* const begin = mmap(nullptr, count * each, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (begin == MAP_FAILED) throw std::bad_alloc();
  begin_ = static_cast<char*>(begin);
  for (size_t i = 0; i < count; ++i) {
    MNEMON_CHECK(mprotect(begin_ + i * each, Guard(), PROT_NONE) == 0);
  }
}

FiberStacks::~FiberStacks() {
  for (size_t i = 0; i < count_; ++i) Clean(i);
  munmap(begin_, count_ * (kBytes + Guard()));
}

char* FiberStacks::Clean(size_t index) {
  MNEMON_CHECK(index < count_);
  char* const stack = begin_ + index * (kBytes + Guard()) + Guard();
  if (__asan_unpoison_memory_region != nullptr)
    __asan_unpoison_memory_region(stack, kBytes);
  return stack;
}

Fiber::Fiber(char* stack, void (*run)(void*), void* argument)
    : stack_(stack),
      run_(run),
      argument_(argument),
      own_(make_fcontext(stack + FiberStacks::kBytes, FiberStacks::kBytes, &Begin)) {}

void Fiber::Resume() {
  MNEMON_CHECK(!ended_);
  void* fake_stack = nullptr;
  StartSwitch(&fake_stack, stack_, FiberStacks::kBytes);
  own_ = jump_fcontext(own_, this).fctx;
  FinishSwitch(fake_stack, nullptr, nullptr);
}

void Fiber::Pause() {
  // Nothing is kept of a fiber that has ended.
  StartSwitch(ended_ ? nullptr : &fake_stack_, resumer_stack_, resumer_bytes_);
  resumer_ = jump_fcontext(resumer_, nullptr).fctx;
  FinishSwitch(fake_stack_, &resumer_stack_, &resumer_bytes_);
}

void Fiber::Begin(transfer_t resumer) {
  auto* const self = static_cast<Fiber*>(resumer.data);
  self->resumer_ = resumer.fctx;
  FinishSwitch(nullptr, &self->resumer_stack_, &self->resumer_bytes_);
  self->run_(self->argument_);
  self->ended_ = true;
  self->Pause();
}

}  // namespace mnemon
