// SPDX-License-Identifier: MIT
// Input and output of a pass over a batch (model/gradient/gradient_pass.h).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/compute/gradient/product.h"
#include "model/compute/gradient/shards.h"

namespace mnemon {

// What sequences carry over to their continuation, like Carry of model/sequence: one
// entry per entry of carry_spec, none when fresh.
template <class Real>
struct PassCarry {
  int64_t position = 0;
  struct Entry {
    int64_t count = 0;           // n; 1 if the entry does not grow
    AlignedVector<Real> values;  // [B, n, ...]
  };
  std::vector<Entry> entries;
};

struct PassInput {
  Shards shards;                     // whose B own sequences, at least one, follow
  int64_t time = 0;                  // T
  const int32_t* tokens = nullptr;   // [B, T], within the vocabulary
  const int32_t* targets = nullptr;  // [B, T], likewise; -1 does not count
  std::optional<uint64_t> dropout;   // key of the masks in training
  bool continues = false;            // the carry will be needed
};

// Loss over all positions with a target.
struct PassLoss {
  double nats = 0;      // cross-entropy, summed
  int64_t correct = 0;  // where the target has the largest logit

  void Add(const PassLoss& other) {
    nats += other.nats;
    correct += other.correct;
  }
};

}  // namespace mnemon
