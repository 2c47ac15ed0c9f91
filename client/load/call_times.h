// SPDX-License-Identifier: MIT
// The times of one call as measured by its client.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace mnemon::client {

using TimePoint = std::chrono::steady_clock::time_point;

inline double SecondsBetween(TimePoint from, TimePoint to) {
  return std::chrono::duration<double>(to - from).count();
}

// TTFT: from the begin to the first message with a token. ITL: the gap between two
// messages with tokens, divided by the tokens of the later one. E2EL: from the begin to
// the end of the stream. TPOT: (E2EL - TTFT) / (tokens - 1). In seconds.
class CallTimes {
 public:
  // The begin: when the call is sent, or when it was due.
  explicit CallTimes(TimePoint begin) : begin_(begin) {}

  // Records a message with `count` > 0 tokens; returns the ITL that it ends, unless it
  // is the first.
  std::optional<double> OnTokens(TimePoint now, int64_t count) {
    std::optional<double> gap;
    if (first_) {
      gap = SecondsBetween(last_, now) / static_cast<double>(count);
      gap_sum_ += *gap;
      ++gaps_;
    } else {
      first_ = now;
    }
    last_ = now;
    tokens_ += count;
    return gap;
  }
  void OnEnd(TimePoint now) { end_ = now; }

  int64_t tokens() const { return tokens_; }
  std::optional<double> ttft() const {
    if (!first_) return std::nullopt;
    return SecondsBetween(begin_, *first_);
  }
  // The mean of the call's gaps.
  std::optional<double> itl() const {
    if (gaps_ == 0) return std::nullopt;
    return gap_sum_ / static_cast<double>(gaps_);
  }
  std::optional<double> tpot() const {
    if (!first_ || tokens_ < 2) return std::nullopt;
    return SecondsBetween(*first_, end_) / static_cast<double>(tokens_ - 1);
  }
  double e2e() const { return SecondsBetween(begin_, end_); }

 private:
  const TimePoint begin_;
  std::optional<TimePoint> first_;
  TimePoint last_;
  TimePoint end_;
  int64_t tokens_ = 0;
  double gap_sum_ = 0;
  int64_t gaps_ = 0;
};

}  // namespace mnemon::client
