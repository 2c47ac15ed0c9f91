// SPDX-License-Identifier: MIT
#include "train/data/draws.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "model/sampling/philox.h"

namespace mnemon {

uint64_t DrawBits(uint64_t seed, uint32_t pass, DrawPurpose purpose, int64_t index) {
  const std::array<uint32_t, 4> word =
      Philox4x32({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
                  pass, static_cast<uint32_t>(purpose)},
                 {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return (uint64_t{word[1]} << 32) | word[0];
}

// The upper half of a 64-bit product; its bias is below n / 2^64.
int64_t UniformBelow(int64_t n, uint64_t seed, uint32_t pass, DrawPurpose purpose,
                     int64_t index) {
  const uint64_t bits = DrawBits(seed, pass, purpose, index);
  return static_cast<int64_t>(
      (static_cast<unsigned __int128>(bits) * static_cast<uint64_t>(n)) >> 64);
}

PassOrder::PassOrder(int64_t count, uint64_t seed, int64_t shard)
    : count_(count),
      seed_(seed),
      shard_(std::min(shard, std::max<int64_t>(1, count))),
      shards_((count + shard_ - 1) / shard_) {}

int64_t PassOrder::ShardSize(int64_t shard) const {
  return std::min(shard_, count_ - shard * shard_);
}

PassOrder::Spot PassOrder::SpotOf(int64_t place) const {
  const int64_t before = short_turn_ * shard_;
  const int64_t after = before + ShardSize(static_cast<int64_t>(shards_.size()) - 1);
  if (place < after) return {place / shard_, place % shard_};
  return {short_turn_ + 1 + (place - after) / shard_, (place - after) % shard_};
}

int64_t PassOrder::At(int64_t pass, int64_t place) {
  if (pass != pass_) OrderShards(pass);
  const Spot spot = SpotOf(place);
  if (spot.turn != turn_) OrderNumbers(pass, spot.turn);
  return shards_[spot.turn] * shard_ + order_[spot.offset];
}

void PassOrder::Release() {
  order_ = {};
  pass_ = -1;
}

std::optional<int64_t> PassOrder::InNextShard(int64_t pass, int64_t place) const {
  MNEMON_CHECK(pass == pass_);
  const Spot spot = SpotOf(place);
  if (spot.turn + 1 == static_cast<int64_t>(shards_.size())) return std::nullopt;
  const int64_t next = shards_[spot.turn + 1];
  if (spot.offset >= ShardSize(next)) return std::nullopt;
  return next * shard_ + spot.offset;
}

void PassOrder::OrderShards(int64_t pass) {
  Shuffle(pass, DrawPurpose::kShards, 0, shards_);
  const auto last = static_cast<int64_t>(shards_.size()) - 1;
  short_turn_ = std::find(shards_.begin(), shards_.end(), last) - shards_.begin();
  pass_ = pass;
  turn_ = -1;
}

void PassOrder::OrderNumbers(int64_t pass, int64_t turn) {
  const int64_t shard = shards_[turn];
  order_.resize(ShardSize(shard));
  Shuffle(pass, DrawPurpose::kOrder, shard * shard_, order_);
  turn_ = turn;
}

void PassOrder::Shuffle(int64_t pass, DrawPurpose purpose, int64_t first,
                        std::vector<int64_t>& order) const {
  std::iota(order.begin(), order.end(), 0);
  for (auto i = static_cast<int64_t>(order.size()) - 1; i > 0; --i) {
    std::swap(order[i], order[UniformBelow(i + 1, seed_, static_cast<uint32_t>(pass),
                                           purpose, first + i)]);
  }
}

}  // namespace mnemon
