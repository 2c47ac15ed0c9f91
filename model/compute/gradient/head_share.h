// SPDX-License-Identifier: MIT
// The heads that one thread computes, for sequences that several threads may share.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/partition.h"

namespace mnemon {

// Pair h B + i is head h of the i-th of `sequences`, whose number is B.
struct HeadShare {
  Part sequences;
  Part pairs;  // the thread's own

  // Calls each(head, own) for every head that has sequences here; `own` is their range.
  template <class Each>
  void ForHeads(const Each& each) const {
    const int64_t count = sequences.size();
    for (int64_t pair = pairs.begin; pair < pairs.end;) {
      const int64_t head = pair / count, first = head * count;
      const int64_t end = std::min(pairs.end, first + count);
      each(head, Part{sequences.begin + pair - first, sequences.begin + end - first});
      pair = end;
    }
  }
  // Index of a pair among the own ones.
  int64_t IndexOf(int64_t head, int64_t sequence) const {
    return head * sequences.size() + sequence - sequences.begin - pairs.begin;
  }
};

}  // namespace mnemon
