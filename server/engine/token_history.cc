// SPDX-License-Identifier: MIT
#include "server/engine/token_history.h"

#include <algorithm>

#include "base/check.h"

namespace mnemon {

void TokenHistory::Change(int64_t kept, std::span<const int32_t> appended) {
  const int64_t before = size();
  MNEMON_CHECK(kept >= 0 && kept <= before);
  if (kept == before && appended.empty()) return;
  // Twofold growth, decided before anything is cut, so that failure changes nothing.
  const size_t needed = kept + appended.size();
  if (needed > tokens_.capacity()) {
    tokens_.reserve(std::max(needed, 2 * tokens_.capacity()));
  }
  tokens_.resize(kept);
  tokens_.insert(tokens_.end(), appended.begin(), appended.end());
  if (observer_ != nullptr && *observer_) {
    (*observer_)({.session = session_, .kept = kept, .appended = appended});
  }
  size_.store(static_cast<int64_t>(tokens_.size()), std::memory_order_release);
  version_.fetch_add(1, std::memory_order_release);
}

}  // namespace mnemon
