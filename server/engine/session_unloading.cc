// SPDX-License-Identifier: MIT
// How histories leave memory.
#include <algorithm>
#include <atomic>
#include <utility>

#include "base/out_of_memory.h"
#include "server/engine/session_persistence.h"
#include "server/engine/session_tasks.h"

namespace mnemon {
namespace {

using SteadyClock = std::chrono::steady_clock;

// Sessions whose states go, and that are written and synced, together.
constexpr size_t kAtOnce = 64;
// Where too few were found the next sweep waits so many times as long as it took.
constexpr int kPause = 4;

// A sweep reads the whole directory: it frees a part of the memory that makes up for
// it.
int64_t Part(int64_t limit) { return limit / 8; }

}  // namespace

// One search through all sessions.
struct SessionPersistence::Sweep {
  struct Unused {
    bool has_state;
    std::chrono::system_clock::time_point last_use;
    std::shared_ptr<Session> session;
  };
  const SteadyClock::time_point begin = SteadyClock::now();
  int64_t target = 0;          // bytes
  std::vector<Unused> unused;  // in the order in which they go
  size_t next = 0;
  std::atomic<int64_t> freed = 0;
  std::atomic<size_t> under_way = 0;  // of those that are written together
};

bool SessionPersistence::GiveUpHistories(int64_t bytes) {
  {
    std::lock_guard lock(mutex_);
    if (sweeping_) return true;
    if (stopping_ || SteadyClock::now() < next_sweep_) return false;
    sweeping_ = true;
  }
  const auto sweep = std::make_shared<Sweep>();
  const absl::Status begun = CatchOutOfMemory({}, [&] {
    sweep->target = std::max(bytes, Part(context_.memory->budget.limit()));
    context_.snapshots.Post(MakeCallback([this, sweep] {
      const absl::Status found = CatchOutOfMemory({}, [&] {
        FindUnused(*sweep);
        return absl::OkStatus();
      });
      found.ok() ? UnloadSome(sweep) : EndSweep(*sweep);
    }));
    return absl::OkStatus();
  });
  if (!begun.ok()) EndSweep(*sweep);
  return begun.ok();
}

void SessionPersistence::KeepMemoryFree() noexcept {
  const ByteBudget& budget = context_.memory->budget;
  if (budget.used() <= budget.limit() - Part(budget.limit())) return;
  try {
    GiveUpHistories(0);
  } catch (const std::bad_alloc&) {
    // Whoever needs memory asks again.
  }
}

void SessionPersistence::FindUnused(Sweep& sweep) const {
  std::string after;
  for (bool more = true; more;) {
    const auto sessions = context_.directory.After(after, kAtOnce);
    for (const auto& session : sessions) {
      const auto& journal = session->journal;
      const bool has_state = session->state_bytes > 0 || session->image_bytes > 0;
      // A state keeps its session in use.
      if (journal == nullptr || !journal->durable() || !session->resident ||
          (!has_state && session->history_uses > 0)) {
        continue;
      }
      const auto facts = context_.directory.FactsOf(*session);
      if (facts.held || facts.tokens == 0) continue;
      sweep.unused.push_back({.has_state = has_state,
                              .last_use = facts.last_use_time,
                              .session = session});
    }
    more = sessions.size() == kAtOnce;
    if (more) after = sessions.back()->id;
  }
  std::sort(sweep.unused.begin(), sweep.unused.end(), [](const auto& a, const auto& b) {
    return std::pair(a.has_state, a.last_use) < std::pair(b.has_state, b.last_use);
  });
}

void SessionPersistence::UnloadSome(const std::shared_ptr<Sweep>& sweep) {
  const size_t begin = sweep->next;
  const size_t end = std::min(begin + kAtOnce, sweep->unused.size());
  if (begin == end || sweep->freed >= sweep->target) return EndSweep(*sweep);
  sweep->next = end;
  sweep->under_way = end - begin;
  for (size_t i = begin; i < end; ++i) {
    const std::shared_ptr<Session> session = std::move(sweep->unused[i].session);
    if (!sweep->unused[i].has_state) {
      UnloadWritten(session, sweep);
      continue;
    }
    runners_[session->model]->Do(MakeDropTask(
        session, context_.directory,
        [this, sweep, session](const auto&) { UnloadWritten(session, sweep); }));
  }
}

void SessionPersistence::UnloadWritten(const std::shared_ptr<Session>& session,
                                       const std::shared_ptr<Sweep>& sweep) {
  session->journal->Flush([this, sweep, session](const absl::Status& status) {
    if (status.ok()) sweep->freed += Unload(*session);
    if (--sweep->under_way > 0) return;
    // Where nothing is stored any more, nothing else would go either.
    if (!status.ok()) return EndSweep(*sweep);
    context_.snapshots.Post(MakeCallback([this, sweep] { UnloadSome(sweep); }));
  });
}

int64_t SessionPersistence::Unload(Session& session) {
  // Who loads one at this moment uses it.
  const std::unique_lock loading(LoadingOf(session), std::try_to_lock);
  if (!loading || session.state_bytes > 0 || session.image_bytes > 0 ||
      !context_.directory.SetStored(session)) {
    return 0;
  }
  if (session.history_uses > 0 || !session.journal->AllStored()) {
    context_.directory.SetResident(session);
    return 0;
  }
  const auto bytes = [](const Session& of) {
    return of.history.BytesOf(of.stored_tokens);
  };
  int64_t freed = bytes(session);
  session.history.Unload();
  for (const SessionCheckpoint& checkpoint :
       context_.directory.CheckpointsOf(session)) {
    Session& at = *checkpoint.at;
    if (!at.resident || at.state_bytes > 0 || at.image_bytes > 0 ||
        !session.journal->HasCheckpoint(checkpoint.id)) {
      continue;
    }
    at.resident = false;
    at.history.Unload();
    freed += bytes(at);
  }
  std::lock_guard lock(mutex_);
  ++stats_.unloaded;
  return freed;
}

void SessionPersistence::EndSweep(const Sweep& sweep) {
  {
    std::lock_guard lock(mutex_);
    sweeping_ = false;
    const auto now = SteadyClock::now();
    if (sweep.freed < sweep.target) next_sweep_ = now + kPause * (now - sweep.begin);
  }
  // Wakes who waits for memory.
  context_.recycler.GiveUpReserves();
}

}  // namespace mnemon
