// SPDX-License-Identifier: MIT
// A limit of bytes that memory of several kinds draws from together, with a count of
// each kind; and shares of it, limits that some of the kinds have for themselves.
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

  // Given a `whole`, which outlives it, a share of that: what is drawn from it is drawn
  // from both.
  explicit ByteBudget(int64_t limit, ByteBudget* whole = nullptr)
      : limit_(limit), whole_(whole) {}
  ByteBudget(const ByteBudget&) = delete;
  ByteBudget& operator=(const ByteBudget&) = delete;

  int64_t limit() const { return limit_; }
  // Of all accounts, and of shares. May be above the limit: see ByteAccount::Take.
  int64_t used() const { return used_.load(std::memory_order_relaxed); }
  // Whether more is used than the limit, or than that of the whole.
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
  // `budget` outlives the account.
  explicit ByteAccount(ByteBudget& budget) : budget_(budget) {}
  ByteAccount(const ByteAccount&) = delete;
  ByteAccount& operator=(const ByteAccount&) = delete;

  // Takes `bytes` >= 0 unless the budget would be above its limit; then nothing, and
  // false.
  [[nodiscard]] bool TryTake(int64_t bytes);
  // Whatever the limit: for small amounts that it is too late to refuse.
  void Take(int64_t bytes);
  void Return(int64_t bytes);
  int64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  const ByteBudget& budget() const { return budget_; }

 private:
  ByteBudget& budget_;
  std::atomic<int64_t> bytes_ = 0;
};

// What one owner has of an account: returned when it is destroyed. Empty when made
// without one, and counts nothing then. One thread at a time.
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
  // As TryTake of the difference; to fewer bytes always succeeds.
  [[nodiscard]] bool TrySet(int64_t bytes);
  // Whatever the limit.
  void Set(int64_t bytes);
  // Moves `bytes` of them to a charge of the same account.
  ByteCharge Split(int64_t bytes);

 private:
  std::shared_ptr<ByteAccount> account_;  // shared: owners may outlive who counts
  int64_t bytes_ = 0;
};

}  // namespace mnemon
