// SPDX-License-Identifier: MIT
// Blocks of one size with reference counts. One whose last holder is gone is zeroed
// before it is used again: on the calling thread, or by a BlockRecycler on its own. The
// memory of blocks that nobody uses goes back to the system, but for a reserve; what is
// used or in reserve is counted, and may be limited.
//
// Threads: one thread, the owner's, calls everything but what is the recycler's. A
// block belongs to the recycler from the moment its last holder is gone until it is
// clean; clean blocks belong to BlockRuns, which both threads use, but for some that
// the owner has at hand.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/byte_budget.h"
#include "model/state/block_list.h"
#include "model/state/block_runs.h"
#include "model/state/state_memory.h"

namespace mnemon {

class BlockRecycler;

class BlockPool {
 public:
  struct Options {
    int64_t floats = 0;             // of one block, at least 1
    int64_t most = 0;               // blocks that are taken at once
    StateMemory* memory = nullptr;  // not null; outlives the pool
    // Who takes a block overwrites all of it, so that one which is dropped in a step
    // may be taken in it as it is; else a taken block is zeroed.
    bool overwritten = false;
    // Outlives the pool; null: given back blocks are zeroed by the caller, and memory
    // is kept.
    BlockRecycler* recycler = nullptr;
    // After blocks became clean or memory was given back, on the recycler's thread; may
    // be empty.
    std::function<void()> on_clean;
    // Outlives the pool; null: not counted and not limited.
    ByteAccount* account = nullptr;
    int64_t reserve_bytes = 0;  // of clean blocks that are kept
  };
  // The recycler keeps this much memory ready that the system has given, while the
  // account has plenty left.
  static constexpr int64_t kReadyBytes = int64_t{4} << 20;

  explicit BlockPool(Options options);
  // No call of on_clean runs or begins after it.
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // Blocks that are held or being recycled. Read recycling() first: a block that is no
  // longer counted there is not counted here either.
  int64_t used() const { return taken_ - returned_.load(std::memory_order_acquire); }
  // Holders on their way to the recycler: no fewer than the blocks that become clean.
  int64_t recycling() const { return recycling_.load(std::memory_order_acquire); }
  // Blocks that are held, exactly, where none was given back as part of a list.
  int64_t held() const { return held_; }
  StateMemory& memory() const { return *options_.memory; }
  // Of memory that one block takes.
  int64_t block_bytes() const { return runs_.block_bytes(); }
  // Of memory that the pool has from the system or is sure to get. Any thread.
  int64_t bytes() const { return runs_.bytes(); }

  // Has `count` blocks ready for Take, as far as `most` and the account allow, and
  // returns how many are. Until the next call, `count` of these stay ready. Throws
  // std::bad_alloc.
  int64_t Secure(int64_t count);
  // Has `count` of those that are ready at hand, or all of them where they are fewer;
  // more go back. Take and DropInStep need neither a lock nor the system then, for so
  // many blocks. What the recycler has to do for these calls is left to the next Stock.
  // Throws std::bad_alloc.
  void Stock(int64_t count);
  // A clean block with one holder, of those at hand if there are any; null: the account
  // has no more. REQUIRES: used() < most. Throws std::bad_alloc.
  StateBlock* Take();
  // One holder more.
  void Hold(StateBlock* block) {
    block->holders.fetch_add(1, std::memory_order_relaxed);
  }
  bool shared(const StateBlock* block) const {
    return block->holders.load(std::memory_order_acquire) > 1;
  }
  // One holder less.
  void Drop(StateBlock* block);
  // Likewise, but without a lock where there is a recycler, which it does not wake.
  void DropInStep(StateBlock* block);
  // One holder less of blocks [begin, end) of a list, which lose their place in it.
  // Above kDropsInPlace of them the recycler counts: the whole list then moves to it in
  // constant time and `list` is null.
  void Drop(std::unique_ptr<BlockList>& list, int64_t begin, int64_t end);
  static constexpr int64_t kDropsInPlace = 64;

  // Of the recycler's thread.
  // Cleans about `bytes` of what was given back, else makes blocks ready. False when
  // there is nothing left to do.
  bool Recycle(int64_t bytes);
  // Ends a period: what was clean all through it, beyond the reserve, is surplus; with
  // `all`, everything that is clean and not secured.
  void EndPeriod(bool all);
  // Gives one run of the surplus back. False: there is none.
  bool GiveBack();
  // Any thread: whether EndPeriod(true) would find any.
  bool HasReserve() const { return runs_.HasSurplus(0); }
  void NotifyClean() const {
    if (options_.on_clean) options_.on_clean();
  }

 private:
  void Clean(StateBlock* block) const;
  // Blocks that are dropped in a step stay at hand.
  bool keeps_at_hand() const {
    return options_.recycler != nullptr && options_.overwritten;
  }
  // Gives a block that is at hand to the recycler.
  void RecycleAtHand();
  // A clean block, from the runs.
  StateBlock* TakeClean();
  void PutAtHand(StateBlock* block);
  StateBlock* TakeAtHand();
  // Wakes the recycler where fewer touched blocks are left than it should keep.
  void AskForReady() const;
  // Whether the recycler now has a block to clean.
  bool DropHolder(StateBlock* block);
  // The next block without a holder, or null; counts the holders it took away, up to
  // `most` in all.
  StateBlock* NextDirty(int64_t& holders, int64_t most);
  bool MakeReady(int64_t bytes);
  const Options options_;
  const int64_t bytes_;  // of one block's numbers
  BlockRuns runs_;
  const int64_t ready_;    // touched clean blocks that the recycler keeps
  const int64_t reserve_;  // clean blocks that are kept

  // Of the owner's thread.
  int64_t taken_ = 0;
  int64_t held_ = 0;
  StateBlock* at_hand_ = nullptr;  // taken from the runs; clean, or of DropInStep
  int64_t at_hand_count_ = 0;
  int64_t promised_ = 0;     // of the last Secure, not taken yet; at hand or secured
  bool wake_later_ = false;  // the recycler has work that it was not told of

  // Handed over, newest first: pushed by one thread, taken whole by the other.
  std::atomic<StateBlock*> dirty_{nullptr};  // to the recycler, as the next
  std::atomic<BlockList*> lists_{nullptr};
  std::atomic<int64_t> returned_{0};
  std::atomic<int64_t> recycling_{0};

  // Of the recycler's thread.
  StateBlock* pending_ = nullptr;
  BlockList* pending_lists_ = nullptr;
  int64_t surplus_ = 0;  // clean blocks to be given back
  int64_t kept_ = 0;     // clean blocks to be kept
  bool short_ = false;   // memory was, in this period: none is taken to be ready
};

}  // namespace mnemon
