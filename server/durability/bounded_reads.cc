// SPDX-License-Identifier: MIT
#include "server/durability/bounded_reads.h"

#include <utility>

#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "server/requests/engine_errors.h"
#include "server/waiting/one_answer.h"

namespace mnemon {

BoundedReads::BoundedReads(SessionStore& store, Waiters& waiters)
    : store_(store), waiters_(waiters) {
  try {
    for (size_t i = 0; i < kThreads; ++i) threads_.emplace_back([this] { Loop(); });
  } catch (...) {
    ending_ = true;
    work_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    throw;
  }
}

BoundedReads::~BoundedReads() {
  Stop();
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void BoundedReads::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  answered_.notify_all();
}

void BoundedReads::Loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [this] { return ending_ || !queue_.empty(); });
    if (queue_.empty()) return;
    std::function<void()> read = std::move(queue_.front());
    queue_.pop_front();
    ++reading_;
    const bool wanted = !stopped_;
    lock.unlock();
    if (wanted) read();
    read = nullptr;
    lock.lock();
    --reading_;
  }
}

template <class T>
absl::StatusOr<T> BoundedReads::Read(std::function<absl::StatusOr<T>()> read) {
  const auto outcome = std::make_shared<std::optional<absl::StatusOr<T>>>();
  OneAnswer<absl::StatusOr<T>> answer = [this, outcome](absl::StatusOr<T> found) {
    {
      std::lock_guard lock(mutex_);
      *outcome = std::move(found);
    }
    answered_.notify_all();
  };
  answer.Watch(waiters_, WaiterKind::kRead);
  const auto kind = static_cast<size_t>(WaiterKind::kRead);
  const bool hangs = waiters_.stats().kinds[kind].overdue > 0;
  std::unique_lock lock(mutex_);
  if (stopped_ || (hangs && reading_ + queue_.size() >= kThreads)) {
    const bool stopped = stopped_;
    lock.unlock();
    answer.Dismiss();
    return stopped ? engine_errors::Draining() : engine_errors::NoAnswer();
  }
  queue_.emplace_back([answer, read = std::move(read)] {
    answer(CatchOutOfMemory({}, [&] { return read(); }));
  });
  work_.notify_one();
  // The thread that reads has it.
  answer = nullptr;
  const auto done = [&] { return stopped_ || outcome->has_value(); };
  if (hangs) {
    answered_.wait_for(lock, kPatience, done);
  } else {
    answered_.wait(lock, done);
  }
  if (outcome->has_value()) return *std::move(*outcome);
  const bool stopped = stopped_;
  lock.unlock();
  return stopped ? engine_errors::Draining() : engine_errors::NoAnswer();
}

absl::StatusOr<std::optional<std::string>> BoundedReads::Get(StoreTable table,
                                                             const SessionKey& session,
                                                             std::string_view name) {
  return Read<std::optional<std::string>>([this, table, id = std::string(session.id),
                                           space = std::string(session.space),
                                           key = std::string(name)] {
    return store_.Get(table, {.id = id, .space = space}, key);
  });
}

absl::StatusOr<std::string> BoundedReads::GetSnapshot(const std::string& name) {
  return Read<std::string>([this, name] { return store_.GetSnapshot(name); });
}

absl::Status BoundedReads::ScanJournal(const SessionKey& session,
                                       const SessionStore::Visit& visit,
                                       const SessionStore::Unreadable& unreadable) {
  struct Found {
    std::string name, value;
    std::optional<UnreadableRange> gap;  // in place of both
  };
  using All = std::vector<Found>;
  const auto read = [this, id = std::string(session.id),
                     space = std::string(session.space)]() -> absl::StatusOr<All> {
    All all;
    absl::Status kept;
    // The store's functions are not to throw.
    const auto keep = [&](std::string_view name, std::string_view value,
                          const std::optional<UnreadableRange>& gap) {
      kept.Update(CatchOutOfMemory({}, [&] {
        all.push_back(
            {.name = std::string(name), .value = std::string(value), .gap = gap});
        return absl::OkStatus();
      }));
      return kept.ok();
    };
    MNEMON_RETURN_IF_ERROR(store_.Scan(
        StoreTable::kJournal, {.session = SessionKey{.id = id, .space = space}},
        [&](const SessionKey&, std::string_view name, std::string_view value) {
          return keep(name, value, std::nullopt);
        },
        [&](const UnreadableRange& gap) { keep({}, {}, gap); }));
    MNEMON_RETURN_IF_ERROR(kept);
    return all;
  };
  MNEMON_ASSIGN_OR_RETURN(const All all, Read<All>(read));
  for (const Found& found : all) {
    if (found.gap) {
      unreadable(*found.gap);
    } else if (!visit(session, found.name, found.value)) {
      return absl::OkStatus();
    }
  }
  return absl::OkStatus();
}

}  // namespace mnemon
