// SPDX-License-Identifier: MIT
#include "server/rpc/poll_threads.h"

#include <sched.h>

#include <system_error>
#include <utility>

#include <grpc/support/time.h>
#include <grpcpp/alarm.h>

#include "base/strings.h"

namespace mnemon {
namespace {

constexpr int kThreads = 16;

}  // namespace

void PollThreads::AddTo(grpc::ServerBuilder& builder) {
  queue_ = builder.AddCompletionQueue();
}

absl::Status PollThreads::Start() {
  try {
    for (int i = 0; i < kThreads; ++i) threads_.emplace_back([this] { Poll(); });
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        StrCat("no thread to read connections: ", error.what()));
  }
  return absl::OkStatus();
}

void PollThreads::Run(std::function<void()> task) {
  auto entry = std::make_unique<grpc::Alarm>();
  {
    std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  grpc::Alarm& alarm = *entry;
  // Due at once; the thread that takes it out of the queue destroys it.
  alarm.Set(queue_.get(), gpr_inf_past(GPR_CLOCK_MONOTONIC), entry.release());
}

void PollThreads::Poll() {
  // What arrives does not interrupt a step, which all threads of a team wait for.
  const sched_param none = {};
  sched_setscheduler(0, SCHED_BATCH, &none);
  void* tag = nullptr;
  bool ok = false;
  while (queue_->Next(&tag, &ok)) {
    delete static_cast<grpc::Alarm*>(tag);
    std::unique_lock lock(mutex_);
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
  }
}

void PollThreads::Stop() {
  if (queue_ == nullptr) return;
  queue_->Shutdown();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  // It has to be empty before it goes; without threads nothing has emptied it.
  void* tag = nullptr;
  bool ok = false;
  while (queue_->Next(&tag, &ok)) delete static_cast<grpc::Alarm*>(tag);
  queue_.reset();
  tasks_.clear();
}

}  // namespace mnemon
