// SPDX-License-Identifier: MIT
#include "server/waiting/waiters.h"

#include <new>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/out_of_memory.h"
#include "base/strings.h"
#include "server/requests/engine_errors.h"

namespace mnemon {
namespace {

// Ended at once: the others are found again.
constexpr size_t kMostAtOnce = 256;

// Between two looks for what has waited too long.
constexpr std::chrono::milliseconds kOverdueLook{500};

}  // namespace

int64_t WaiterStats::overdue() const {
  int64_t count = 0;
  for (const Kind& kind : kinds) count += kind.overdue;
  return count;
}

std::string TextOf(const WaiterStats& stats) {
  std::string text;
  for (size_t kind = 0; kind < kWaiterKindCount; ++kind) {
    const int64_t count = stats.kinds[kind].waiting + stats.kinds[kind].overdue;
    if (count == 0) continue;
    text += StrCat(text.empty() ? "" : ", ", kWaiterKinds[kind], " ", count);
  }
  return text;
}

void Waiter::Leave() noexcept {
  if (waiters_ == nullptr) return;
  std::lock_guard lock(waiters_->mutex_);
  if (!std::exchange(listed_, false)) return;
  if (overdue_) --waiters_->overdue_now_;
  node_.splice(node_.end(), waiters_->ListOfLocked(*this), at_);
}

void Waiters::Start() {
  thread_ = std::thread([this] { Run(); });
}

void Waiters::Run() {
  std::unique_lock lock(mutex_);
  while (!ended_) {
    lock.unlock();
    try {
      EndOverdue();
    } catch (const std::bad_alloc&) {
      // Those that are left are told in the next turn.
    }
    lock.lock();
    if (!ended_) changed_.wait_for(lock, kOverdueLook);
  }
}

void Waiters::Add(WaiterKind kind, const std::shared_ptr<Waiter>& waiter) {
  waiter->kind_ = kind;
  waiter->since_ = clock_.Now();
  absl::Status ended;
  {
    std::lock_guard lock(mutex_);
    if (!ended_) {
      waiter->waiters_ = this;
      waiter->listed_ = true;
      List& list = ListOfLocked(*waiter);
      list.splice(list.end(), waiter->node_);
      return;
    }
    ended = *ended_;
  }
  waiter->End(ended);
}

void Waiters::EndOverdue() {
  const Time now = clock_.Now();
  const Time machine = std::chrono::steady_clock::now();
  for (size_t kind = 0; kind < kWaiterKindCount; ++kind) {
    const bool transfers = kind == static_cast<size_t>(WaiterKind::kTransfer);
    std::vector<std::shared_ptr<Waiter>> late;
    late.reserve(kMostAtOnce);
    int64_t seconds = 0;
    {
      std::lock_guard lock(mutex_);
      List& waiting = waiting_[kind];
      for (auto next = waiting.begin();
           next != waiting.end() && late.size() < kMostAtOnce;) {
        Waiter& waiter = **next;
        const auto at = next++;
        if (now - waiter.since_ <= (transfers ? kTransferBound : kBound)) break;
        if (!waiter.late_since_) waiter.late_since_ = machine;
        if (machine - *waiter.late_since_ < kPatience) continue;
        // Nothing refers to it any more: it is about to be answered.
        std::shared_ptr<Waiter> kept = waiter.weak_from_this().lock();
        if (kept == nullptr) continue;
        if (late.empty()) seconds = (now - kept->since_) / std::chrono::seconds(1);
        waiter.overdue_ = true;
        ++overdue_now_;
        ++overdue_total_[kind];
        overdue_[kind].splice(overdue_[kind].end(), waiting, at);
        late.push_back(std::move(kept));
      }
    }
    if (late.empty()) continue;
    LogEvent(LogLevel::kError, "answer_overdue",
             {{"kind", std::string(kWaiterKinds[kind])},
              {"count", static_cast<int64_t>(late.size())},
              {"seconds", seconds}});
    const absl::Status status = CatchOutOfMemory({}, engine_errors::NoAnswer);
    for (const std::shared_ptr<Waiter>& waiter : late) waiter->End(status);
  }
}

void Waiters::EndAll(const absl::Status& status) {
  std::unique_lock lock(mutex_);
  ended_ = status;
  lock.unlock();
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  lock.lock();
  while (true) {
    std::shared_ptr<Waiter> waiter;
    for (auto* lists : {&waiting_, &overdue_}) {
      for (List& list : *lists) {
        // One that nothing refers to leaves by itself, and answers.
        while (!list.empty() && waiter == nullptr) {
          Waiter& first = *list.front();
          waiter = first.weak_from_this().lock();
          first.listed_ = false;
          if (first.overdue_) --overdue_now_;
          first.node_.splice(first.node_.end(), list, list.begin());
        }
      }
    }
    if (waiter == nullptr) return;
    lock.unlock();
    waiter->End(status);
    waiter.reset();
    lock.lock();
  }
}

WaiterStats Waiters::stats() const {
  WaiterStats stats;
  std::lock_guard lock(mutex_);
  for (size_t kind = 0; kind < kWaiterKindCount; ++kind) {
    stats.kinds[kind] = {.waiting = static_cast<int64_t>(waiting_[kind].size()),
                         .overdue = static_cast<int64_t>(overdue_[kind].size()),
                         .overdue_total = overdue_total_[kind]};
  }
  return stats;
}

}  // namespace mnemon
