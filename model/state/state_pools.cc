// SPDX-License-Identifier: MIT
#include "model/state/state_pools.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/out_of_memory.h"
#include "base/strings.h"

namespace mnemon {
namespace {

constexpr int64_t kFloat = sizeof(float);

// Least unused memory that a pool keeps, and the part of the pool that it keeps.
constexpr int64_t kReserveBytes = int64_t{64} << 20;
constexpr int64_t kReservePart = 8;

std::unique_ptr<BlockPool> MakePool(const StatePools::Options& options, int64_t floats,
                                    int64_t most, int64_t expected, bool overwritten) {
  if (floats == 0) return nullptr;
  return std::make_unique<BlockPool>(BlockPool::Options{
      .floats = floats,
      .most = most,
      .memory = options.memory,
      .overwritten = overwritten,
      .recycler = options.recycler,
      .on_clean = options.on_clean,
      .account = options.account,
      .reserve_bytes = options.reserve_bytes.value_or(
          std::max(kReserveBytes, floats * kFloat / kReservePart * expected))});
}

absl::Status NoFree(std::string message) {
  return MakeError(
      absl::StatusCode::kResourceExhausted, std::move(message),
      {.reason = "NO_FREE_BLOCKS", .retry_after = std::chrono::milliseconds(1000)});
}

}  // namespace

StatePools::StatePools(const StateSpec& spec, const Options& options)
    : spec_(spec),
      max_blocks_(options.blocks),
      max_bytes_(options.bytes > 0 ? options.bytes : INT64_MAX),
      block_floats_(spec.row_elements() * kBlockPositions),
      fixed_floats_(spec.fixed_elements()),
      growing_(MakePool(options, block_floats_, max_blocks_, max_blocks_,
                        /*overwritten=*/false)),
      fixed_(MakePool(options, fixed_floats_, INT64_MAX, options.slots,
                      /*overwritten=*/true)) {}

bool StatePools::MakeBlank() {
  blank_ = fixed_->Take();
  if (blank_ == nullptr) return false;
  for (size_t e = 0; e < spec_.entries.size(); ++e) {
    if (spec_.entries[e].growth != Growth::kFixed) continue;
    fixed_->memory().Fill(blank_->floats + spec_.offset(e), spec_.entries[e].elements(),
                          spec_.entries[e].fill);
  }
  return true;
}

int64_t StatePools::FixedUsed() const {
  if (!fixed_) return 0;
  // A slot will write into its own block; there cannot be more different whole states
  // than blocks.
  const int64_t blocks = fixed_->held() - (blank_ != nullptr ? 1 : 0);
  return slots_used_ + std::min(wholes_, blocks);
}

int64_t StatePools::bytes_used() const {
  return kFloat * (FixedUsed() * fixed_floats_ + blocks_used() * block_floats_);
}

int64_t StatePools::shadow_bytes() const {
  if (!fixed_ || blank_ == nullptr) return 0;
  const int64_t copies = fixed_->held() - 1 - FixedUsed();
  return std::max<int64_t>(0, copies) * fixed_floats_ * kFloat;
}

int64_t StatePools::BytesOf(bool fixed, int64_t blocks) const {
  return kFloat * ((fixed ? fixed_floats_ : 0) + blocks * block_floats_);
}

int64_t StatePools::FreeBlocks(int64_t wanted) try {
  if (!growing_) return 0;
  return std::min(growing_->Secure(wanted),
                  std::max<int64_t>(0, bytes_left() / (block_floats_ * kFloat)));
} catch (const std::bad_alloc&) {
  return 0;
}

int64_t StatePools::FreeFixed(int64_t wanted) try {
  if (!fixed_) return wanted;
  // The first slot takes one more.
  const int64_t blank = wanted > 0 && blank_ == nullptr ? 1 : 0;
  return fixed_->Secure(wanted + blank) - blank;
} catch (const std::bad_alloc&) {
  return 0;
}

void StatePools::SetAside(int64_t blocks, int64_t fixed) try {
  if (growing_) growing_->Stock(blocks);
  if (fixed_) fixed_->Stock(fixed);
} catch (const std::bad_alloc&) {
  // Reported when the blocks are taken.
}

void StatePools::DropBlank() {
  if (slots_used_ == 0 && blank_ != nullptr) {
    fixed_->Drop(std::exchange(blank_, nullptr));
  }
}

absl::Status StatePools::BeginSlot(StateSlot& slot) {
  if (fixed_) {
    if (blank_ == nullptr && !MakeBlank()) return NoFreeFixed();
    fixed_->Hold(slot.fixed = blank_);
  }
  ++slots_used_;
  return absl::OkStatus();
}

void StatePools::EndSlot(StateSlot& slot) {
  DropBlocks(slot, {0, slot.blocks()});
  if (fixed_) fixed_->Drop(slot.fixed);
  --slots_used_;
}

void StatePools::PutFixed(StateSlot& slot, StateBlock* fixed) {
  if (!fixed_) return;
  fixed_->Hold(fixed);
  fixed_->Drop(std::exchange(slot.fixed, fixed));
}

void StatePools::DropBlocks(StateSlot& slot, BlockRange range) {
  if (range.size() > 0) growing_->Drop(slot.list, range.begin, range.end);
}

std::unique_ptr<BlockList> StatePools::Share(const BlockList* list, BlockRange range) {
  if (range.size() <= 0) return nullptr;
  auto shared = std::make_unique<BlockList>();
  shared->Assign(*list, range.begin, range.end);
  for (int64_t i = 0; i < shared->size(); ++i) growing_->Hold((*shared)[i]);
  return shared;
}

int64_t StatePools::Unshared(const BlockList* list, int64_t most) const {
  int64_t count = 0;
  for (int64_t i = 0; list != nullptr && i < list->size() && count < most; ++i) {
    if (!growing_->shared((*list)[i])) ++count;
  }
  return count;
}

absl::Status StatePools::NoFreeBlocks(int64_t needed, int64_t free) const {
  return NoFree(StrCat("session state needs ", needed, " more blocks, ", free, " of ",
                       max_blocks_, " are free"));
}

absl::Status StatePools::OutOfMemory() {
  return OutOfMemoryError("the state of a session");
}

absl::Status StatePools::NoFreeFixed() {
  return NoFree("no memory is left for the fixed entries of session state");
}

}  // namespace mnemon
