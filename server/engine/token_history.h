// SPDX-License-Identifier: MIT
// The token history of one session, and the only place where it changes.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace mnemon {

// What one change made of a history: its first `kept` tokens, then `appended`.
struct HistoryChange {
  const std::string& session;  // id; empty for a stateless call
  int64_t kept = 0;
  std::span<const int32_t> appended;
};

// Called for every change of every history, in order for each session, by the thread
// that makes the change and before anything that depends on it leaves the server. Must
// neither block nor throw: a journal queues the record here.
using HistoryObserver = std::function<void(const HistoryChange&)>;

// Written and read by whoever holds the session (the model runner while a call runs on
// it); size() and version() by any thread.
class TokenHistory {
 public:
  // `session` and `observer`, which may be null, outlive the history.
  TokenHistory(const std::string& session, const HistoryObserver* observer)
      : session_(session), observer_(observer) {}

  // Keeps the first `kept` tokens, then appends `appended`, which must not lie in this
  // history. REQUIRES: kept <= size(). Throws std::bad_alloc, then nothing has changed.
  void Change(int64_t kept, std::span<const int32_t> appended);
  // Memory for so many tokens, so that changes up to there take none.
  void Reserve(int64_t tokens) { tokens_.reserve(tokens); }
  void Append(std::span<const int32_t> tokens) { Change(size(), tokens); }
  void Cut(int64_t size) { Change(size, {}); }

  std::span<const int32_t> tokens() const { return tokens_; }
  int64_t size() const { return size_.load(std::memory_order_acquire); }
  // Differs after every change.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }

 private:
  const std::string& session_;
  const HistoryObserver* const observer_;
  std::vector<int32_t> tokens_;  // owned by the holder of the session
  std::atomic<int64_t> size_ = 0;
  std::atomic<uint64_t> version_ = 0;
};

}  // namespace mnemon
