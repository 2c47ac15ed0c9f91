// SPDX-License-Identifier: MIT
// The memory behind a pool's blocks: runs of blocks in whole units of a StateMemory,
// each of which goes back to the system as one when all its blocks are clean. Blocks
// are taken from runs that are partly used first, so that others stay whole. What is
// kept of a block beside its numbers is host memory, whatever the numbers are in.
//
// Threads: a pool's owner and its recycler call all of it at once. Under the mutex
// there is no system call, and nothing takes longer than moving a block or a run from
// one list to another.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "base/byte_budget.h"
#include "model/state/state_memory.h"

namespace mnemon {

struct BlockRun;

// A block. Constant address while it is held or being recycled. 32 bytes of host memory
// beside what is counted for its numbers, from its first use until its run is given
// back.
struct StateBlock {
  // Slots and saved states that hold it. Raised by the owner only, so that 1 seen by a
  // holder stays 1.
  std::atomic<int32_t> holders{0};
  // The list that it is on; belongs to the thread that the block belongs to.
  StateBlock* next = nullptr;
  BlockRun* run = nullptr;
  // Its numbers, from a cache line on, in the StateMemory: of the host or not.
  float* floats = nullptr;
};

class BlockRuns {
 public:
  // Blocks of `bytes` each in `memory`, which outlives this. `account`, null or
  // outliving this, counts the bytes of runs that have blocks in use or ready for use;
  // where it has no more, no more blocks are to be had.
  BlockRuns(int64_t bytes, StateMemory& memory, ByteAccount* account);
  ~BlockRuns();
  BlockRuns(const BlockRuns&) = delete;
  BlockRuns& operator=(const BlockRuns&) = delete;

  int64_t run_blocks() const { return run_blocks_; }
  // Blocks of runs that are counted.
  int64_t blocks() const { return bytes() / run_bytes_ * run_blocks_; }
  // Of memory that a block takes, its part of what a run cannot use included.
  int64_t block_bytes() const { return run_bytes_ / run_blocks_; }
  // Blocks that Take can return without more memory being counted; and of them, those
  // that were touched since their memory came from the system.
  int64_t clean() const { return clean_.load(std::memory_order_relaxed); }
  int64_t touched() const { return touched_.load(std::memory_order_relaxed); }
  // Bytes of runs that are counted.
  int64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  // Whether GiveBack(keep) would give a run back now.
  bool HasSurplus(int64_t keep) const;

  // Whether so much is left that memory may be taken before it is needed.
  bool HasPlenty() const;
  // Adds a clean run. `taker` is the calling thread. False: the account has no more.
  // Throws std::bad_alloc.
  bool Grow(StateMemory::Taker taker);
  // Of the owner: grows until `count` blocks are clean, as far as the account allows,
  // and returns how many are. Of these, `count` are there for Take, whatever the
  // recycler does, until the next call. Throws std::bad_alloc.
  int64_t Secure(int64_t count);
  // Of the owner: a clean block, if possible of memory that the system has given; null:
  // there is none. Throws std::bad_alloc, and only where no block that was used is
  // free.
  StateBlock* Take();
  // Puts a clean block back; `secured`: it is one more of those that stay for Take.
  void Put(StateBlock* block, bool secured = false);

  // Of the recycler, as GiveBack: has the system give the memory of one run that it has
  // yet to give. False: there is none.
  bool Populate();
  // Gives the memory of one clean run back to the system if at least `keep` blocks, and
  // those that are secured, are clean without it. False: nothing was given back.
  bool GiveBack(int64_t keep);
  // The smallest clean() since the last call.
  int64_t TakeLeastClean();

 private:
  // A list of runs, the next to be used first.
  struct Runs {
    BlockRun* first = nullptr;
    BlockRun* last = nullptr;
  };

  // A run that was given back, or a new one.
  BlockRun* TakeRun(StateMemory::Taker taker);
  // One block of a run less is clean.
  void TakeFromLocked(BlockRun* run);
  // Puts a run into the list that it belongs to, in front unless it is whole.
  void InsertLocked(BlockRun* run);
  static void Remove(Runs& runs, BlockRun* run);
  static void PushFront(Runs& runs, BlockRun* run);
  static void PushBack(Runs& runs, BlockRun* run);
  // The list that a run with clean blocks belongs to.
  Runs& ListOf(const BlockRun& run);

  const int64_t bytes_each_;
  int64_t run_bytes_ = 0;   // constant after construction
  int64_t run_blocks_ = 0;  // likewise
  StateMemory& memory_;
  ByteAccount* const account_;

  std::mutex mutex_;  // guards the runs, and changes of the counts
  // Runs with clean blocks, whole ones last: with blocks that were used; of the others,
  // those that were populated; the rest.
  Runs used_, populated_, untouched_;
  Runs gone_;  // given back
  BlockRun* made_ = nullptr;
  int64_t least_clean_ = 0;
  std::atomic<int64_t> whole_{0};  // runs of which all is clean and counted
  std::atomic<int64_t> secured_{0};
  std::atomic<int64_t> clean_{0};
  std::atomic<int64_t> touched_{0};
  std::atomic<int64_t> bytes_{0};
};

}  // namespace mnemon
