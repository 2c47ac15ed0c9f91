// SPDX-License-Identifier: MIT
#include "base/memory/byte_budget.h"

namespace mnemon {

bool ByteBudget::TryTake(int64_t bytes) {
  int64_t used = used_.load(std::memory_order_relaxed);
  do {
    if (bytes > limit_ - used) return false;
  } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  if (whole_ == nullptr || whole_->TryTake(bytes)) return true;
  used_.fetch_sub(bytes, std::memory_order_relaxed);
  return false;
}

void ByteBudget::Take(int64_t bytes) {
  used_.fetch_add(bytes, std::memory_order_relaxed);
  if (whole_ != nullptr) whole_->Take(bytes);
}

bool ByteAccount::TryTake(int64_t bytes) {
  if (!budget_.TryTake(bytes)) return false;
  bytes_.fetch_add(bytes, std::memory_order_relaxed);
  return true;
}

void ByteAccount::Take(int64_t bytes) {
  budget_.Take(bytes);
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
