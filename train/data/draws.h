// SPDX-License-Identifier: MIT
// Random numbers of a run's data. Each is a function of the seed and of what it is for,
// so there is no state to save.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace mnemon {

// Part of the counter, so that no two purposes share a number.
enum class DrawPurpose : uint32_t {
  kOrder = 1,
  kJitter = 2,
  kDropout = 3,
  kDigits = 4,
  kFeatures = 5,
  kShards = 6
};

// 64 random bits.
uint64_t DrawBits(uint64_t seed, uint32_t pass, DrawPurpose purpose, int64_t index);

// Uniform in 0 .. n-1. REQUIRES: n >= 1.
int64_t UniformBelow(int64_t n, uint64_t seed, uint32_t pass, DrawPurpose purpose,
                     int64_t index);

// The numbers 0 .. count-1 in a random order, another in every pass, that stays local:
// shards of `shard` consecutive numbers, the last one shorter, come in a random order,
// and within each its numbers do. One shard is all in random order. Holds the order of
// the shards and of one shard's numbers. Owned by one thread.
class PassOrder {
 public:
  // REQUIRES: shard >= 1.
  PassOrder(int64_t count, uint64_t seed,
            int64_t shard = std::numeric_limits<int64_t>::max());

  int64_t size() const { return count_; }
  // Place `place` of pass `pass`; neither a pass nor a shard depends on those before.
  int64_t At(int64_t pass, int64_t place);
  // Gives up the memory of a shard's order, until At is called again.
  void Release();
  // A number of the shard behind that of `place`, another for each place, in rising
  // order; none where the pass has no other shard, or that one fewer numbers.
  // REQUIRES: At was called last with the same arguments.
  std::optional<int64_t> InNextShard(int64_t pass, int64_t place) const;

 private:
  // Where a place lies: in the shard that comes at `turn`, at `offset` there.
  struct Spot {
    int64_t turn;
    int64_t offset;
  };
  Spot SpotOf(int64_t place) const;
  int64_t ShardSize(int64_t shard) const;
  void OrderShards(int64_t pass);
  void OrderNumbers(int64_t pass, int64_t turn);
  // Fisher and Yates, from sorted order; the draws are `first` and those behind it.
  void Shuffle(int64_t pass, DrawPurpose purpose, int64_t first,
               std::vector<int64_t>& order) const;

  const int64_t count_;
  const uint64_t seed_;
  const int64_t shard_;          // numbers in a shard
  std::vector<int64_t> shards_;  // in their order in pass pass_
  int64_t short_turn_ = 0;       // of the last shard, which may be shorter
  std::vector<int64_t> order_;   // of the shard at turn_, from its first number
  int64_t pass_ = -1;
  int64_t turn_ = -1;
};

}  // namespace mnemon
