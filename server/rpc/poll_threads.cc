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

// An entry of the queue; destroyed by the thread that takes it out.
struct Task {
  std::function<void()> run;
  grpc::Alarm alarm;
};

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
  auto entry = std::make_unique<Task>();
  entry->run = std::move(task);
  grpc::Alarm& alarm = entry->alarm;
  // Due at once; the entry may be gone when this returns.
  alarm.Set(queue_.get(), gpr_inf_past(GPR_CLOCK_MONOTONIC), entry.release());
}

void PollThreads::Poll() {
  // What arrives does not interrupt a step, which all threads of a team wait for.
  const sched_param none = {};
  sched_setscheduler(0, SCHED_BATCH, &none);
  void* tag = nullptr;
  bool ok = false;
  while (queue_->Next(&tag, &ok)) {
    const std::unique_ptr<Task> task(static_cast<Task*>(tag));
    if (ok) task->run();
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
  while (queue_->Next(&tag, &ok)) delete static_cast<Task*>(tag);
  queue_.reset();
}

}  // namespace mnemon
