// SPDX-License-Identifier: MIT
// The plan of the next step, and the blocks for it.
#include <algorithm>
#include <utility>

#include "server/engine/engine_errors.h"
#include "server/engine/model_runner.h"

namespace mnemon {

void ModelRunner::Plan() {
  const Time now = IdleNow();
  const bool growing = arena_->spec().growing();
  constexpr StepBudget kShape;
  int64_t least_served = -1;
  for (const auto& call : running_) {
    if (call->prefill_served < 0 || call->prompt_done) continue;
    if (least_served < 0 || call->prefill_served < least_served) {
      least_served = call->prefill_served;
    }
  }
  chunks_.clear();
  starved_.clear();
  planned_blocks_ = planned_fixed_ = 0;
  recycling_ = arena_->pools().blocks_recycling() > 0;
  for (auto next = running_.begin(); next != running_.end();) {
    const auto at = next++;
    Call* const call = at->get();
    const bool starved = std::exchange(call->starved, false);
    if (call->end_later) continue;
    const Call::UnderWay& under_way = call->under_way;
    SlotState& state = call->session->state;
    if (state.can_roll_back_call() &&
        (call->stream->delivered() > 0 || call->runs_on())) {
      state.KeepPrompt(*arena_);
    }
    const int64_t kept = call->kept();
    state.ReleaseUnreachable(*arena_, kept, state.computed(*arena_) - under_way.tokens);
    const int64_t space = call->stream->space() - under_way.results;
    const int64_t to_compute = call->to_compute() + DrawnAhead(*call);
    const bool behind = state.computed(*arena_) < to_compute;
    int64_t available = behind ? state.ChunkLimit(*arena_, to_compute, kept) : 0;
    if (call->scoring) available = std::min(available, space);
    // The last token of the prompt comes alone: so it can tell of its step.
    if (call->introspection.any() && available > 1 &&
        state.computed(*arena_) + available == to_compute) {
      --available;
    }
    if (!WaitsForCaller(*call)) {
      call->stalled_since.reset();
    } else if (!call->stalled_since) {
      call->stalled_since = now;
      call->prefill_served = -1;
    }
    if (call->stalled_since && under_way.steps == 0) {
      SetAside(at);
      continue;
    }
    if (available <= 0 || space <= 0 || call->stalled_since) continue;
    if (call->preempted_at && !GoesOn(*call)) {
      call->starved = true;
      starved_.push_back(call);
      continue;
    }
    // A call that joins starts level with the one served least, not ahead of all.
    if (call->prefill_served < 0)
      call->prefill_served = std::max<int64_t>(0, least_served);
    ScheduledChunk chunk{.call = call,
                         .position = state.computed(*arena_),
                         .available = available,
                         .prefill_served = call->prefill_served,
                         .kept = kept,
                         .was_starved = starved};
    if (growing) {
      const int64_t within = chunk.position % kShape.block_positions;
      // A block that others hold too is replaced by a copy first.
      chunk.free_positions = arena_->BlocksNeeded(state.slot(), 1) > 0
                                 ? -within
                                 : kShape.block_positions - within;
      chunk.reserved_blocks = PromisedTo(*call);
    }
    chunks_.push_back(std::move(chunk));
  }
  const int64_t unreserved = FreeBlocks(WantedBlocks());
  ScheduleStep(chunks_, {.tokens = context_->options.step_tokens,
                         .free_blocks = unreserved + PromisedBlocks(),
                         .unreserved_blocks = unreserved});
  PlanFixed();
  for (const ScheduledChunk& chunk : chunks_) {
    if (!chunk.starved) {
      unblocked_ = unblocked_ || (chunk.was_starved && chunk.count > 0);
      continue;
    }
    chunk.call->starved = true;
    starved_.push_back(chunk.call);
  }
  std::erase_if(chunks_, [](const ScheduledChunk& chunk) { return chunk.count == 0; });
  int64_t step_blocks = 0;
  for (const ScheduledChunk& chunk : chunks_) {
    const int64_t needed =
        arena_->BlocksNeeded(chunk.call->session->state.slot(), chunk.count);
    step_blocks += needed;
    planned_blocks_ += std::max<int64_t>(0, needed - chunk.reserved_blocks);
  }
  if (!chunks_.empty()) HasMemory();
  // States at rest are dropped before a call has to pause for long.
  if (!starved_.empty() && !chunks_.empty()) {
    MakeRoom(static_cast<int64_t>(starved_.size()));
  }
  arena_->pools().SetAside(step_blocks, planned_fixed_);
}

void ModelRunner::SetAside(Calls::iterator call) {
  const Call& stalled = **call;
  stalled_counts_.named += stalled.nameless() ? 0 : 1;
  stalled_counts_.bytes += stalled.session->state.bytes(*arena_);
  stalled_counts_.promised += PromisedTo(stalled);
  SetEarlier(stalled_counts_.due, DueOf(stalled));
  SetEarlier(stalled_counts_.deadline, stalled.deadline);
  stalled_.splice(stalled_.end(), running_, call);
}

int64_t ModelRunner::DrawnAhead(const Call& call) const {
  const int64_t drawn = call.under_way.results;
  if (drawn == 0 || call.scoring || !model_.decoder->draws()) return 0;
  // The last of them ends the call, as CommitToken will find.
  const int64_t last = call.session->history.size() + drawn - 1;
  const bool ends = call.generated + drawn >= call.max_tokens || last >= context_limit_;
  return ends ? 0 : drawn;
}

int64_t ModelRunner::WantedBlocks() const {
  int64_t wanted = 0;
  for (const ScheduledChunk& chunk : chunks_) {
    const int64_t count = std::min(chunk.available, StepBudget{}.chunk);
    wanted += std::max<int64_t>(
        0, arena_->BlocksNeeded(chunk.call->session->state.slot(), count) -
               chunk.reserved_blocks);
  }
  return wanted;
}

int64_t ModelRunner::FreeFixed(int64_t wanted) {
  return arena_->pools().FreeFixed(wanted + planned_fixed_) - planned_fixed_;
}

void ModelRunner::PlanFixed() {
  if (arena_->spec().fixed_elements() == 0) return;
  // At most one for each: a step copies what a shadow or another slot shares.
  const auto wanted = static_cast<int64_t>(chunks_.size());
  if (FreeFixed(wanted) < wanted) MakeFixedRoom(wanted);
  const int64_t free = FreeFixed(wanted);
  for (ScheduledChunk& chunk : chunks_) {
    if (chunk.count == 0) continue;
    if (planned_fixed_ < free) {
      ++planned_fixed_;
    } else {
      chunk.count = 0;
      chunk.starved = true;
    }
  }
}

bool ModelRunner::StatesFit(int64_t bytes) const {
  if (arena_->spec().fixed_elements() == 0) return true;
  return arena_->pools().bytes_left() - PromisedBlocks() * block_bytes_ >= bytes;
}

bool ModelRunner::MakeFixedRoom(int64_t needed, std::optional<int64_t> bytes,
                                const Session* except) {
  bool any = false;
  while (!resting_.empty() &&
         (FreeFixed(needed) < needed || (bytes && !StatesFit(*bytes)))) {
    Session& session = *resting_.front();
    if (&session == except) break;
    if (room_left_-- <= 0) {
      room_unfinished_ = true;
      break;
    }
    MakeWay(session);
    any = true;
  }
  return any;
}

bool ModelRunner::AskForMemory(int64_t blocks, int64_t fixed) {
  if (arena_->pools().blocks() == 0) blocks = 0;
  // Where the model's own limit is reached, memory of others does not help.
  const int64_t left =
      arena_->pools().blocks() - arena_->pools().blocks_used() - PromisedBlocks();
  const bool blocks_missing = blocks <= left && FreeBlocks(blocks) < blocks;
  const bool missing = blocks_missing || FreeFixed(fixed) < fixed;
  if (!missing && blocks > left) return false;
  const int64_t fixed_bytes = arena_->spec().bytes_at(0);
  const auto now = std::chrono::steady_clock::now();
  const auto waits = [&](std::optional<Time>& since, Time::duration most) {
    if (!since) since = now;
    if (now - *since <= most) return true;
    since.reset();
    return false;
  };
  // Others may take what was given up first.
  if (missing &&
      context_->AskForMemory(blocks * block_bytes_ + fixed * fixed_bytes, index_)) {
    return waits(promised_since_, kMemoryPromised);
  }
  // It has come just now, or is on its way through the threads of others, where nobody
  // sees it for a while.
  if (!waits(short_since_, kMemoryOnItsWay)) return false;
  context_->recycler.GiveUpReserves();
  return true;
}

void ModelRunner::GiveUpStates() {
  int64_t bytes = asked_.exchange(0);
  if (bytes == 0) return;
  for (; bytes > 0 && !left_.empty() && room_left_ > 0; --room_left_) {
    bytes -= left_.front()->image_bytes;
    DropFirstImage();
  }
  while (state_on_host_ && bytes > 0 && !resting_.empty() && room_left_-- > 0) {
    Session& session = *resting_.front();
    bytes -= session.state.bytes(*arena_);
    DropState(session);
  }
  arena_->pools().DropBlank();
  arena_->pools().SetAside(0, 0);
  // In any case: who asked is woken after it.
  context_->recycler.GiveUpReserves();
}

bool ModelRunner::ResolveStarvation() {
  if (starved_.empty() && starting_.empty()) return false;
  // What a step under way leads to may be enough.
  if (stepper_.under_way() > 0) return false;
  // Recycled blocks wake the runner once they are clean.
  if (recycling_ || arena_->pools().blocks_recycling() > 0) return false;
  // For calls that start, TryAdmit has made room.
  if (!starved_.empty() && MakeRoom(1)) return true;
  if (!starved_.empty() && MakeFixedRoom(1)) return true;
  if (room_unfinished_) return false;
  if (DropStalled()) return true;
  if (starved_.empty()) return false;
  // Calls that hold something come last, and of them the one that was admitted last.
  const auto order = [](const Call* call) {
    return std::pair(!call->preempted_at, call->admission);
  };
  const std::shared_ptr<Call> victim =
      (*std::max_element(
           starved_.begin(), starved_.end(),
           [&](const Call* a, const Call* b) { return order(a) < order(b); }))
          ->shared_from_this();
  const int64_t blocks =
      victim->preempted_at
          ? BlocksFor(*victim->session, victim->session->history.size())
          : 1;
  if (AskForMemory(blocks, 1)) return false;
  const bool alone = std::none_of(starved_.begin(), starved_.end(), [&](const Call* c) {
    return c != victim.get() && !c->preempted_at;
  });
  if (alone && DropShared()) return true;
  if (alone && PinsEnd()) return false;
  starved_.clear();
  if (!alone) {
    Preempt(*victim);
    return true;
  }
  const bool gave = victim->gave();
  // Only a call that leaves nothing behind is worth a plain repetition.
  End(victim, engine_errors::NoFreeBlocks(gave ? std::nullopt
                                               : std::optional(TimeToNextEnd())));
  // Its blocks are what the others wait for; the next call computes the state again.
  if (!victim->session->forgotten) DropState(*victim->session);
  return true;
}

bool ModelRunner::DropShared() {
  if (resting_.empty()) return false;
  MakeWay(*resting_.front());
  room_unfinished_ = true;
  return true;
}

bool ModelRunner::PinsEnd() const {
  const auto replays = [](const Calls& calls) {
    return std::count_if(calls.begin(), calls.end(),
                         [](const auto& call) { return call->keeps_state; });
  };
  if (pins_ == 0) return false;
  std::lock_guard lock(mutex_);
  return pins_ > replays(running_) + replays(stalled_) + replays(starting_) +
                     replays(started_) + replays(queue_);
}

void ModelRunner::Preempt(Call& call) {
  call.session->state.Reset(*arena_);
  call.reserved_blocks = 0;
  call.preempted_at = round_;
  UpdateBytes(*call.session);
  ++counts_.preemptions;
}

bool ModelRunner::GoesOn(Call& call) {
  const Session& session = *call.session;
  const int64_t needed = BlocksFor(session, session.history.size());
  const int64_t others =
      std::count_if(running_.begin(), running_.end(), [&](const auto& other) {
        return other.get() != &call && !other->preempted_at && !other->stalled_since;
      });
  // Else it is preempted again soon, and has computed its history for nothing.
  const int64_t room = others == 0 ? 0 : others + needed / 4;
  // What it gave up is for those that waited.
  if (room > 0 && *call.preempted_at == round_) return false;
  // Of fixed entries its own, and a shadow.
  constexpr int64_t kFixed = 2;
  const bool fixed = arena_->spec().fixed_elements() > 0;
  if (needed + room > FreeBlocks(needed + room)) MakeRoom(needed + room);
  if (fixed && FreeFixed(kFixed) < kFixed) MakeFixedRoom(kFixed);
  if (needed + room > FreeBlocks(needed + room)) return false;
  if (fixed && FreeFixed(kFixed) < kFixed) return false;
  call.preempted_at.reset();
  call.reserved_blocks = needed;
  return true;
}

bool ModelRunner::CopiesLastBlock(const Session& session) const {
  // A block that is partly filled has room for a row.
  return session.state.computed(*arena_) % StepBudget{}.block_positions != 0 &&
         arena_->BlocksNeeded(session.state.slot(), 1) > 0;
}

void ModelRunner::DropSource(const Call& call) {
  if (!call.scoring || !call.scoring->source) return;
  Session& source = *call.scoring->source;
  if (source.state.has_state() && source.call == nullptr) DropState(source);
}

bool ModelRunner::DropStalled() {
  LookAtStalled();
  Call* last = nullptr;
  for (const auto& call : running_) {
    if (!call->stalled_since) continue;
    const SlotState& state = call->session->state;
    if (arena_->UnsharedBlocks(state.slot(), 1) == 0 &&
        (arena_->spec().fixed_elements() == 0 || state.computed(*arena_) == 0)) {
      continue;
    }
    if (last == nullptr || call->admission > last->admission) last = call.get();
  }
  if (last == nullptr) return false;
  // It keeps its slot, and computes its history again when its caller reads or sends.
  last->session->state.Reset(*arena_);
  last->reserved_blocks = 0;
  UpdateBytes(*last->session);
  return true;
}

int64_t ModelRunner::BlocksFor(const Session& session, int64_t tokens) const {
  if (!arena_->spec().growing()) return 0;
  int64_t blocks = arena_->BlocksNeeded(session.state.slot(), tokens);
  if (arena_->spec().growth() == Growth::kRing) {
    // Its oldest blocks come back on the way.
    constexpr StepBudget kShape;
    const int64_t rows = arena_->spec().capacity() + 2 * kShape.chunk;
    const int64_t most =
        (rows + kShape.block_positions - 1) / kShape.block_positions + 1;
    blocks = std::min(blocks, std::max<int64_t>(0, most - BlocksHeld(session)));
  }
  return blocks;
}

int64_t ModelRunner::BlocksHeld(const Session& session) const {
  if (block_bytes_ == 0 || !session.state.has_state()) return 0;
  return (session.state.bytes(*arena_) - arena_->spec().bytes_at(0)) / block_bytes_;
}

int64_t ModelRunner::PromisedTo(const Call& call) const {
  return std::max<int64_t>(0, call.reserved_blocks - BlocksHeld(*call.session));
}

int64_t ModelRunner::PromisedBlocks() const {
  int64_t promised = planned_blocks_ + stalled_counts_.promised;
  for (const auto& call : running_) promised += PromisedTo(*call);
  return promised;
}

int64_t ModelRunner::FreeBlocks(int64_t wanted) {
  const int64_t promised = PromisedBlocks();
  return arena_->pools().FreeBlocks(std::max<int64_t>(0, wanted) + promised) - promised;
}

bool ModelRunner::MakeRoom(int64_t needed, const Session* except) {
  // Blocks that are being recycled count.
  int64_t missing = needed - FreeBlocks(needed) - arena_->pools().blocks_recycling();
  bool any = false;
  const auto drop = [&](Session& session) {
    if (!session.state.has_state() || &session == except) return false;
    // A state whose blocks others hold too is worth nothing to them.
    const int64_t gained = session.state.UnsharedBlocks(*arena_, missing);
    if (gained == 0) return false;
    missing -= gained;
    MakeWay(session);
    return any = true;
  };
  while (missing > 0 && worthless_ < resting_.size()) {
    if (room_left_-- <= 0) {
      room_unfinished_ = true;
      return any;
    }
    if (drop(*resting_.front())) {
      worthless_ = 0;  // its blocks may have been others' too
    } else {
      resting_.splice(resting_.end(), resting_, resting_.begin());
      ++worthless_;
    }
  }
  for (auto next = starting_.begin(); missing > 0 && next != starting_.end(); ++next) {
    drop(*(*next)->session);
  }
  return any;
}

void ModelRunner::UpdateBytes(Session& session) {
  session.state_bytes.store(session.state.bytes(*arena_), std::memory_order_relaxed);
  session.image_bytes.store(session.state.image_bytes(), std::memory_order_relaxed);
}

}  // namespace mnemon
