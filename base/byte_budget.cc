// SPDX-License-Identifier: MIT
#include "base/byte_budget.h"

namespace mnemon {

bool ByteAccount::TryTake(int64_t bytes) {
  int64_t used = budget_.used_.load(std::memory_order_relaxed);
  do {
    if (bytes > budget_.limit_ - used) return false;
  } while (!budget_.used_.compare_exchange_weak(used, used + bytes,
                                                std::memory_order_relaxed));
  bytes_.fetch_add(bytes, std::memory_order_relaxed);
  return true;
}

void ByteAccount::Take(int64_t bytes) {
  budget_.used_.fetch_add(bytes, std::memory_order_relaxed);
  bytes_.fetch_add(bytes, std::memory_order_relaxed);
}

void ByteAccount::Return(int64_t bytes) { Take(-bytes); }

bool ByteCharge::TrySet(int64_t bytes) {
  if (bytes > bytes_ && account_ && !account_->TryTake(bytes - bytes_)) return false;
  if (bytes < bytes_ && account_) account_->Return(bytes_ - bytes);
  bytes_ = bytes;
  return true;
}

void ByteCharge::Set(int64_t bytes) {
  if (account_) account_->Take(bytes - bytes_);
  bytes_ = bytes;
}

ByteCharge ByteCharge::Split(int64_t bytes) {
  ByteCharge part(account_);
  part.bytes_ = bytes;
  bytes_ -= bytes;
  return part;
}

}  // namespace mnemon
