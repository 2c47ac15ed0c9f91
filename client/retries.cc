// SPDX-License-Identifier: MIT
#include "client/retries.h"

#include <algorithm>
#include <random>

namespace mnemon::client {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstPause{200};
constexpr milliseconds kLongestPause{10'000};
// Shortest delay after the connection is restored.
constexpr milliseconds kShortestDelay{5};
constexpr milliseconds kLongestDelay{50};

// Spreads the return of clients that lost the same server.
milliseconds Spread(milliseconds shortest, milliseconds longest) {
  std::random_device source;
  std::uniform_int_distribution<int64_t> pause(shortest.count(), longest.count());
  return milliseconds(pause(source));
}

}  // namespace

std::optional<Retries::TimePoint> Retries::Next(TimePoint now,
                                                std::optional<milliseconds> asked) {
  if (++failed_ >= options_.tries) return std::nullopt;
  if (!lost_) lost_ = now;
  const int doublings = std::min(failed_ - 1, 16);
  const milliseconds pause = std::min(kFirstPause * (1 << doublings), kLongestPause);
  earliest_ = now + asked.value_or(milliseconds(0));
  due_ = std::max(now + Spread(pause * 4 / 5, pause * 6 / 5), earliest_);
  if (due_ > *lost_ + options_.limit) return std::nullopt;
  return due_;
}

Retries::TimePoint Retries::Back(TimePoint now) const {
  const TimePoint spread = now + Spread(kShortestDelay, kLongestDelay);
  return std::min(std::max(spread, earliest_), due_);
}

void Retries::Restart() {
  failed_ = 0;
  lost_.reset();
}

}  // namespace mnemon::client
