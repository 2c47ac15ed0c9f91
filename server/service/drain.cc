// SPDX-License-Identifier: MIT
#include "server/service/drain.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "server/requests/engine_errors.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

// Between searches for idle callers while calls have their grace.
constexpr milliseconds kIdlePeriod{250};
// For a call to send its last status once it is ended, and for one that is broken off
// to go.
constexpr milliseconds kEndingTime{500};
// For saving, after the grace, and when the grace is longer.
constexpr milliseconds kSavingTime{1000};
constexpr milliseconds kLongSaving{30000};

}  // namespace

Drain::Drain(Engine& engine, OpenCalls& calls, std::function<void()> end_idle)
    : engine_(engine), calls_(calls), end_idle_(std::move(end_idle)) {}

Drain::~Drain() {
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

absl::Status Drain::Start() {
  try {
    thread_ = std::thread([this] { Run(); });
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(StrCat("no thread to drain: ", error.what()));
  }
  return absl::OkStatus();
}

void Drain::Tell(std::function<void()> tell) {
  std::lock_guard lock(tell_mutex_);
  tell_ = std::move(tell);
}

void Drain::Begin(milliseconds grace) {
  // First of all: what comes after it needs no grace.
  engine_.Drain();
  {
    std::lock_guard lock(tell_mutex_);
    if (tell_) tell_();
  }
  calls_.LowerDeadline(SteadyClock::now() + grace);
  std::lock_guard lock(mutex_);
  begun_ = true;
  changed_.notify_all();
}

uint64_t Drain::Join(milliseconds grace, std::function<void()> on_drained) {
  Begin(grace);
  std::unique_lock lock(mutex_);
  const uint64_t id = next_id_++;
  if (!drained_) {
    waiters_.emplace(id, std::move(on_drained));
    return id;
  }
  lock.unlock();
  on_drained();
  return id;
}

bool Drain::Leave(uint64_t id) {
  std::lock_guard lock(mutex_);
  return waiters_.erase(id) > 0;
}

void Drain::Wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return drained_; });
}

void Drain::Run() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return begun_ || closing_; });
  if (!begun_) return;
  lock.unlock();
  EndCalls();
  if (!engine_.SaveSessions(
          std::min(calls_.deadline(), SteadyClock::now() + kLongSaving) +
          kSavingTime)) {
    LogWarning("not all states of sessions were saved: they will be computed again");
  }
  if (const size_t left = calls_.size(); left > 0) {
    LogWarning(StrCat("drained, but for calls that do not end: ", left));
  } else {
    LogInfo("drained: no call is left");
  }
  lock.lock();
  drained_ = true;
  const auto waiters = std::exchange(waiters_, {});
  changed_.notify_all();
  lock.unlock();
  for (const auto& [id, on_drained] : waiters) on_drained();
}

void Drain::EndCalls() {
  do {
    calls_.EndUnopened(engine_errors::Draining());
    end_idle_();
  } while (!calls_.WaitDrained(SteadyClock::now() + kIdlePeriod));
  const absl::Status status = engine_errors::GraceOver();
  if (const size_t cut = calls_.StopAll(status); cut > 0) {
    LogEvent(
        LogLevel::kWarning, "grace_over",
        {{"calls", static_cast<int64_t>(cut)}, {"waiting", TextOf(engine_.waiters())}});
  }
  calls_.WaitEmpty(SteadyClock::now() + kEndingTime);
  // Their callers do not read: gRPC has no way to send them more than the code.
  calls_.CancelAll(status);
  calls_.WaitEmpty(SteadyClock::now() + kEndingTime);
}

}  // namespace mnemon
