// SPDX-License-Identifier: MIT
#include "model/blocks/feed_forward/settings.h"

namespace mnemon {

std::vector<std::string> FaultsOf(const FeedForward& feed) {
  if (feed.hidden < 1) return {"no hidden width"};
  return {};
}

void AddTensors(const FeedForward& feed, const std::string& base, int64_t width,
                TensorList& list) {
  list.Linear(base + ".in", feed.hidden, width, feed.bias);
  if (feed.gated) list.Linear(base + ".factor", feed.hidden, width, feed.bias);
  list.Linear(base + ".out", width, feed.hidden, feed.bias);
}

}  // namespace mnemon
