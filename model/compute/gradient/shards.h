// SPDX-License-Identifier: MIT
// The shards of a batch, for reproducible sums. Sequences are summed within shards
// (runs of sequences), and shards in a tree whose shape depends only on their number:
// the sum of a run of shards is that of its first half plus that of its second. Sums
// thus have the same bits for any number of threads, and of processes that each compute
// a node of the tree.
#pragma once

#include <cstdint>

#include "base/partition.h"

namespace mnemon {

struct Shards {
  int64_t sequences = 0;  // B, in the whole batch
  int64_t count = 1;      // number of shards, 1 .. B
  Part own = {0, 1};      // shards computed here

  static Shards Whole(int64_t sequences, int64_t count) {
    return {.sequences = sequences, .count = count, .own = {0, count}};
  }

  // The sequences of the own shards.
  Part OwnSequences() const { return {BeginOf(own.begin), BeginOf(own.end)}; }
  // The sequences of own shard number `shard`, both counted from 0.
  Part SequencesOf(int64_t shard) const {
    const int64_t before = BeginOf(own.begin);
    return {BeginOf(own.begin + shard) - before,
            BeginOf(own.begin + shard + 1) - before};
  }

 private:
  int64_t BeginOf(int64_t shard) const { return PartOf(sequences, shard, count).begin; }
};

// End of the first half of a run of shards.
inline int64_t MiddleOf(Part run) { return run.begin + (run.size() + 1) / 2; }

// The node of the tree over `shards` that process `process` of `processes`, a power of
// two, computes. Empty if there are fewer shards than processes.
inline Part NodeOf(int64_t shards, int64_t process, int64_t processes) {
  Part node = {0, shards};
  for (int64_t half = processes / 2; half > 0; half /= 2) {
    const int64_t middle = node.size() > 0 ? MiddleOf(node) : node.end;
    node = process / half % 2 == 0 ? Part{node.begin, middle} : Part{middle, node.end};
  }
  return node;
}

// Calls sum(shard, to) for shards begin .. end - 1 and add(to, from) to join them; the
// result is in slot `to`. Overwrites slots to + 1 .. to + ceil(log2(shards)).
template <class Sum, class Add>
void SumShards(int64_t begin, int64_t end, int64_t to, const Sum& sum, const Add& add) {
  if (end - begin == 1) return sum(begin, to);
  const int64_t middle = MiddleOf({begin, end});
  SumShards(begin, middle, to, sum, add);
  SumShards(middle, end, to + 1, sum, add);
  add(to, to + 1);
}
inline int64_t SlotsOf(int64_t shards) {
  int64_t slots = 1;
  for (; shards > 1; shards = (shards + 1) / 2) ++slots;
  return slots;
}

}  // namespace mnemon
