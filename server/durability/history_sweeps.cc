// SPDX-License-Identifier: MIT
#include "server/durability/history_sweeps.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/out_of_memory.h"
#include "server/durability/stored_journal.h"
#include "server/tasks/session_tasks.h"

namespace mnemon {
namespace {

using SteadyClock = std::chrono::steady_clock;

// Sessions whose states go, and that are written and synced, together.
constexpr size_t kAtOnce = 64;
// Where too few were found the next sweep waits so many times as long as it took.
constexpr int kPause = 4;
// Where the store has failed it waits for this long, whatever time that took.
constexpr std::chrono::milliseconds kPauseOfFailed{1000};
// Between two tries of MakeRoom: what else is given back tells nobody.
constexpr std::chrono::milliseconds kLook{5};

// A sweep reads the whole directory: it frees a part of the memory that makes up for
// it.
int64_t EighthOf(int64_t limit) { return limit / 8; }
bool NearlyFull(const ByteBudget& budget) {
  return budget.used() > budget.limit() - EighthOf(budget.limit());
}

}  // namespace

// One search through all sessions. It is over when nothing holds it: whatever does not
// go on with it, the next one may begin.
struct HistorySweeps::Sweep {
  explicit Sweep(HistorySweeps& its_owner) : owner(its_owner) {}
  ~Sweep() { owner.EndSweep(*this); }
  Sweep(const Sweep&) = delete;
  Sweep& operator=(const Sweep&) = delete;

  struct Unused {
    bool has_state = false;
    bool resident = true;
    bool sleeps = false;
    std::chrono::system_clock::time_point last_use;
    std::shared_ptr<Session> session;
  };
  HistorySweeps& owner;
  const SteadyClock::time_point begin = SteadyClock::now();
  int64_t target = 0;                // bytes
  bool sleep = false;                // whether all are to sleep whose history is gone
  std::vector<Unused> unused;        // in the order in which they go
  std::atomic<bool> in_use = false;  // there are others, which may go later
  size_t next = 0;
  std::vector<std::string> idle;  // ids of those whose histories are gone
  std::atomic<int64_t> freed = 0;
  std::atomic<size_t> under_way = 0;  // of those that are written together
  std::atomic<bool> failed = false;   // one of them could not be written
};

bool HistorySweeps::GiveUpHistories(int64_t bytes) {
  {
    std::unique_lock lock(mutex_);
    if (sweeping_) return true;
    if (stopping_) return false;
    if (SteadyClock::now() < next_sweep_) {
      if (!more_later_ || sweep_due_) return more_later_;
      CallbackList later;
      later.Add(MakeCallback([this] { SweepAgain(); }));
      sweep_due_ = true;
      lock.unlock();
      context_.sweeps.PostLater(later);
      return true;
    }
    sweeping_ = true;
  }
  std::shared_ptr<Sweep> sweep;
  try {
    sweep = std::make_shared<Sweep>(*this);
  } catch (const std::bad_alloc&) {
    std::lock_guard lock(mutex_);
    sweeping_ = false;
    return false;
  }
  sweep->target = std::max(bytes, EighthOf(context_.memory->shares.resting));
  sweep->sleep = SessionsShort() || NearlyFull(context_.memory->budget);
  try {
    context_.sweeps.Post(MakeCallback([this, sweep] {
      try {
        FindUnused(*sweep);
        UnloadSome(sweep);
      } catch (const std::bad_alloc&) {
        // What has begun goes on; else the sweep is over.
      }
    }));
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void HistorySweeps::SweepAgain() {
  {
    std::lock_guard lock(mutex_);
    sweep_due_ = false;
    next_sweep_ = {};
  }
  try {
    GiveUpHistories(0);
  } catch (const std::bad_alloc&) {
    // Who waits finds out.
    context_.recycler.GiveUpReserves();
  }
}

bool HistorySweeps::SessionsShort() const {
  const ByteBudget& sessions = context_.memory->small;
  const int64_t awake = sessions.used() - context_.directory.sleep().bytes() -
                        context_.memory->unusable.bytes();
  return sessions.used() > sessions.limit() / 4 * 3 &&
         awake > EighthOf(sessions.limit());
}

bool HistorySweeps::RestingShort() const {
  return NearlyFull(context_.memory->resting) || SessionsShort();
}

void HistorySweeps::KeepMemoryFree() noexcept {
  // Where states have taken the rest, those make way for what is needed.
  const EngineMemory& memory = *context_.memory;
  const bool histories = memory.histories.bytes() > EighthOf(memory.shares.resting);
  if (!RestingShort() && !(histories && NearlyFull(memory.budget))) return;
  try {
    GiveUpHistories(0);
  } catch (const std::bad_alloc&) {
    // Whoever needs memory asks again.
  }
}

bool HistorySweeps::MakeRoom(int64_t bytes, Short of,
                             const std::function<bool()>& fits) {
  if (fits()) return true;
  if (of == Short::kSessions && !SessionsShort()) return false;
  const ByteBudget& resting = context_.memory->resting;
  // Whoever leaves, there would be no room.
  if (of == Short::kResting && bytes > resting.limit()) return false;
  const auto deadline = SteadyClock::now() + kPatience;
  while (SteadyClock::now() < deadline) {
    // States that make way do not help where sessions have all that they may.
    const bool only =
        of == Short::kSessions || resting.used() > resting.limit() - bytes;
    if (!(only ? GiveUpHistories(bytes) : context_.AskForMemory(bytes))) return false;
    {
      std::unique_lock lock(mutex_);
      if (stopping_) return false;
      freed_.wait_for(lock, kLook);
    }
    if (fits()) return true;
  }
  return false;
}

void HistorySweeps::FindUnused(Sweep& sweep) const {
  context_.directory.ForEachAwake([&](const std::shared_ptr<Session>& session) {
    if (session->journal == nullptr || !session->journal->durable()) return;
    const auto facts = context_.directory.FactsOf(*session);
    // A state keeps its session in use.
    bool has_state = session->in_runner.in_memory();
    bool resident = session->resident && facts.tokens > 0;
    for (const SessionCheckpoint& checkpoint :
         context_.directory.checkpoints().Of(*session)) {
      has_state = has_state || checkpoint.at->in_runner.in_memory();
      resident = resident || checkpoint.at->resident;
    }
    // A prompt that was not computed stays with its session as long as that is awake.
    const auto newest = context_.directory.calls().NewestCall(*session);
    const bool sleeps = sweep.sleep || (newest && !newest->prompt.empty());
    if (!resident && !sleeps) return;
    if (facts.held || (!has_state && session->history_uses > 0)) {
      sweep.in_use = true;
      return;
    }
    sweep.unused.push_back({.has_state = has_state,
                            .resident = resident,
                            .sleeps = sleeps,
                            .last_use = facts.last_use_time,
                            .session = session});
  });
  std::ranges::sort(sweep.unused, {}, [](const Sweep::Unused& unused) {
    return std::pair(unused.has_state, unused.last_use);
  });
}

void HistorySweeps::UnloadSome(const std::shared_ptr<Sweep>& sweep) {
  if (!sweep->idle.empty()) return SleepSome(sweep);
  const size_t begin = sweep->next;
  const size_t end = std::min(begin + kAtOnce, sweep->unused.size());
  if (begin == end || sweep->freed >= sweep->target) return;
  sweep->next = end;
  sweep->under_way = end - begin;
  for (size_t i = begin; i < end; ++i) {
    Sweep::Unused& unused = sweep->unused[i];
    const std::shared_ptr<Session> session = std::move(unused.session);
    if (unused.sleeps) sweep->idle.push_back(session->id);
    if (!unused.resident) {
      OneDone(sweep);
    } else if (!unused.has_state) {
      UnloadWritten(session, sweep);
    } else {
      OnAnswer<bool> dropped = [this, sweep, session](const absl::StatusOr<bool>&) {
        UnloadWritten(session, sweep);
      };
      dropped.Watch(context_.waiters, WaiterKind::kUnload);
      stores_.runners[session->model]->Do(
          MakeDropTask(session, context_.sweeps, std::move(dropped)));
    }
  }
}

void HistorySweeps::OneDone(const std::shared_ptr<Sweep>& sweep,
                            const absl::Status& status) {
  // Where nothing is stored any more, nothing else would go either.
  if (!status.ok() && !absl::IsNotFound(status)) sweep->failed = true;
  if (--sweep->under_way > 0 || sweep->failed) return;
  context_.sweeps.Post(MakeCallback([this, sweep] {
    try {
      UnloadSome(sweep);
    } catch (const std::bad_alloc&) {
      // The sweep is over.
    }
  }));
}

void HistorySweeps::Count(Sweep& sweep, int64_t freed) {
  sweep.freed += freed;
  if (freed > 0) {
    freed_.notify_all();
  } else {
    sweep.in_use = true;
  }
}

int64_t HistorySweeps::Unload(Session& session) {
  // Who loads one at this moment uses it.
  const std::unique_lock loading(stores_.LoadingOf(session), std::try_to_lock);
  if (!loading || session.in_runner.in_memory()) return 0;
  // One without tokens has nothing to unload but its checkpoints, and one that has left
  // already may have left them behind.
  const auto facts = context_.directory.FactsOf(session);
  if (facts.held) return 0;
  const bool whole = session.resident && facts.tokens > 0;
  if (whole && !context_.directory.SetStored(session)) return 0;
  if (session.history_uses > 0 || !JournalOf(session).AllStored()) {
    if (whole) context_.directory.SetResident(session);
    return 0;
  }
  const auto bytes = [](const Session& of) {
    return of.history.BytesOf(of.stored_tokens);
  };
  int64_t freed = 0;
  if (whole) {
    freed = bytes(session);
    session.history.Unload();
  }
  for (const SessionCheckpoint& checkpoint :
       context_.directory.checkpoints().Of(session)) {
    Session& at = *checkpoint.at;
    if (!at.resident || at.in_runner.in_memory() ||
        !session.journal->HasCheckpoint(checkpoint.id)) {
      continue;
    }
    at.resident = false;
    at.history.Unload();
    freed += bytes(at);
  }
  ++unloaded_;
  return freed;
}

void HistorySweeps::UnloadWritten(const std::shared_ptr<Session>& session,
                                  const std::shared_ptr<Sweep>& sweep) {
  session->journal->Flush(WaiterKind::kUnload,
                          [this, sweep, session](const absl::Status& status) {
                            if (status.ok()) Count(*sweep, Unload(*session));
                            OneDone(sweep, status);
                          });
}

void HistorySweeps::SleepSome(const std::shared_ptr<Sweep>& sweep) {
  const std::vector<std::string> ids = std::exchange(sweep->idle, {});
  sweep->under_way = ids.size();
  for (const std::string& id : ids) {
    const auto journal = context_.directory.JournalOf(id);
    if (journal == nullptr) {
      OneDone(sweep);
      continue;
    }
    // Nobody is to have it but the directory.
    journal->Flush(WaiterKind::kUnload, [this, sweep, id](const absl::Status& status) {
      OneDone(sweep, CatchOutOfMemory({}, [&] {
                if (status.ok()) Count(*sweep, context_.directory.sleep().Sleep(id));
                return status;
              }));
    });
  }
}

void HistorySweeps::Stop() {
  std::lock_guard lock(mutex_);
  stopping_ = true;
  freed_.notify_all();
}

void HistorySweeps::EndSweep(const Sweep& sweep) {
  {
    std::lock_guard lock(mutex_);
    sweeping_ = false;
    const auto now = SteadyClock::now();
    if (sweep.failed) {
      next_sweep_ = now + kPauseOfFailed;
    } else if (sweep.freed < sweep.target) {
      next_sweep_ = now + kPause * (now - sweep.begin);
    }
    more_later_ = sweep.in_use || sweep.freed > 0;
  }
  freed_.notify_all();
  // Wakes who waits for memory.
  context_.recycler.GiveUpReserves();
}

}  // namespace mnemon
