// SPDX-License-Identifier: MIT
// A limit of bytes shared by memory of several kinds, with an account per kind; and
// shares, which are limits of their own for some of the kinds.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

namespace mnemon {

// Safe for concurrent use, as are its accounts; lock-free.
class ByteBudget {
 public:
  static constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

  // With `whole`, which must outlive it, a share of that: what is taken counts in both.
  explicit ByteBudget(int64_t limit, ByteBudget* whole = nullptr)
      : limit_(limit), whole_(whole) {}
  ByteBudget(const ByteBudget&) = delete;
  ByteBudget& operator=(const ByteBudget&) = delete;

  int64_t limit() const { return limit_; }
  // Total of all accounts and shares. May exceed the limit: see ByteAccount::Take.
  int64_t used() const { return used_.load(std::memory_order_relaxed); }
  // Whether more is used than the limit, or than the limit of the whole.
  bool exhausted() const {
    return used() > limit_ || (whole_ != nullptr && whole_->exhausted());
  }

 private:
  friend class ByteAccount;

  bool TryTake(int64_t bytes);
  void Take(int64_t bytes);

  const int64_t limit_;
  ByteBudget* const whole_;
  std::atomic<int64_t> used_ = 0;
};

// The bytes of one kind.
class ByteAccount {
 public:
  // `budget` must outlive the account.
  explicit ByteAccount(ByteBudget& budget) : budget_(budget) {}
  ByteAccount(const ByteAccount&) = delete;
  ByteAccount& operator=(const ByteAccount&) = delete;

  // Takes `bytes` >= 0, or returns false and takes nothing if the budget would exceed
  // its limit.
  [[nodiscard]] bool TryTake(int64_t bytes);
  // Takes bytes regardless of the limit: for small amounts that can no longer be
  // refused.
  void Take(int64_t bytes);
  void Return(int64_t bytes);
  int64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  const ByteBudget& budget() const { return budget_; }

 private:
  ByteBudget& budget_;
  std::atomic<int64_t> bytes_ = 0;
};

// One owner's part of an account, returned on destruction. Counts nothing if made
// without an account. Used by one thread at a time.
class ByteCharge {
 public:
  ByteCharge() = default;
  explicit ByteCharge(std::shared_ptr<ByteAccount> account)
      : account_(std::move(account)) {}
  ByteCharge(ByteCharge&& other) noexcept
      : account_(other.account_), bytes_(std::exchange(other.bytes_, 0)) {}
  ByteCharge& operator=(ByteCharge&& other) noexcept {
    Set(0);
    account_ = other.account_;
    bytes_ = std::exchange(other.bytes_, 0);
    return *this;
  }
  ~ByteCharge() { Set(0); }

  int64_t bytes() const { return bytes_; }
  // TryTake of the difference; a reduction always succeeds.
  [[nodiscard]] bool TrySet(int64_t bytes);
  // The same regardless of the limit.
  void Set(int64_t bytes);
  // Moves `bytes` of it to another charge of the same account.
  ByteCharge Split(int64_t bytes);

 private:
  std::shared_ptr<ByteAccount> account_;  // shared: owners may outlive the accountant
  int64_t bytes_ = 0;
};

}  // namespace mnemon
