// SPDX-License-Identifier: MIT
#include "model/state/block_runs.h"

#include <algorithm>
#include <memory>
#include <new>
#include <utility>

namespace mnemon {
namespace {

// Part of the limit.
constexpr int64_t kPlentyPart = 8;

constexpr int64_t kLine = 64;

}  // namespace

// Array of blocks at consecutive places.
struct StateBlocks {
  static constexpr int64_t kCount = 32;
  StateBlock blocks[kCount];
  std::unique_ptr<StateBlocks> before;
};

// Places 0 .. made-1 have blocks; later places have had none since the memory came from
// the system.
struct BlockRun {
  ~BlockRun() { Forget(); }
  void Forget() {
    while (blocks != nullptr) blocks = std::move(blocks->before);
  }

  char* begin = nullptr;                // in the StateMemory
  std::unique_ptr<StateBlocks> blocks;  // of the places made, the last first
  int64_t made = 0;
  int64_t clean = 0;  // blocks and places
  bool populated = false;
  StateBlock* free = nullptr;
  BlockRun* previous = nullptr;
  BlockRun* next = nullptr;
  BlockRun* made_before = nullptr;
};

BlockRuns::BlockRuns(int64_t bytes, StateMemory& memory, ByteAccount* account)
    : bytes_each_((bytes + kLine - 1) / kLine * kLine),
      memory_(memory),
      account_(account) {
  // As few units as leave at most an eighth unused.
  run_bytes_ = (bytes_each_ - 1) / StateMemory::kUnit * StateMemory::kUnit;
  do {
    run_bytes_ += StateMemory::kUnit;
    run_blocks_ = run_bytes_ / bytes_each_;
  } while (run_blocks_ * bytes_each_ < run_bytes_ - run_bytes_ / 8);
}

BlockRuns::~BlockRuns() {
  if (account_ != nullptr) account_->Return(bytes());
  while (made_ != nullptr) delete std::exchange(made_, made_->made_before);
}

void BlockRuns::Remove(Runs& runs, BlockRun* run) {
  (run->previous == nullptr ? runs.first : run->previous->next) = run->next;
  (run->next == nullptr ? runs.last : run->next->previous) = run->previous;
  run->previous = run->next = nullptr;
}

void BlockRuns::PushFront(Runs& runs, BlockRun* run) {
  run->next = std::exchange(runs.first, run);
  (run->next == nullptr ? runs.last : run->next->previous) = run;
}

void BlockRuns::PushBack(Runs& runs, BlockRun* run) {
  run->previous = std::exchange(runs.last, run);
  (run->previous == nullptr ? runs.first : run->previous->next) = run;
}

bool BlockRuns::HasSurplus(int64_t keep) const {
  const int64_t secured = secured_.load(std::memory_order_relaxed);
  return whole_.load(std::memory_order_relaxed) > 0 &&
         clean() >= std::max(keep, secured) + run_blocks_;
}

BlockRun* BlockRuns::TakeRun(StateMemory::Taker taker) {
  BlockRun* again = nullptr;
  {
    std::lock_guard lock(mutex_);
    again = gone_.first;
    if (again != nullptr) Remove(gone_, again);
  }
  try {
    if (again != nullptr) {
      memory_.TakeAgain(again->begin, run_bytes_);
      return again;
    }
    auto run = std::make_unique<BlockRun>();
    run->begin = static_cast<char*>(memory_.Take(run_bytes_, taker));
    std::lock_guard lock(mutex_);
    run->made_before = std::exchange(made_, run.get());
    return run.release();
  } catch (const std::bad_alloc&) {
    if (again != nullptr) {
      std::lock_guard lock(mutex_);
      PushFront(gone_, again);
    }
    throw;
  }
}

bool BlockRuns::HasPlenty() const {
  if (account_ == nullptr) return true;
  const ByteBudget& budget = account_->budget();
  return budget.limit() - budget.used() > budget.limit() / kPlentyPart;
}

bool BlockRuns::Grow(StateMemory::Taker taker) {
  if (account_ != nullptr && !account_->TryTake(run_bytes_)) return false;
  BlockRun* run = nullptr;
  try {
    run = TakeRun(taker);
  } catch (const std::bad_alloc&) {
    if (account_ != nullptr) account_->Return(run_bytes_);
    throw;
  }
  std::lock_guard lock(mutex_);
  run->made = 0;
  run->free = nullptr;
  run->clean = run_blocks_;
  run->populated = false;
  InsertLocked(run);
  whole_.fetch_add(1, std::memory_order_relaxed);
  clean_.fetch_add(run_blocks_, std::memory_order_relaxed);
  bytes_.fetch_add(run_bytes_, std::memory_order_relaxed);
  return true;
}

int64_t BlockRuns::Secure(int64_t count) {
  const auto secure = [&] {
    std::lock_guard lock(mutex_);
    secured_ = std::min(count, clean());
    return clean();
  };
  int64_t clean = secure();
  while (clean < count && Grow(StateMemory::Taker::kOwner)) clean = secure();
  return clean;
}

void BlockRuns::TakeFromLocked(BlockRun* run) {
  if (run->clean-- == run_blocks_) whole_.fetch_sub(1, std::memory_order_relaxed);
  const int64_t left = clean_.fetch_sub(1, std::memory_order_relaxed) - 1;
  least_clean_ = std::min(least_clean_, left);
}

BlockRuns::Runs& BlockRuns::ListOf(const BlockRun& run) {
  return run.free != nullptr ? used_ : run.populated ? populated_ : untouched_;
}

void BlockRuns::InsertLocked(BlockRun* run) {
  Runs& runs = ListOf(*run);
  if (run->clean == run_blocks_) {
    PushBack(runs, run);
  } else {
    PushFront(runs, run);
  }
}

StateBlock* BlockRuns::Take() {
  std::unique_ptr<StateBlocks> more;  // if the next place starts a new array
  while (true) {
    std::unique_lock lock(mutex_);
    BlockRun* run = nullptr;
    for (const Runs* const runs : {&used_, &populated_, &untouched_}) {
      if ((run = runs->first) != nullptr) break;
    }
    if (run == nullptr) return nullptr;
    StateBlock* block = run->free;
    const bool made = block == nullptr;
    const int64_t place = run->made;
    if (made && place % StateBlocks::kCount == 0 && more == nullptr) {
      lock.unlock();
      more = std::make_unique<StateBlocks>();
      continue;
    }
    secured_ = std::max<int64_t>(0, secured_ - 1);
    if (!made || run->populated) touched_.fetch_sub(1, std::memory_order_relaxed);
    Remove(ListOf(*run), run);
    if (made) {
      ++run->made;
      if (place % StateBlocks::kCount == 0) {
        more->before = std::move(run->blocks);
        run->blocks = std::move(more);
      }
      block = &run->blocks->blocks[place % StateBlocks::kCount];
    } else {
      run->free = block->next;
    }
    TakeFromLocked(run);
    if (run->clean > 0) InsertLocked(run);
    lock.unlock();
    if (made) {
      block->run = run;
      block->floats = reinterpret_cast<float*>(run->begin + place * bytes_each_);
    }
    return block;
  }
}

void BlockRuns::Put(StateBlock* block, bool secured) {
  std::lock_guard lock(mutex_);
  BlockRun* const run = block->run;
  if (run->clean > 0) Remove(ListOf(*run), run);
  block->next = std::exchange(run->free, block);
  if (++run->clean == run_blocks_) whole_.fetch_add(1, std::memory_order_relaxed);
  InsertLocked(run);
  touched_.fetch_add(1, std::memory_order_relaxed);
  clean_.fetch_add(1, std::memory_order_relaxed);
  if (secured) secured_.fetch_add(1, std::memory_order_relaxed);
}

bool BlockRuns::Populate() {
  BlockRun* run = nullptr;
  {
    std::lock_guard lock(mutex_);
    run = untouched_.first;
    if (run == nullptr) return false;
  }
  // Meanwhile it may be used, but not returned.
  memory_.Populate(run->begin, run_bytes_);
  std::lock_guard lock(mutex_);
  if (run->clean > 0) Remove(ListOf(*run), run);
  run->populated = true;
  if (run->clean > 0) InsertLocked(run);
  touched_.fetch_add(run_blocks_ - run->made, std::memory_order_relaxed);
  return true;
}

bool BlockRuns::GiveBack(int64_t keep) {
  BlockRun* run = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (!HasSurplus(keep)) return false;
    for (Runs* const runs : {&untouched_, &populated_, &used_}) {
      if (runs->last == nullptr || runs->last->clean < run_blocks_) continue;
      run = runs->last;
      Remove(*runs, run);
      break;
    }
    // All its blocks are clean, since it is whole.
    whole_.fetch_sub(1, std::memory_order_relaxed);
    touched_.fetch_sub(run->populated ? run_blocks_ : run->made,
                       std::memory_order_relaxed);
    clean_.fetch_sub(run_blocks_, std::memory_order_relaxed);
    bytes_.fetch_sub(run_bytes_, std::memory_order_relaxed);
    least_clean_ = std::min(least_clean_, clean());
  }
  memory_.GiveBack(run->begin, run_bytes_);
  run->Forget();
  {
    std::lock_guard lock(mutex_);
    PushFront(gone_, run);
  }
  if (account_ != nullptr) account_->Return(run_bytes_);
  return true;
}

int64_t BlockRuns::TakeLeastClean() {
  std::lock_guard lock(mutex_);
  return std::exchange(least_clean_, clean());
}

}  // namespace mnemon
