// SPDX-License-Identifier: MIT
// Tables of a device after any calls of an arena: those of the arena.
#include "model/compute/device/device_tables.h"

#include <map>
#include <random>

#include "gtest/gtest.h"
#include "model/compute/device/device_memory.h"
#include "tests/fakes/device/emulated_driver.h"

namespace mnemon {
namespace {

StateSpec SpecOf(Growth growth) {
  return {.entries = {{.name = "e", .shape = {4}, .growth = growth, .capacity = 100}}};
}

class DeviceTablesTest : public testing::TestWithParam<Growth> {
 protected:
  // What the device has made of all changes.
  float* Entry(const BlockTable& table, int64_t block) {
    return entries_[const_cast<float**>(table.blocks) + (block - table.base)];
  }
  void Make(std::span<const TableChange> changes) {
    for (const TableChange& change : changes) entries_[change.entry] = change.block;
  }

  void ExpectSame(int32_t slot) {
    const BlockTable there = memory_->tables().Update(
        *arena_, slot, [this](std::span<const TableChange> full) {
          EXPECT_EQ(static_cast<int64_t>(full.size()), DeviceTables::kMostChanges);
          Make(full);
        });
    Make(memory_->tables().TakeChanges());
    EXPECT_TRUE(memory_->tables().TakeChanges().empty());
    const BlockTable here = arena_->Table(slot);
    for (int64_t i = 0; i < here.count; ++i) {
      EXPECT_EQ(Entry(there, here.base + i), here.blocks[i]) << slot << " " << i;
    }
  }

  EmulatedDriver driver_{{}};
  std::shared_ptr<DeviceMemory> memory_ =
      std::make_shared<DeviceMemory>(driver_, SpecOf(GetParam()));
  std::unique_ptr<StateArena> arena_ = *StateArena::Create(
      SpecOf(GetParam()),
      {.slots = 8, .blocks = 1000, .memory = memory_, .reserve_bytes = 0});
  std::map<float* const*, float*> entries_;
};

TEST_P(DeviceTablesTest, FollowTheArena) {
  std::minstd_rand random(11);
  std::vector<int32_t> slots;
  std::vector<SavedState> saved(8);
  const bool ring = GetParam() == Growth::kRing;
  for (int round = 0; round < 3000; ++round) {
    if (slots.empty() || (slots.size() < 6 && random() % 8 == 0)) {
      slots.push_back(*arena_->Acquire());
    }
    const int32_t slot = slots[random() % slots.size()];
    const int64_t length = arena_->length(slot);
    switch (random() % 8) {
      case 0:
        if (!saved[slot].empty()) arena_->saved().Drop(saved[slot]);
        arena_->Release(slot);
        std::erase(slots, slot);
        continue;
      case 1:
        if (slots.size() < 6) {
          slots.push_back(*arena_->Acquire());
          ASSERT_TRUE(arena_->Fork(slot, slots.back()).ok());
        }
        break;
      case 2:
        if (saved[slot].empty()) {
          ASSERT_TRUE(arena_->saved().Save(slot, saved[slot]).ok());
        } else if (random() % 2 == 0 || saved[slot].position() > length) {
          arena_->saved().Drop(saved[slot]);
        } else {
          arena_->saved().RestoreAndDrop(slot, saved[slot]);
        }
        break;
      case 3:
        if (saved[slot].empty()) {
          arena_->Truncate(slot,
                           std::max(arena_->first_held(slot),
                                    length - static_cast<int64_t>(random() % 40)));
        }
        break;
      default: {
        const auto count = static_cast<int64_t>(1 + random() % 30);
        if (!ring && length + count > 100) break;
        ASSERT_TRUE(arena_->Reserve(slot, count).ok());
        memory_->tables().MakeRoom(arena_->slots_seen(), arena_->Table(slot).count);
        ExpectSame(slot);
        arena_->Advance(slot, count);
        if (ring && random() % 2 == 0) arena_->SetFloor(slot, arena_->length(slot));
      }
    }
  }
  for (const int32_t slot : slots) {
    if (!saved[slot].empty()) arena_->saved().Drop(saved[slot]);
    arena_->Release(slot);
  }
}

// Nothing was changed, so nothing is sent again.
TEST_P(DeviceTablesTest, ChangesComeOnce) {
  const int32_t slot = *arena_->Acquire();
  int64_t changes = 0;
  for (int64_t position = 0; position < 96; ++position) {
    ASSERT_TRUE(arena_->Reserve(slot, 1).ok());
    memory_->tables().MakeRoom(arena_->slots_seen(), 7);
    memory_->tables().Update(*arena_, slot, [](auto) { ADD_FAILURE(); });
    changes += static_cast<int64_t>(memory_->tables().TakeChanges().size());
    arena_->Advance(slot, 1);
  }
  EXPECT_EQ(changes, GetParam() == Growth::kRing ? 12 : 6);
  arena_->Release(slot);
}

// Larger ones lie elsewhere.
TEST_P(DeviceTablesTest, WithMoreRoomTheyAreSentAgain) {
  const int32_t slot = *arena_->Acquire();
  ASSERT_TRUE(arena_->Reserve(slot, 40).ok());
  memory_->tables().MakeRoom(arena_->slots_seen(), 7);
  ExpectSame(slot);
  memory_->tables().MakeRoom(arena_->slots_seen(), 100);
  entries_.clear();
  ExpectSame(slot);
  arena_->Release(slot);
}

INSTANTIATE_TEST_SUITE_P(Growths, DeviceTablesTest,
                         testing::Values(Growth::kAppend, Growth::kRing),
                         [](const testing::TestParamInfo<Growth>& info) {
                           return std::string(Name(info.param));
                         });

}  // namespace
}  // namespace mnemon
