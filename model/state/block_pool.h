// SPDX-License-Identifier: MIT
// Blocks of one size with reference counts, and the memory behind them. Where blocks
// are taken zeroed, one whose last holder is gone is zeroed before it is used again: on
// the calling thread, or by a BlockRecycler on its own.
//
// Threads: one thread, the owner's, calls everything but Recycle; Recycle runs on the
// recycler's thread. Between the two only lock-free lists and counts are shared; a
// block belongs to the recycler from the moment its last holder is gone until it is
// clean.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/slabs.h"

namespace mnemon {

class BlockRecycler;

// In front of a block's numbers. Constant address; never freed before the pool.
struct alignas(64) StateBlock {
  // Slots and saved states that hold it. Raised by the owner only, so that 1 seen by a
  // holder stays 1.
  std::atomic<int32_t> holders{0};
  // The list that it is on; belongs to the thread that the block belongs to.
  StateBlock* next = nullptr;

  float* floats() { return reinterpret_cast<float*>(this + 1); }
  const float* floats() const { return reinterpret_cast<const float*>(this + 1); }
};

// The blocks of a slot or of a saved state, by position.
struct BlockList {
  std::vector<StateBlock*> blocks;
  BlockList* next = nullptr;  // belongs to the pool once given back
};

class BlockPool {
 public:
  struct Options {
    int64_t floats = 0;  // of one block, at least 1
    int64_t most = 0;    // blocks that are taken at once
    // Else a taken block holds any numbers: who takes it overwrites all of them.
    bool zeroed = true;
    // Outlives the pool; null: given back blocks are zeroed by the caller. None where
    // blocks are not zeroed.
    BlockRecycler* recycler = nullptr;
    // After blocks became clean, on the recycler's thread; may be empty.
    std::function<void()> on_clean;
  };
  // The recycler keeps this much memory ready that was touched and never used.
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

  // A clean block with one holder. REQUIRES: used() < most. Throws std::bad_alloc.
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
  // One holder less of blocks [begin, end) of a list, which lose their place in it.
  // Above kDropsInPlace of them the recycler counts: the whole list then moves to it in
  // constant time and `list` is null.
  void Drop(std::unique_ptr<BlockList>& list, int64_t begin, int64_t end);
  static constexpr int64_t kDropsInPlace = 64;

  // Of the recycler's thread: cleans about `bytes` of what was given back, else makes
  // blocks ready. False when there is nothing left to do.
  bool Recycle(int64_t bytes);

 private:
  void Clean(StateBlock* block) const;
  // Null when no block is clean.
  StateBlock* TakeReady();
  // Throws std::bad_alloc.
  StateBlock* Make(Slabs& memory);
  // Whether the recycler now has a block to clean.
  bool DropHolder(StateBlock* block);
  // The next block without a holder, or null; counts the holders it took away, up to
  // `most` in all.
  StateBlock* NextDirty(int64_t& holders, int64_t most);
  void Publish(StateBlock* first, StateBlock* last, int64_t count);
  bool MakeReady(int64_t bytes);

  const Options options_;
  const int64_t bytes_;  // of one block with what is in front
  const int64_t ready_;  // clean blocks that the recycler keeps

  // Of the owner's thread.
  Slabs memory_;
  StateBlock* local_ = nullptr;
  int64_t taken_ = 0;

  // Handed over, newest first: pushed by one thread, taken whole by the other.
  std::atomic<StateBlock*> clean_{nullptr};  // to the owner
  std::atomic<StateBlock*> dirty_{nullptr};  // to the recycler, as the next
  std::atomic<BlockList*> lists_{nullptr};
  std::atomic<int64_t> clean_count_{0};  // in local_ and clean_
  std::atomic<int64_t> made_{0};
  std::atomic<int64_t> returned_{0};
  std::atomic<int64_t> recycling_{0};

  // Of the recycler's thread.
  Slabs ready_memory_;
  StateBlock* pending_ = nullptr;
  BlockList* pending_lists_ = nullptr;
};

}  // namespace mnemon
