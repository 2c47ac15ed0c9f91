// SPDX-License-Identifier: MIT
// What a pass over a batch takes and gives (model/gradient/gradient_pass.h).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/compute/gradient/product.h"
#include "model/compute/gradient/shards.h"

namespace mnemon {

// What sequences leave behind for their continuation, as Carry of model/sequence: an
// entry for each of its carry_spec, none when fresh.
template <class Real>
struct PassCarry {
  int64_t position = 0;
  struct Entry {
    int64_t count = 0;           // n; 1 where the entry does not grow
    AlignedVector<Real> values;  // [B, n, ...]
  };
  std::vector<Entry> entries;
};

struct PassInput {
  Shards shards;                     // whose B own sequences, at least one, follow
  int64_t time = 0;                  // T
  const int32_t* tokens = nullptr;   // [B, T], within the vocabulary
  const int32_t* targets = nullptr;  // [B, T], likewise; -1 does not count
  std::optional<uint64_t> dropout;   // of training: the key of its masks
  bool continues = false;            // what follows needs the carry
};

// Over all positions with a target.
struct PassLoss {
  double nats = 0;      // cross-entropy, summed
  int64_t correct = 0;  // where the target has the largest logit

  void Add(const PassLoss& other) {
    nats += other.nats;
    correct += other.correct;
  }
};

}  // namespace mnemon
