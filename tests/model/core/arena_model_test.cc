// SPDX-License-Identifier: MIT
// Random calls of an arena against a model of it that copies everything: in host
// memory, in memory that only StateMemory's calls can reach, and in that of a device.
#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/compute/device/device_memory.h"
#include "model/state/arena.h"
#include "model/state/block_recycler.h"
#include "model/state/state_image.h"
#include "tests/fakes/device/emulated_driver.h"
#include "tests/fakes/far_memory.h"

namespace mnemon {
namespace {

constexpr int64_t kFixed = 3, kWidth = 2, kBlock = 16, kSlots = 5, kBlocks = 40;
constexpr int64_t kCapacity = 150, kRing = 40;

enum class Lies { kHost, kFar, kDevice };

struct Case {
  Growth growth;
  bool fixed;
  bool recycler;
  Lies memory;
};

StateSpec SpecOf(const Case& c) {
  StateSpec spec;
  if (c.fixed) spec.entries.push_back({.name = "f", .shape = {kFixed}, .fill = 0.5f});
  if (c.growth != Growth::kFixed) {
    spec.entries.push_back({.name = "g",
                            .shape = {kWidth},
                            .growth = c.growth,
                            .capacity = c.growth == Growth::kRing ? kRing : kCapacity});
  }
  return spec;
}

// What a slot should hold. `rows` of all positions, those no longer held too.
struct ModelState {
  int64_t length = 0;
  int64_t floor = 0;
  std::vector<float> fixed;
  std::vector<float> rows;  // one number per row: all of its numbers are this
};

struct ModelSlot : ModelState {
  int32_t slot = -1;
};

struct ModelSaved {
  SavedState saved;
  ModelState state;
  int32_t slot = -1;       // the one saved
  bool restorable = true;  // by that slot: never cut below
};

struct ModelWhole {
  SavedState saved;
  ModelState state;
};

class ArenaModelTest : public testing::TestWithParam<Case> {
 protected:
  ArenaModelTest() : spec_(SpecOf(GetParam())) {
    if (GetParam().recycler) recycler_ = std::make_unique<BlockRecycler>();
    std::shared_ptr<StateMemory> memory;
    if (GetParam().memory == Lies::kFar) memory = far_ = std::make_shared<FarMemory>();
    if (GetParam().memory == Lies::kDevice) {
      driver_ = std::make_unique<EmulatedDriver>(EmulatedDriver::Options());
      memory = std::make_shared<DeviceMemory>(*driver_, spec_);
    }
    arena_ = *StateArena::Create(spec_, {.slots = kSlots,
                                         .blocks = kBlocks,
                                         .memory = memory,
                                         .recycler = recycler_.get()});
  }

  bool ring() const { return GetParam().growth == Growth::kRing; }
  bool append() const { return GetParam().growth == Growth::kAppend; }
  int entry() const { return GetParam().fixed ? 1 : 0; }

  // The test, in the part of a decoder, reads and writes numbers of the arena. What is
  // read is there after Settle.
  void Read(const float* from, int64_t count, float* to) {
    if (driver_ != nullptr) {
      driver_->CopyOut(from, to, FloatBytes(count));
    } else {
      std::copy_n(far_ ? far_->Near(from, count) : from, count, to);
    }
  }
  void Write(std::span<const float> from, float* to) {
    const auto count = static_cast<int64_t>(from.size());
    if (driver_ != nullptr) {
      driver_->CopyIn(from.data(), to, FloatBytes(count));
      Settle();
    } else {
      std::ranges::copy(from, far_ ? far_->Near(to, count) : to);
    }
  }
  void Settle() {
    if (driver_ == nullptr) return;
    ASSERT_TRUE(driver_->Wait(driver_->Mark()).ok());
  }

  ModelState Fresh() const {
    return {.fixed = std::vector<float>(GetParam().fixed ? kFixed : 0, 0.5f)};
  }

  int64_t Random(int64_t below) {
    return std::uniform_int_distribution<int64_t>(0, below - 1)(random_);
  }

  ModelSlot* Any() { return slots_.empty() ? nullptr : &slots_[Random(slots_.size())]; }

  // After what was given back is clean, as at once without a recycler.
  void AwaitRecycled() {
    while (arena_->pools().blocks_recycling() > 0) std::this_thread::yield();
  }

  void Acquire() {
    const auto slot = arena_->Acquire();
    ASSERT_EQ(slot.ok(), slots_.size() < kSlots);
    if (!slot.ok()) return;
    slots_.push_back({Fresh(), *slot});
    Check(slots_.back());
  }

  // Sometimes with the copies made by the caller, in parts.
  absl::Status Reserve(int32_t slot, int64_t count) {
    const auto parts = static_cast<int>(Random(4));
    if (parts == 0) return arena_->Reserve(slot, count);
    BlockCopies copies;
    const absl::Status status = arena_->Reserve(slot, count, copies);
    for (int part = parts; part-- > 0;) copies.Make(part, parts);
    arena_->Finish(copies);
    EXPECT_TRUE(copies.empty());
    EXPECT_EQ(copies.bytes(), 0);
    return status;
  }

  // Reserve, write, advance; sometimes not all of it.
  void Feed(ModelSlot& s) {
    const int64_t count = 1 + Random(40);
    if (GetParam().growth != Growth::kFixed) AwaitRecycled();
    const int64_t needed = arena_->BlocksNeeded(s.slot, count);
    const int64_t used = arena_->pools().blocks_used();
    const absl::Status status = Reserve(s.slot, count);
    if (append() && s.length + count > kCapacity) {
      EXPECT_EQ(GetErrorDetail(status)->reason, "CONTEXT_LIMIT");
    } else if (needed > kBlocks - used) {
      EXPECT_EQ(GetErrorDetail(status)->reason, "NO_FREE_BLOCKS");
    } else {
      ASSERT_TRUE(status.ok()) << status;
    }
    ASSERT_EQ(arena_->pools().blocks_used(), status.ok() ? used + needed : used);
    if (!status.ok()) return;
    ASSERT_EQ(arena_->BlocksNeeded(s.slot, count), 0);
    const int64_t written = Random(4) == 0 ? Random(count + 1) : count;
    for (int64_t i = s.length; i < s.length + written; ++i) {
      s.rows.push_back(++number_);
      if (GetParam().growth == Growth::kFixed) continue;
      const std::vector<float> row(kWidth, number_);
      Write(row, arena_->Row(s.slot, entry(), i));
    }
    arena_->Advance(s.slot, written);
    s.length += written;
    if (GetParam().fixed && s.length > 0) {
      s.fixed[Random(kFixed)] = ++number_;
      Write(s.fixed, arena_->Fixed(s.slot, 0));
    }
  }

  void Cut(ModelSlot& s, int64_t length) {
    arena_->Truncate(s.slot, length);
    if (length == 0) {  // a state of length 0 is a fresh one
      arena_->Reset(s.slot);
      s.fixed = Fresh().fixed;
    }
    s.length = length;
    s.floor = std::min(s.floor, length);
    s.rows.resize(length);
    for (ModelSaved& saved : saved_) {
      if (saved.slot == s.slot && length < saved.state.length) saved.restorable = false;
    }
  }

  void Fork(ModelSlot& s) {
    const auto to = arena_->Acquire();
    if (!to.ok()) return;
    const int64_t used = arena_->pools().blocks_used();
    ASSERT_TRUE(arena_->Fork(s.slot, *to).ok());
    EXPECT_LE(arena_->pools().blocks_used(), used);
    const ModelState copy = s;
    slots_.push_back({copy, *to});
  }

  void Save(ModelSlot& s) {
    if (saved_.size() == 4) return;
    ModelSaved& saved = saved_.emplace_back();
    const int64_t blocks = arena_->saved().BlocksToSave(s.slot);
    ASSERT_TRUE(arena_->saved().Save(s.slot, saved.saved).ok());
    EXPECT_EQ(saved.saved.blocks(), blocks);
    EXPECT_EQ(saved.saved.position(), s.length);
    saved.state = s;
    saved.state.floor = s.length;
    saved.slot = s.slot;
  }

  void Restore(size_t index) {
    ModelSaved& saved = saved_[index];
    for (ModelSlot& s : slots_) {
      if (s.slot != saved.slot || !saved.restorable) continue;
      const bool drop = Random(2);
      if (drop) {
        arena_->saved().RestoreAndDrop(s.slot, saved.saved);
        EXPECT_TRUE(saved.saved.empty());
      } else {
        ASSERT_TRUE(arena_->saved().Restore(s.slot, saved.saved).ok());
      }
      static_cast<ModelState&>(s) = saved.state;
      for (ModelSaved& other : saved_) {
        other.restorable &= other.slot != s.slot || s.length >= other.state.length;
      }
      Check(s);
      if (drop) saved_.erase(saved_.begin() + index);
      return;
    }
    Drop(index);
  }

  void Drop(size_t index) {
    arena_->saved().Drop(saved_[index].saved);
    EXPECT_TRUE(saved_[index].saved.empty());
    saved_.erase(saved_.begin() + index);
  }

  // A slot that has lost its state to a whole one.
  void MakeFresh(ModelSlot& s) {
    static_cast<ModelState&>(s) = Fresh();
    for (ModelSaved& saved : saved_) {
      saved.restorable &= saved.slot != s.slot || saved.state.length == 0;
    }
  }

  void Detach(ModelSlot& s) {
    if (wholes_.size() == 4) return DropWhole(0);
    ModelWhole& whole = wholes_.emplace_back();
    whole.state = s;
    whole.state.floor = s.length;
    arena_->saved().Detach(s.slot, whole.saved);
    MakeFresh(s);
    Check(s);
    Check(whole);
  }

  // A state as it was at a length that is still held.
  void ShareSlot(ModelSlot& s) {
    if (wholes_.size() == 4) return DropWhole(0);
    ModelWhole& whole = wholes_.emplace_back();
    whole.state = s;
    const bool growing = GetParam().growth != Growth::kFixed;
    const int64_t length =
        growing ? s.floor + Random(s.length - s.floor + 1) : s.length;
    ASSERT_TRUE(arena_->saved().Share(s.slot, length, nullptr, whole.saved).ok());
    whole.state.length = whole.state.floor = length;
    whole.state.rows.resize(length);
    if (length == 0) whole.state.fixed = Fresh().fixed;
    Check(whole);
  }

  void ShareWhole() {
    if (wholes_.size() >= 4) return;
    const size_t from = Random(wholes_.size());
    ModelWhole shared;
    ASSERT_TRUE(arena_->saved().Share(wholes_[from].saved, shared.saved).ok());
    shared.state = wholes_[from].state;
    wholes_.push_back(std::move(shared));
    Check(wholes_.back());
  }

  // The same state from its numbers alone.
  void Rewrite(ModelWhole& whole) {
    const std::vector<float> image = ImageOf(whole);
    SavedState made;
    const absl::Status status = arena_->saved().MakeWhole(whole.state.length, made);
    if (!status.ok()) {
      EXPECT_TRUE(made.empty());
      return;
    }
    ASSERT_TRUE(StateImage::Write(spec_, arena_->memory(), image, made).ok());
    arena_->saved().Drop(whole.saved);
    whole.saved = std::move(made);
    Check(whole);
  }

  void Attach(ModelWhole& whole) {
    const auto slot = arena_->Acquire();
    if (!slot.ok()) return;
    arena_->saved().Attach(whole.saved, *slot);
    EXPECT_TRUE(whole.saved.empty());
    slots_.push_back({whole.state, *slot});
    Check(slots_.back());
    std::swap(whole, wholes_.back());
    wholes_.pop_back();
  }

  void DropWhole(size_t index) {
    arena_->saved().Drop(wholes_[index].saved);
    wholes_.erase(wholes_.begin() + static_cast<int64_t>(index));
  }

  std::vector<float> ImageOf(const ModelWhole& whole) {
    const int64_t length = whole.state.length;
    std::vector<float> image(static_cast<size_t>(StateImage::Floats(spec_, length)));
    EXPECT_TRUE(StateImage::Read(spec_, arena_->memory(), whole.saved, image).ok());
    return image;
  }

  void Check(const ModelWhole& whole) {
    const ModelState& state = whole.state;
    ASSERT_EQ(whole.saved.position(), state.length);
    std::vector<float> expected;
    if (state.length > 0) expected = state.fixed;
    if (GetParam().growth != Growth::kFixed) {
      const int64_t first = StateImage::FirstRow(spec_, state.length);
      ASSERT_EQ(first, ring() ? std::max<int64_t>(0, state.length - kRing) : 0);
      for (int64_t i = first; i < state.length; ++i) {
        expected.insert(expected.end(), kWidth, state.rows[i]);
      }
    }
    ASSERT_EQ(ImageOf(whole), expected);
    ASSERT_EQ(arena_->saved().bytes_used(whole.saved),
              4 * (state.length == 0 ? 0 : static_cast<int64_t>(state.fixed.size())) +
                  4 * kWidth * kBlock * whole.saved.blocks());
  }

  void Release(ModelSlot& s) {
    arena_->Release(s.slot);
    for (ModelSaved& saved : saved_) saved.restorable &= saved.slot != s.slot;
    s = slots_.back();
    slots_.pop_back();
  }

  void Check(const ModelSlot& s) {
    ASSERT_EQ(arena_->length(s.slot), s.length);
    std::vector<float> fixed(arena_->FixedEntries(s.slot).size());
    if (!fixed.empty()) Read(arena_->FixedEntries(s.slot).data(), kFixed, fixed.data());
    const bool growing = GetParam().growth != Growth::kFixed;
    const int64_t oldest = ring() ? std::max<int64_t>(0, s.floor - kRing) : 0;
    std::vector<float> rows(static_cast<size_t>(s.length * kWidth));
    for (int64_t i = oldest; i < s.length && growing; ++i) {
      Read(arena_->Row(s.slot, entry(), i), kWidth, rows.data() + i * kWidth);
    }
    Settle();
    EXPECT_THAT(fixed, testing::ElementsAreArray(s.fixed));
    if (!growing) return;
    ASSERT_LE(arena_->first_held(s.slot), oldest);
    for (int64_t i = oldest; i < s.length; ++i) {
      for (int64_t k = 0; k < kWidth; ++k) {
        ASSERT_EQ(rows[i * kWidth + k], s.rows[i]) << "row " << i;
      }
    }
    // The table says the same of where they are.
    const BlockTable table = arena_->Table(s.slot);
    ASSERT_EQ(table.base, arena_->first_held(s.slot) / kBlock);
    for (int64_t i = oldest; i < s.length; ++i) {
      ASSERT_EQ(table.block(i / kBlock) + i % kBlock * kWidth,
                arena_->Row(s.slot, entry(), i));
    }
  }

  // What is used is what slots can reach, and what only saved states hold.
  void CheckCount() {
    AwaitRecycled();
    std::set<const float*> blocks;
    for (const ModelSlot& s : slots_) {
      const int64_t held =
          (arena_->bytes_used(s.slot) - 4 * static_cast<int64_t>(s.fixed.size())) /
          (4 * kWidth * kBlock);
      for (int64_t b = 0; b < held; ++b) {
        blocks.insert(arena_->Table(s.slot).blocks[b]);
      }
    }
    int64_t saved = 0;
    for (const ModelSaved& state : saved_) saved += state.saved.blocks();
    for (const ModelWhole& whole : wholes_) saved += whole.saved.blocks();
    ASSERT_GE(arena_->pools().blocks_used(), static_cast<int64_t>(blocks.size()));
    ASSERT_LE(arena_->pools().blocks_used(),
              static_cast<int64_t>(blocks.size()) + saved);
  }

  void Step() {
    ModelSlot* const s = Any();
    const int64_t what = Random(21);
    if (s == nullptr || what == 0) return Acquire();
    if (what < 6) return Feed(*s);
    if (what < 8) {
      const int64_t first = GetParam().growth == Growth::kFixed
                                ? s->length
                                : std::max(s->floor, int64_t{0});
      return Cut(*s, first + Random(s->length - first + 1));
    }
    if (what < 10) {
      s->floor = std::max(s->floor, s->length - Random(20));
      s->floor = std::min(s->floor, s->length);
      return arena_->SetFloor(s->slot, s->floor);
    }
    if (what == 10) return Fork(*s);
    if (what < 13) return Save(*s);
    if (what == 13) return Release(*s);
    if (what == 14) {
      arena_->Reset(s->slot);
      return MakeFresh(*s);
    }
    if (what == 16) return Detach(*s);
    if (what == 17) return ShareSlot(*s);
    if (what > 17 && !wholes_.empty()) {
      if (what == 18) return ShareWhole();
      ModelWhole& whole = wholes_[Random(wholes_.size())];
      return what == 19 ? Rewrite(whole) : Attach(whole);
    }
    if (!saved_.empty()) Random(3) ? Restore(Random(saved_.size())) : Drop(0);
  }

  const StateSpec spec_;
  std::mt19937_64 random_{17};
  float number_ = 1;
  std::unique_ptr<BlockRecycler> recycler_;
  std::shared_ptr<FarMemory> far_;
  std::unique_ptr<EmulatedDriver> driver_;
  std::unique_ptr<StateArena> arena_;
  std::vector<ModelSlot> slots_;
  std::vector<ModelSaved> saved_;
  std::vector<ModelWhole> wholes_;
};

TEST_P(ArenaModelTest, HoldsWhatWasWritten) {
  // What a device does takes longer.
  const int calls = GetParam().memory == Lies::kDevice ? 400 : 3000;
  for (int i = 0; i < calls; ++i) {
    Step();
    for (const ModelSlot& s : slots_) Check(s);
    for (const ModelWhole& whole : wholes_) Check(whole);
    CheckCount();
    if (HasFatalFailure() || HasNonfatalFailure()) FAIL() << "at call " << i;
  }
  while (!saved_.empty()) Drop(0);
  while (!wholes_.empty()) DropWhole(0);
  // Without saved states the count is exact.
  CheckCount();
  while (!slots_.empty()) Release(slots_.back());
  AwaitRecycled();
  EXPECT_EQ(arena_->pools().blocks_used(), 0);
  EXPECT_EQ(arena_->pools().bytes_used(), 0);
  EXPECT_EQ(arena_->slots_used(), 0);
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const Lies memory : {Lies::kHost, Lies::kFar, Lies::kDevice}) {
    for (const bool recycler : {false, true}) {
      for (const Growth growth : {Growth::kFixed, Growth::kRing, Growth::kAppend}) {
        for (const bool fixed : {false, true}) {
          if (growth != Growth::kFixed || fixed)
            cases.push_back({growth, fixed, recycler, memory});
        }
      }
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, ArenaModelTest, testing::ValuesIn(Cases()),
                         [](const auto& info) {
                           return std::string(Name(info.param.growth)) +
                                  (info.param.fixed ? "_with_fixed" : "_alone") +
                                  (info.param.recycler ? "_recycled" : "") +
                                  (info.param.memory == Lies::kHost  ? ""
                                   : info.param.memory == Lies::kFar ? "_far"
                                                                     : "_device");
                         });

}  // namespace
}  // namespace mnemon
