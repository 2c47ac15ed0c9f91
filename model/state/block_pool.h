// SPDX-License-Identifier: MIT
// Pool of reference-counted blocks of one size. A block without holders is zeroed
// before it is reused: by the calling thread, or by a BlockRecycler on its own thread.
// The memory of unused blocks is returned to the system, except for a reserve; used and
// reserved memory is counted, and may be limited.
//
// Threads: the owner's thread calls everything except the recycler's functions. A block
// belongs to the recycler from the moment its last holder is gone until it is clean;
// clean blocks belong to BlockRuns, which both threads use, except for some that the
// owner has at hand.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/memory/byte_budget.h"
#include "model/state/block_list.h"
#include "model/state/block_runs.h"
#include "model/state/state_memory.h"

namespace mnemon {

class BlockRecycler;

class BlockPool {
 public:
  struct Options {
    int64_t floats = 0;             // per block, at least 1
    int64_t most = 0;               // most blocks taken at once
    StateMemory* memory = nullptr;  // not null; outlives the pool
    // Holders overwrite whole blocks, so that a block dropped in a step may be taken in
    // the same step as it is; false: taken blocks are zeroed.
    bool overwritten = false;
    // Must outlive the pool. Null: freed blocks are zeroed by the caller, and memory is
    // kept.
    BlockRecycler* recycler = nullptr;
    // Called on the recycler's thread after blocks became clean or memory was returned;
    // may be empty.
    std::function<void()> on_clean;
    // Must outlive the pool; null: neither counted nor limited.
    ByteAccount* account = nullptr;
    int64_t reserve_bytes = 0;  // clean blocks to keep
  };
  // Memory already provided by the system that the recycler keeps ready, while the
  // account has plenty left.
  static constexpr int64_t kReadyBytes = int64_t{4} << 20;

  explicit BlockPool(Options options);
  // No call of on_clean runs or starts after it.
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // Blocks that are held or being recycled. Read recycling() first: a block no longer
  // counted there is then not counted here either.
  int64_t used() const { return taken_ - returned_.load(std::memory_order_acquire); }
  // Holders on their way to the recycler: at least the number of blocks that will
  // become clean.
  int64_t recycling() const { return recycling_.load(std::memory_order_acquire); }
  // Held blocks; exact if no list was freed as a whole.
  int64_t held() const { return held_; }
  StateMemory& memory() const { return *options_.memory; }
  // Memory per block.
  int64_t block_bytes() const { return runs_.block_bytes(); }
  // Memory that the pool has from the system or is sure to get. Any thread.
  int64_t bytes() const { return runs_.bytes(); }

  // Makes `count` blocks ready for Take, as far as `most` and the account allow, and
  // returns how many are. `count` of them stay ready until the next call. Throws
  // std::bad_alloc.
  int64_t Secure(int64_t count);
  // Moves blocks between the ready ones and those at hand until `count`, or all if
  // fewer, are at hand. Take and DropInStep then need neither a lock nor the system for
  // so many blocks; work that they create for the recycler is announced by the next
  // Stock. Throws std::bad_alloc.
  void Stock(int64_t count);
  // A clean block with one holder, from those at hand if any; null: the account has no
  // more. REQUIRES: used() < most. Throws std::bad_alloc.
  StateBlock* Take();
  // Adds a holder.
  void Hold(StateBlock* block) {
    block->holders.fetch_add(1, std::memory_order_relaxed);
  }
  bool shared(const StateBlock* block) const {
    return block->holders.load(std::memory_order_acquire) > 1;
  }
  // Removes a holder.
  void Drop(StateBlock* block);
  // The same without a lock; does not wake the recycler. Without a recycler, same as
  // Drop.
  void DropInStep(StateBlock* block);
  // Removes a holder of blocks [begin, end) of a list, which are erased from it. Above
  // kDropsInPlace blocks the recycler does so: the whole list then moves to it in
  // constant time and `list` is null.
  void Drop(std::unique_ptr<BlockList>& list, int64_t begin, int64_t end);
  static constexpr int64_t kDropsInPlace = 64;

  // Functions of the recycler's thread. Cleans about `bytes` of freed blocks, else
  // makes blocks ready. Returns false if there is nothing left to do.
  bool Recycle(int64_t bytes);
  // Ends a period: blocks that were clean throughout it, beyond the reserve, become
  // surplus; with `all`, all blocks that are clean and not secured.
  void EndPeriod(bool all);
  // Returns one run of the surplus to the system. False if there is none.
  bool GiveBack();
  // Any thread: whether EndPeriod(true) would find surplus.
  bool HasReserve() const { return runs_.HasSurplus(0); }
  void NotifyClean() const {
    if (options_.on_clean) options_.on_clean();
  }

 private:
  void Clean(StateBlock* block) const;
  // Whether blocks dropped in a step stay at hand.
  bool keeps_at_hand() const {
    return options_.recycler != nullptr && options_.overwritten;
  }
  // Passes a block at hand to the recycler.
  void RecycleAtHand();
  // Takes a clean block from the runs.
  StateBlock* TakeClean();
  void PutAtHand(StateBlock* block);
  StateBlock* TakeAtHand();
  // Wakes the recycler if fewer populated blocks are left than it should keep.
  void AskForReady() const;
  // Whether the recycler now has a block to clean.
  bool DropHolder(StateBlock* block);
  // The next block without a holder, or null. Adds the holders that it removed to
  // `holders`, up to `most` in all.
  StateBlock* NextDirty(int64_t& holders, int64_t most);
  bool MakeReady(int64_t bytes);
  const Options options_;
  const int64_t bytes_;  // bytes of a block's numbers
  BlockRuns runs_;
  const int64_t ready_;    // populated clean blocks that the recycler keeps
  const int64_t reserve_;  // clean blocks to keep

  // Used by the owner's thread.
  int64_t taken_ = 0;
  int64_t held_ = 0;
  StateBlock* at_hand_ = nullptr;  // taken from the runs; clean, or from DropInStep
  int64_t at_hand_count_ = 0;
  int64_t promised_ = 0;     // rest of the last Secure; at hand or secured
  bool wake_later_ = false;  // the recycler has work but was not woken

  // Handed over between threads, newest first: one thread pushes, the other takes all.
  std::atomic<StateBlock*> dirty_{nullptr};  // to the recycler, as the next
  std::atomic<BlockList*> lists_{nullptr};
  std::atomic<int64_t> returned_{0};
  std::atomic<int64_t> recycling_{0};

  // Used by the recycler's thread.
  StateBlock* pending_ = nullptr;
  BlockList* pending_lists_ = nullptr;
  int64_t surplus_ = 0;  // clean blocks to return to the system
  int64_t kept_ = 0;     // clean blocks to keep
  bool short_ = false;   // memory was short in this period: populate nothing
};

}  // namespace mnemon
