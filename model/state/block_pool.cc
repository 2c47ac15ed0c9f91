// SPDX-License-Identifier: MIT
#include "model/state/block_pool.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/check.h"
#include "model/state/block_recycler.h"

namespace mnemon {
namespace {

// Cost of counting one holder of a block in a batch, in cleaned bytes.
constexpr int64_t kHolderBytes = 64;

template <class Node>
void Push(std::atomic<Node*>& list, Node* first, Node* last) {
  last->next = list.load(std::memory_order_relaxed);
  while (!list.compare_exchange_weak(last->next, first, std::memory_order_release,
                                     std::memory_order_relaxed)) {
  }
}

void DeleteAll(BlockList* list) {
  while (list != nullptr) delete std::exchange(list, list->next);
}

}  // namespace

BlockPool::BlockPool(Options options)
    : options_(std::move(options)),
      bytes_(options_.floats * static_cast<int64_t>(sizeof(float))),
      runs_(bytes_, *options_.memory, options_.account),
      ready_(options_.recycler == nullptr || options_.overwritten
                 ? 0
                 : std::min(options_.most, std::max<int64_t>(1, kReadyBytes / bytes_))),
      reserve_(std::max(ready_, options_.reserve_bytes / runs_.block_bytes())) {
  if (options_.recycler != nullptr) options_.recycler->Add(*this);
}

BlockPool::~BlockPool() {
  if (options_.recycler != nullptr) options_.recycler->Remove(*this);
  DeleteAll(pending_lists_);
  DeleteAll(lists_.load(std::memory_order_acquire));
}

void BlockPool::Clean(StateBlock* block) const {
  memory().Zero(block->floats, options_.floats);
}

int64_t BlockPool::Secure(int64_t count) {
  const int64_t most = options_.most - used();
  promised_ = std::min(count, most);
  const int64_t more = std::max<int64_t>(0, promised_ - at_hand_count_);
  return std::min(most, at_hand_count_ + runs_.Secure(more));
}

void BlockPool::PutAtHand(StateBlock* block) {
  block->next = std::exchange(at_hand_, block);
  ++at_hand_count_;
}

StateBlock* BlockPool::TakeAtHand() {
  --at_hand_count_;
  return std::exchange(at_hand_, at_hand_->next);
}

void BlockPool::RecycleAtHand() {
  StateBlock* const block = TakeAtHand();
  ++taken_;
  recycling_.fetch_add(1, std::memory_order_relaxed);
  Push(dirty_, block, block);
  wake_later_ = true;
}

void BlockPool::AskForReady() const {
  const bool more = runs_.clean() > runs_.touched() || runs_.blocks() < options_.most;
  if (2 * runs_.touched() < ready_ && more) options_.recycler->Wake();
}

void BlockPool::Stock(int64_t count) {
  // Promised blocks stay: the runs have no others for them.
  while (keeps_at_hand() && at_hand_count_ > std::max(count, promised_)) {
    RecycleAtHand();
  }
  while (!keeps_at_hand() && at_hand_count_ > count) {
    StateBlock* const block = TakeAtHand();
    runs_.Put(block, /*secured=*/at_hand_count_ < promised_);
  }
  if (std::exchange(wake_later_, false)) options_.recycler->Wake();
  if (at_hand_count_ >= count) return;
  while (at_hand_count_ < count) {
    StateBlock* const block = runs_.Take();
    if (block == nullptr) break;
    PutAtHand(block);
  }
  AskForReady();
}

StateBlock* BlockPool::TakeClean() {
  StateBlock* block = runs_.Take();
  while (block == nullptr) {
    if (!runs_.Grow(StateMemory::Taker::kOwner)) return nullptr;
    block = runs_.Take();
  }
  AskForReady();
  return block;
}

StateBlock* BlockPool::Take() {
  MNEMON_CHECK(used() < options_.most);
  StateBlock* const block = at_hand_ != nullptr ? TakeAtHand() : TakeClean();
  if (block == nullptr) return nullptr;
  block->holders.store(1, std::memory_order_relaxed);
  promised_ = std::max<int64_t>(0, promised_ - 1);
  ++taken_;
  ++held_;
  return block;
}

bool BlockPool::DropHolder(StateBlock* block) {
  if (block->holders.fetch_sub(1, std::memory_order_acq_rel) > 1) return false;
  --held_;
  if (options_.recycler == nullptr) {
    Clean(block);
    runs_.Put(block);
    returned_.fetch_add(1, std::memory_order_release);
    return false;
  }
  recycling_.fetch_add(1, std::memory_order_relaxed);
  Push(dirty_, block, block);
  return true;
}

void BlockPool::Drop(StateBlock* block) {
  if (DropHolder(block)) options_.recycler->Wake();
}

void BlockPool::DropInStep(StateBlock* block) {
  if (!keeps_at_hand()) {
    wake_later_ |= DropHolder(block);
    return;
  }
  if (block->holders.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
  --held_;
  PutAtHand(block);
  returned_.fetch_add(1, std::memory_order_release);
}

void BlockPool::Drop(std::unique_ptr<BlockList>& list, int64_t begin, int64_t end) {
  if (begin >= end) return;
  std::unique_ptr<BlockList> moved;
  if (options_.recycler != nullptr && end - begin > kDropsInPlace) {
    if (begin == 0 && end == list->size()) {
      moved = std::move(list);
    } else {
      try {
        moved = std::make_unique<BlockList>();
        moved->Assign(*list, begin, end);
      } catch (const std::bad_alloc&) {
        moved = nullptr;  // only slower
      }
    }
  }
  bool wake = moved != nullptr;
  if (moved == nullptr) {
    for (int64_t i = begin; i < end; ++i) wake |= DropHolder((*list)[i]);
  }
  if (list != nullptr) list->Erase(begin, end);
  if (moved != nullptr) {
    recycling_.fetch_add(end - begin, std::memory_order_relaxed);
    BlockList* const node = moved.release();
    Push(lists_, node, node);
  }
  if (wake) options_.recycler->Wake();
}

StateBlock* BlockPool::NextDirty(int64_t& holders, int64_t most) {
  if (pending_ == nullptr)
    pending_ = dirty_.exchange(nullptr, std::memory_order_acquire);
  if (pending_ != nullptr) {
    ++holders;
    return std::exchange(pending_, pending_->next);
  }
  while (holders < most) {
    if (pending_lists_ == nullptr) {
      pending_lists_ = lists_.exchange(nullptr, std::memory_order_acquire);
      if (pending_lists_ == nullptr) return nullptr;
    }
    if (pending_lists_->size() == 0) {
      delete std::exchange(pending_lists_, pending_lists_->next);
      continue;
    }
    StateBlock* const block = pending_lists_->Pop();
    ++holders;
    if (block->holders.fetch_sub(1, std::memory_order_acq_rel) == 1) return block;
  }
  return nullptr;
}

bool BlockPool::Recycle(int64_t bytes) {
  int64_t cleaned = 0, holders = 0;
  while (cleaned * bytes_ + holders * kHolderBytes < bytes) {
    StateBlock* const block = NextDirty(holders, bytes / kHolderBytes);
    if (block == nullptr) break;
    Clean(block);
    runs_.Put(block);
    ++cleaned;
  }
  if (holders == 0) return MakeReady(bytes);
  returned_.fetch_add(cleaned, std::memory_order_release);
  recycling_.fetch_sub(holders, std::memory_order_release);
  NotifyClean();
  return true;
}

bool BlockPool::MakeReady(int64_t bytes) try {
  int64_t made = 0;
  while (made < bytes && runs_.touched() < ready_) {
    if (!runs_.Populate()) {
      // Some may be in partly used runs and are populated later.
      if (runs_.clean() >= ready_ || runs_.blocks() >= options_.most || short_ ||
          !runs_.HasPlenty() || !runs_.Grow(StateMemory::Taker::kRecycler)) {
        break;
      }
      continue;
    }
    made += runs_.run_blocks() * bytes_;
  }
  return made > 0;
} catch (const std::bad_alloc&) {
  return false;  // reported by the next Take
}

void BlockPool::EndPeriod(bool all) {
  const int64_t unused = runs_.TakeLeastClean();
  short_ = all;
  surplus_ = all ? runs_.clean() : unused - reserve_;
  kept_ = all ? 0 : reserve_;
}

bool BlockPool::GiveBack() {
  if (surplus_ < runs_.run_blocks() || !runs_.GiveBack(kept_)) return false;
  surplus_ -= runs_.run_blocks();
  return true;
}

}  // namespace mnemon
