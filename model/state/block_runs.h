// SPDX-License-Identifier: MIT
// The memory of a pool's blocks: runs of blocks in whole units of a StateMemory. A run
// is returned to the system as a whole when all its blocks are clean. Blocks are taken
// from partly used runs first, so that others stay whole. The metadata of a block is
// host memory, wherever its numbers are.
//
// Threads: a pool's owner and its recycler make all calls concurrently. Under the mutex
// there is no system call, and nothing takes longer than moving a block or a run
// between lists.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "base/memory/byte_budget.h"
#include "model/state/state_memory.h"

namespace mnemon {

struct BlockRun;

// A block. Its address is constant while it is held or being recycled. Takes 32 bytes
// of host memory, beside what is counted for its numbers, from its first use until its
// run is returned.
struct StateBlock {
  // Slots and saved states that hold it. Only the owner increments it, so that a holder
  // that reads 1 may rely on it.
  std::atomic<int32_t> holders{0};
  // Next in the list that it is on; owned by the thread that owns the block.
  StateBlock* next = nullptr;
  BlockRun* run = nullptr;
  // Its numbers in the StateMemory, aligned to a cache line.
  float* floats = nullptr;
};

class BlockRuns {
 public:
  // Blocks of `bytes` each in `memory`, which must outlive this. `account`, null or
  // outliving this, counts the bytes of runs with blocks in use or ready for use; if it
  // is exhausted, so are the blocks.
  BlockRuns(int64_t bytes, StateMemory& memory, ByteAccount* account);
  ~BlockRuns();
  BlockRuns(const BlockRuns&) = delete;
  BlockRuns& operator=(const BlockRuns&) = delete;

  int64_t run_blocks() const { return run_blocks_; }
  // Blocks of all counted runs.
  int64_t blocks() const { return bytes() / run_bytes_ * run_blocks_; }
  // Memory per block, including its part of what a run cannot use.
  int64_t block_bytes() const { return run_bytes_ / run_blocks_; }
  // Blocks that Take can return without counting more memory; and those of them that
  // were touched since their memory came from the system.
  int64_t clean() const { return clean_.load(std::memory_order_relaxed); }
  int64_t touched() const { return touched_.load(std::memory_order_relaxed); }
  // Bytes of all counted runs.
  int64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  // Whether GiveBack(keep) would return a run now.
  bool HasSurplus(int64_t keep) const;

  // Whether enough is left to take memory before it is needed.
  bool HasPlenty() const;
  // Adds a clean run. `taker` is the calling thread. Returns false if the account has
  // no more. Throws std::bad_alloc.
  bool Grow(StateMemory::Taker taker);
  // Owner: grows until `count` blocks are clean, as far as the account allows, and
  // returns how many are. `count` of them stay available to Take until the next call,
  // whatever the recycler does. Throws std::bad_alloc.
  int64_t Secure(int64_t count);
  // Owner: a clean block, if possible from memory that the system has provided; null if
  // there is none. Throws std::bad_alloc, but only if no used block is free.
  StateBlock* Take();
  // Puts a clean block back; `secured`: it becomes one of those that stay for Take.
  void Put(StateBlock* block, bool secured = false);

  // Recycler, as GiveBack: populates the memory of one run. False if there is none left
  // to populate.
  bool Populate();
  // Returns the memory of one clean run to the system if at least `keep` blocks, and
  // the secured ones, are clean without it. False: nothing was returned.
  bool GiveBack(int64_t keep);
  // The minimum of clean() since the last call.
  int64_t TakeLeastClean();

 private:
  // A list of runs in order of use.
  struct Runs {
    BlockRun* first = nullptr;
    BlockRun* last = nullptr;
  };

  // A run that was returned before, or a new one.
  BlockRun* TakeRun(StateMemory::Taker taker);
  // Marks one block of a run as no longer clean.
  void TakeFromLocked(BlockRun* run);
  // Puts a run into its list, in front unless it is whole.
  void InsertLocked(BlockRun* run);
  static void Remove(Runs& runs, BlockRun* run);
  static void PushFront(Runs& runs, BlockRun* run);
  static void PushBack(Runs& runs, BlockRun* run);
  // The list that a run with clean blocks belongs to.
  Runs& ListOf(const BlockRun& run);

  const int64_t bytes_each_;
  int64_t run_bytes_ = 0;   // constant after construction
  int64_t run_blocks_ = 0;  // constant after construction
  StateMemory& memory_;
  ByteAccount* const account_;

  std::mutex mutex_;  // guards the runs, and changes of the counts
  // Runs with clean blocks, whole ones last: runs with used blocks; of the others,
  // populated ones; the rest.
  Runs used_, populated_, untouched_;
  Runs gone_;  // returned to the system
  BlockRun* made_ = nullptr;
  int64_t least_clean_ = 0;
  std::atomic<int64_t> whole_{0};  // counted runs that are entirely clean
  std::atomic<int64_t> secured_{0};
  std::atomic<int64_t> clean_{0};
  std::atomic<int64_t> touched_{0};
  std::atomic<int64_t> bytes_{0};
};

}  // namespace mnemon
