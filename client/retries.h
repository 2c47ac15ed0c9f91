// SPDX-License-Identifier: MIT
// Number of retries, and pauses between them, of calls whose server was lost.
#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include "absl/status/status.h"

namespace mnemon::client {

struct RetryOptions {
  // Tries of a call, including the first; 1: no retries, and no request id is needed
  // for them.
  int tries = 10;
  // Time limit from the loss on.
  std::chrono::milliseconds limit{60000};
  // Called on the call's thread before it waits, with the reason; may be null.
  std::function<void(const absl::Status& lost)> on_wait = nullptr;
};

// The tries of one call. Pauses grow from 0.2 s by factors of 2 to 10 s, each
// randomised by up to a fifth; they end early when the server is back. Not safe for
// concurrent use.
class Retries {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  explicit Retries(const RetryOptions& options) : options_(options) {}

  // After a try that failed at `now`: time of the next try, not before `asked`, the
  // delay requested by the server, has passed; nullopt if none is left.
  std::optional<TimePoint> Next(TimePoint now,
                                std::optional<std::chrono::milliseconds> asked);
  // Called if the connection is restored at `now`, within the pause started by Next.
  // Returns the new time of the try: some milliseconds later, so that clients of one
  // server do not collide, but never after the end of the pause, nor before the time
  // requested by the server.
  TimePoint Back(TimePoint now) const;
  // The last try made progress: tries and time start over.
  void Restart();

 private:
  const RetryOptions options_;
  int failed_ = 0;
  std::optional<TimePoint> lost_;  // since when no try has made progress
  TimePoint earliest_;             // earliest time of the next try
  TimePoint due_;
};

}  // namespace mnemon::client
