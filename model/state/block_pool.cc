// SPDX-License-Identifier: MIT
#include "model/state/block_pool.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/check.h"
#include "model/state/block_recycler.h"

namespace mnemon {
namespace {

constexpr int64_t kPage = 4096;

// What counting one holder of a block costs a batch, beside the bytes it cleans.
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
      bytes_(static_cast<int64_t>(sizeof(StateBlock)) +
             options_.floats * static_cast<int64_t>(sizeof(float))),
      ready_(
          options_.recycler == nullptr
              ? 0
              : std::min(options_.most, std::max<int64_t>(1, kReadyBytes / bytes_))) {
  if (options_.recycler != nullptr) options_.recycler->Add(*this);
}

BlockPool::~BlockPool() {
  if (options_.recycler != nullptr) options_.recycler->Remove(*this);
  DeleteAll(pending_lists_);
  DeleteAll(lists_.load(std::memory_order_acquire));
}

void BlockPool::Clean(StateBlock* block) const {
  if (options_.zeroed) std::fill_n(block->floats(), options_.floats, 0.0f);
}

StateBlock* BlockPool::Make(Slabs& memory) {
  auto* const block = new (memory.Take(bytes_)) StateBlock;
  made_.fetch_add(1, std::memory_order_relaxed);
  return block;
}

StateBlock* BlockPool::TakeReady() {
  if (local_ == nullptr) {
    local_ = clean_.exchange(nullptr, std::memory_order_acquire);
    if (local_ == nullptr) return nullptr;
  }
  StateBlock* const block = std::exchange(local_, local_->next);
  block->holders.store(1, std::memory_order_relaxed);
  ++taken_;
  const int64_t left = clean_count_.fetch_sub(1, std::memory_order_relaxed) - 1;
  if (2 * left < ready_ && made_.load(std::memory_order_relaxed) < options_.most) {
    options_.recycler->Wake();
  }
  return block;
}

StateBlock* BlockPool::Take() {
  MNEMON_CHECK(used() < options_.most);
  if (StateBlock* const block = TakeReady()) return block;
  StateBlock* const block = Make(memory_);
  block->holders.store(1, std::memory_order_relaxed);
  ++taken_;
  return block;
}

bool BlockPool::DropHolder(StateBlock* block) {
  if (block->holders.fetch_sub(1, std::memory_order_acq_rel) > 1) return false;
  if (options_.recycler == nullptr) {
    Clean(block);
    block->next = std::exchange(local_, block);
    clean_count_.fetch_add(1, std::memory_order_relaxed);
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

void BlockPool::Drop(std::unique_ptr<BlockList>& list, int64_t begin, int64_t end) {
  if (begin >= end) return;
  std::vector<StateBlock*>& blocks = list->blocks;
  std::unique_ptr<BlockList> moved;
  if (options_.recycler != nullptr && end - begin > kDropsInPlace) {
    if (begin == 0 && end == static_cast<int64_t>(blocks.size())) {
      moved = std::move(list);
    } else {
      try {
        moved = std::make_unique<BlockList>();
        moved->blocks.assign(blocks.begin() + begin, blocks.begin() + end);
      } catch (const std::bad_alloc&) {
        moved = nullptr;  // it only takes longer
      }
    }
  }
  bool wake = moved != nullptr;
  if (moved == nullptr) {
    for (int64_t i = begin; i < end; ++i) wake |= DropHolder(blocks[i]);
  }
  if (list != nullptr) blocks.erase(blocks.begin() + begin, blocks.begin() + end);
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
    std::vector<StateBlock*>& blocks = pending_lists_->blocks;
    if (blocks.empty()) {
      delete std::exchange(pending_lists_, pending_lists_->next);
      continue;
    }
    StateBlock* const block = blocks.back();
    blocks.pop_back();
    ++holders;
    if (block->holders.fetch_sub(1, std::memory_order_acq_rel) == 1) return block;
  }
  return nullptr;
}

void BlockPool::Publish(StateBlock* first, StateBlock* last, int64_t count) {
  // Counted first: a count too high only delays a wake.
  clean_count_.fetch_add(count, std::memory_order_relaxed);
  Push(clean_, first, last);
}

bool BlockPool::Recycle(int64_t bytes) {
  StateBlock* first = nullptr;
  StateBlock* last = nullptr;
  int64_t cleaned = 0, holders = 0;
  while (cleaned * bytes_ + holders * kHolderBytes < bytes) {
    StateBlock* const block = NextDirty(holders, bytes / kHolderBytes);
    if (block == nullptr) break;
    Clean(block);
    block->next = first;
    first = block;
    if (last == nullptr) last = block;
    ++cleaned;
  }
  if (holders == 0) return MakeReady(bytes);
  if (cleaned > 0) {
    Publish(first, last, cleaned);
    returned_.fetch_add(cleaned, std::memory_order_release);
  }
  recycling_.fetch_sub(holders, std::memory_order_release);
  if (options_.on_clean) options_.on_clean();
  return true;
}

bool BlockPool::MakeReady(int64_t bytes) try {
  int64_t count = 0;
  while (count * bytes_ < bytes &&
         made_.load(std::memory_order_relaxed) < options_.most &&
         clean_count_.load(std::memory_order_relaxed) < ready_) {
    StateBlock* const block = Make(ready_memory_);
    auto* const begin = reinterpret_cast<volatile char*>(block->floats());
    const int64_t size = bytes_ - static_cast<int64_t>(sizeof(StateBlock));
    for (int64_t i = 0; i < size; i += kPage) begin[i] = 0;
    Publish(block, block, 1);
    ++count;
  }
  return count > 0;
} catch (const std::bad_alloc&) {
  return false;  // reported when a block is taken
}

}  // namespace mnemon
