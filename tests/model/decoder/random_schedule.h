// SPDX-License-Identifier: MIT
// Random steps, forks, truncations and restores in two worlds at once, which must give
// the same bits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "model/decoder/decoder.h"
#include "model/program/step_decoder.h"
#include "model/state/arena.h"
#include "tests/model/compute/bit_hash.h"

namespace mnemon {

// A decoder with an arena for it.
struct World {
  std::unique_ptr<Decoder> decoder;
  std::unique_ptr<StateArena> arena;

  World(const ModelDescription& model, const TensorViews& views,
        const StepOptions& options)
      : decoder(*MakeStepDecoder(model, views, options)) {
    MakeArena();
  }

  void MakeArena() { MakeArena(decoder->MakeStateMemory(), nullptr); }
  void MakeArena(std::shared_ptr<StateMemory> memory, BlockRecycler* recycler) {
    StateArena::Options arena_options{.slots = 64, .memory = std::move(memory)};
    arena_options.blocks = 64 * 128;
    arena_options.recycler = recycler;
    arena = *StateArena::Create(decoder->spec(), arena_options);
  }
};

// Does the same in both worlds, whose decoders differ only in how they compute.
class RandomSchedule {
 public:
  RandomSchedule(World& one, World& other, uint64_t seed)
      : worlds_{&one, &other}, vocab_(one.decoder->model().vocab), random_(seed) {}
  ~RandomSchedule() {
    while (!slots_.empty()) Release(0);
  }

  void Run(int rounds) {
    for (int i = 0; i < rounds && !testing::Test::HasFailure(); ++i) Round();
  }

 private:
  int Drawn(int64_t count) {
    return static_cast<int>(random_() % static_cast<uint64_t>(count));
  }
  StateArena& arena() { return *worlds_[0]->arena; }
  bool ring() { return arena().spec().growth() == Growth::kRing; }

  // Calls one(arena) for both worlds.
  template <class One>
  void Both(const One& one) {
    for (World* world : worlds_) one(*world->arena);
  }

  void Round() {
    if (slots_.empty() || (slots_.size() < 7 && Drawn(3) == 0)) Acquire();
    const size_t i = static_cast<size_t>(Drawn(static_cast<int64_t>(slots_.size())));
    switch (Drawn(8)) {
      case 0:
        if (slots_.size() > 2) Release(i);
        break;
      case 1:
        Fork(slots_[i]);
        break;
      case 2:
        Cut(slots_[i]);
        break;
      default:
        break;
    }
    Step();
  }

  void Acquire() {
    int32_t slot = -1;
    Both([&](StateArena& arena) { slot = *arena.Acquire(); });
    slots_.push_back(slot);
  }
  void Release(size_t i) {
    Both([&](StateArena& arena) { arena.Release(slots_[i]); });
    slots_.erase(slots_.begin() + static_cast<int64_t>(i));
  }
  void Fork(int32_t from) {
    Acquire();
    Both([&](StateArena& arena) { EXPECT_TRUE(arena.Fork(from, slots_.back()).ok()); });
  }
  // Computes some tokens and goes back: by a kept state, or by truncation.
  void Cut(int32_t slot) {
    const int64_t length = arena().length(slot);
    if (arena().spec().growing() && !ring() && arena().spec().fixed_elements() == 0) {
      Both([&](StateArena& arena) { arena.Truncate(slot, length - length / 3); });
      return;
    }
    SavedState saved[2];
    for (int w = 0; w < 2; ++w) {
      ASSERT_TRUE(worlds_[w]->arena->saved().Save(slot, saved[w]).ok());
    }
    Step();
    for (int w = 0; w < 2; ++w) {
      worlds_[w]->arena->saved().RestoreAndDrop(slot, saved[w]);
    }
  }

  void Step() {
    std::vector<std::vector<int32_t>> tokens;
    std::vector<Segment> segments;
    tokens.reserve(slots_.size());
    int64_t wanted = 0;
    for (const int32_t slot : slots_) {
      const int64_t left = std::min<int64_t>(
          kMaxChunk, arena().spec().max_positions() - arena().length(slot));
      if (left == 0 || Drawn(4) == 0) continue;
      const int64_t most = Drawn(3) == 0 ? left : std::min<int64_t>(left, 3);
      std::vector<int32_t>& some = tokens.emplace_back();
      for (int64_t n = 1 + Drawn(most); n > 0; --n) some.push_back(Drawn(vocab_));
      constexpr LogitsMode kModes[] = {LogitsMode::kNone, LogitsMode::kLast,
                                       LogitsMode::kAll};
      segments.push_back({.slot = slot,
                          .position = arena().length(slot),
                          .tokens = some,
                          .logits = kModes[Drawn(3)]});
    }
    if (segments.empty()) return;
    wanted = LogitsRows(segments) * vocab_;
    BitHash hashes[2];
    for (int w = 0; w < 2; ++w) {
      std::vector<float> logits(static_cast<size_t>(wanted), -1.0f);
      const absl::Status status =
          worlds_[w]->decoder->Step(segments, *worlds_[w]->arena, logits.data());
      ASSERT_TRUE(status.ok()) << status;
      for (const float f : logits) hashes[w].Add(f);
    }
    EXPECT_EQ(hashes[0].value(), hashes[1].value());
    if (!ring()) return;
    for (const Segment& segment : segments) {
      Both([&](StateArena& arena) {
        arena.SetFloor(segment.slot, arena.length(segment.slot));
      });
    }
  }

  World* const worlds_[2];
  const int64_t vocab_;
  std::mt19937_64 random_;
  std::vector<int32_t> slots_;
};

}  // namespace mnemon
