// SPDX-License-Identifier: MIT
// How often, and after which pauses, a call is made again whose server was lost.
#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include "absl/status/status.h"

namespace mnemon::client {

struct RetryOptions {
  // Tries of a call, the first one included; 1: no call is made again, nor named for
  // that.
  int tries = 10;
  // From a loss on.
  std::chrono::milliseconds limit{60000};
  // Called on the call's thread before it waits, with the reason; may be null.
  std::function<void(const absl::Status& lost)> on_wait = nullptr;
};

// The tries of one call. The pauses grow from 0.2 s, by 2, to 10 s, each up to a fifth
// shorter or longer; they end early when a server that was away is back. Not safe for
// concurrent use.
class Retries {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  explicit Retries(const RetryOptions& options) : options_(options) {}

  // After a try that failed at `now`: when the next one is due, not before `asked` has
  // passed, which the server asked for; nullopt when there is none left.
  std::optional<TimePoint> Next(TimePoint now,
                                std::optional<std::chrono::milliseconds> asked);
  // The connection is there again at `now`, in the pause that Next has begun: when the
  // try is due instead, some milliseconds later for clients that lost the same server,
  // but never after the end of the pause, nor before what the server asked for.
  TimePoint Back(TimePoint now) const;
  // The last try has brought the call on: tries and time count anew.
  void Restart();

 private:
  const RetryOptions options_;
  int failed_ = 0;
  std::optional<TimePoint> lost_;  // since when no try has brought anything
  TimePoint earliest_;             // of the next try
  TimePoint due_;
};

}  // namespace mnemon::client
