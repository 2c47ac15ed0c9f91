// SPDX-License-Identifier: MIT
// Attention on a device that appends its rows' keys itself, with one group of keys and
// with several: what an append before it gives.
#include <cstdint>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "model/blocks/attention/kernels/attend_cuda.h"
#include "tests/fakes/device/device_emulator.h"
#include "tests/fakes/device/device_operations.h"

namespace mnemon {
namespace {

constexpr int64_t kHeads = 2, kWidth = 5, kBlock = kHeads * kWidth * kBlockPositions;
constexpr int64_t kOwn = kHeads * kWidth;
constexpr int64_t kPositions[] = {0, 17, 511, 512, 1030};  // the rows' own
constexpr int64_t kRows = std::size(kPositions);

// Sessions of one row each, and what a step finds of them.
struct World {
  World() {
    std::minstd_rand random(5);
    std::uniform_real_distribution<float> number(-1.0f, 1.0f);
    for (std::vector<float>* some : {&rows, &states}) {
      for (float& f : *some) f = number(random);
    }
    for (int64_t r = 0; r < kRows; ++r) {
      const int64_t position = kPositions[r];
      for (int64_t b = 0; b <= position / kBlockPositions; ++b) {
        tables[r].push_back(states.data() + (r * kMostBlocks + b) * 2 * kBlock);
      }
      ranges.push_back(
          {.blocks = tables[r].data(), .last = position, .query = position});
      places.push_back({.block = const_cast<float*>(tables[r].back()),
                        .slot = position % kBlockPositions});
      first_group.push_back(first_group.back() + KeyGroups(ranges.back()));
    }
    groups.resize(device::AttendScratchFloats(attend(), first_group.back()));
  }

  AttendCall attend() {
    return {.rows = kRows,
            .heads = kHeads,
            .width = kWidth,
            .scale = 0.4f,
            .query = {rows.data(), 3 * kOwn},
            .group_stride = kWidth,
            .out = {out.data(), kOwn},
            .key_ranges = ranges.data(),
            .value_offset = kBlock};
  }
  AppendCall append() {
    return {.rows = kRows,
            .heads = kHeads,
            .width = kWidth,
            .places = places.data(),
            .key = {rows.data() + kOwn, 3 * kOwn},
            .value = {rows.data() + 2 * kOwn, 3 * kOwn},
            .head_stride = kWidth,
            .value_offset = kBlock};
  }

  void Attend(const device::AttendAppend& append, const DeviceLaunch& launch,
              uint64_t seed) {
    DeviceLaunch with = launch;
    with.shared_bytes = device::AttendFloats(attend(), launch.threads) * 4;
    RunOnDevice(with, seed, [&] {
      device::Attend(attend(), append, {device::BlockIndex(), device::BlockCount()},
                     static_cast<float*>(device::SharedMemory()), {},
                     {first_group.data(), groups.data(), arrived.data()});
    });
  }

  static constexpr int64_t kMostBlocks = 65;
  std::vector<float> rows = std::vector<float>(kRows * 3 * kOwn);
  std::vector<float> states = std::vector<float>(kRows * kMostBlocks * 2 * kBlock);
  std::vector<float> out = std::vector<float>(kRows * kOwn);
  std::vector<const float*> tables[kRows];
  std::vector<KeyRange> ranges;
  std::vector<Place> places;
  std::vector<int64_t> first_group = {0};
  std::vector<float> groups;
  std::vector<uint32_t> arrived = std::vector<uint32_t>(kRows * kHeads);
};

TEST(LateAppend, GivesWhatAnAppendBeforeGives) {
  if (!CanEmulateDevices()) GTEST_SKIP() << "no fibers with ThreadSanitizer";
  for (uint64_t seed = 0; seed < 6; ++seed) {
    // With 24 blocks some have one group of one head, and are its team.
    const DeviceLaunch launch{.blocks = seed % 2 == 0 ? 3 : 24, .threads = 96};
    World before, late;
    uint32_t wrong[] = {0, 0};
    RunOnDevice({.blocks = 2, .threads = 32}, seed, [&] {
      device::Append(before.append(), {device::BlockIndex(), 2}, &wrong[0]);
    });
    before.Attend({}, launch, seed);
    const AppendCall append = late.append();
    late.Attend({&append, &wrong[1]}, launch, seed);
    EXPECT_EQ(late.out, before.out);
    EXPECT_EQ(late.states, before.states);
    EXPECT_EQ(wrong[0] | wrong[1], 0u);
  }
}

// A number that is not finite is told either way.
TEST(LateAppend, TellsWhatIsNotFinite) {
  if (!CanEmulateDevices()) GTEST_SKIP() << "no fibers with ThreadSanitizer";
  World late;
  late.rows[3 * kOwn + kOwn] = HUGE_VALF;
  const AppendCall append = late.append();
  uint32_t wrong = 0;
  late.Attend({&append, &wrong}, {.blocks = 2, .threads = 64}, 1);
  EXPECT_NE(wrong, 0u);
}

}  // namespace
}  // namespace mnemon
