// SPDX-License-Identifier: MIT
// Random numbers for a run's data. Each is a function of the seed and its purpose, so
// there is no state to save.
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

// The numbers 0 .. count-1 in a random order that stays local and differs in every
// pass. The numbers form shards of `shard` consecutive ones, the last shard shorter;
// shards come in a random order, and so do the numbers within each. Holds the order of
// the shards and of the numbers of one shard. Owned by one thread.
class PassOrder {
 public:
  // REQUIRES: shard >= 1.
  PassOrder(int64_t count, uint64_t seed,
            int64_t shard = std::numeric_limits<int64_t>::max());

  int64_t size() const { return count_; }
  // The number at place `place` of pass `pass`. Passes and shards are independent of
  // those before.
  int64_t At(int64_t pass, int64_t place);
  // Frees the memory of the shard's order; the next At makes it again.
  void Release();
  // A number of the shard after that of `place`: a different one for each place, in
  // ascending order. Nullopt if the pass has no further shard, or that shard has too
  // few numbers. REQUIRES: the last call of At had the same arguments.
  std::optional<int64_t> InNextShard(int64_t pass, int64_t place) const;

 private:
  // The position of a place: `offset` within the shard that comes at `turn`.
  struct Spot {
    int64_t turn;
    int64_t offset;
  };
  Spot SpotOf(int64_t place) const;
  int64_t ShardSize(int64_t shard) const;
  void OrderShards(int64_t pass);
  void OrderNumbers(int64_t pass, int64_t turn);
  // Fisher and Yates, from sorted order; uses the draws from `first` on.
  void Shuffle(int64_t pass, DrawPurpose purpose, int64_t first,
               std::vector<int64_t>& order) const;

  const int64_t count_;
  const uint64_t seed_;
  const int64_t shard_;          // numbers in a shard
  std::vector<int64_t> shards_;  // in their order in pass pass_
  int64_t short_turn_ = 0;       // turn of the last shard, which may be shorter
  std::vector<int64_t> order_;   // in the shard at turn_, from its first number
  int64_t pass_ = -1;
  int64_t turn_ = -1;
};

}  // namespace mnemon
