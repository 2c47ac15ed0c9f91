// SPDX-License-Identifier: MIT
#include "client/retries.h"

#include <algorithm>
#include <random>

namespace mnemon::client {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstPause{200};
constexpr milliseconds kLongestPause{10'000};

// Clients that lost the same server do not come back at once.
milliseconds Spread(milliseconds pause) {
  std::random_device source;
  std::uniform_int_distribution<int64_t> share(-pause.count() / 5, pause.count() / 5);
  return pause + milliseconds(share(source));
}

}  // namespace

std::optional<Retries::TimePoint> Retries::Next(TimePoint now,
                                                std::optional<milliseconds> asked) {
  if (++failed_ >= options_.tries) return std::nullopt;
  if (!lost_) lost_ = now;
  const int doublings = std::min(failed_ - 1, 16);
  const milliseconds pause = std::min(kFirstPause * (1 << doublings), kLongestPause);
  const TimePoint due = now + std::max(Spread(pause), asked.value_or(milliseconds(0)));
  if (due > *lost_ + options_.limit) return std::nullopt;
  return due;
}

void Retries::Restart() {
  failed_ = 0;
  lost_.reset();
}

}  // namespace mnemon::client
