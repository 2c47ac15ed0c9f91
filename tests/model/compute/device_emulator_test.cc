// SPDX-License-Identifier: MIT
// The emulator of a device itself: what meets, what runs ahead, and that code without a
// barrier that it needs does not pass for right.
#include "tests/fakes/device/device_emulator.h"

#include <functional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/compute/cuda/device.h"
#include "tests/fakes/device/device_operations.h"

namespace mnemon {
namespace {

using device::Barrier;
using device::BlockIndex;
using device::Lane;
using device::Shuffle;
using device::ThreadCount;
using device::ThreadIndex;
using ::testing::HasSubstr;

constexpr int kSeeds = 20;

int* SharedInts() { return static_cast<int*>(device::SharedMemory()); }

// How many of kSeeds give `expected` everywhere.
int SeedsThatGive(int expected, const DeviceLaunch& launch,
                  const std::function<void(std::vector<int>&)>& kernel) {
  int found = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    std::vector<int> out(static_cast<size_t>(launch.blocks * launch.threads));
    RunOnDevice(launch, seed, [&] { kernel(out); });
    const std::vector<int> right(out.size(), expected);
    found += out == right ? 1 : 0;
  }
  return found;
}

int& Own(std::vector<int>& out) {
  return out[static_cast<size_t>(BlockIndex() * ThreadCount() + ThreadIndex())];
}

class DeviceEmulator : public testing::Test {
 protected:
  void SetUp() override {
    if (!CanEmulateDevices()) GTEST_SKIP() << "no fibers with ThreadSanitizer";
  }
};

TEST_F(DeviceEmulator, EveryThreadOfEveryBlockRunsOnce) {
  const DeviceLaunch launch{.blocks = 3, .threads = 96};
  EXPECT_EQ(SeedsThatGive(1, launch, [](std::vector<int>& out) { ++Own(out); }),
            kSeeds);
}

// Sum of the second of two rounds, in each of which every thread writes a number, the
// same for all, and adds up what all of its block wrote.
void SumOfBlock(std::vector<int>& out, bool before, bool after) {
  int* const shared = SharedInts();
  for (int round = 0; round < 2; ++round) {
    shared[ThreadIndex()] = round == 0 ? 100 : 1;
    if (before) Barrier();
    unsigned sum = 0;  // of rubbish it may overflow
    for (int i = 0; i < ThreadCount(); ++i) sum += static_cast<unsigned>(shared[i]);
    if (round == 1) sum *= 1000000;
    Own(out) = static_cast<int>(static_cast<unsigned>(Own(out)) + sum);
    if (after) Barrier();
  }
}

TEST_F(DeviceEmulator, ABarrierIsMetByAll) {
  const DeviceLaunch launch{.blocks = 4, .threads = 64, .shared_bytes = 256};
  EXPECT_EQ(SeedsThatGive(64006400, launch,
                          [](std::vector<int>& out) { SumOfBlock(out, true, true); }),
            kSeeds);
}

// Neither one before what others wrote is read, nor one before it is overwritten.
TEST_F(DeviceEmulator, AMissingBarrierFails) {
  const DeviceLaunch launch{.blocks = 4, .threads = 64, .shared_bytes = 256};
  EXPECT_EQ(SeedsThatGive(64006400, launch,
                          [](std::vector<int>& out) { SumOfBlock(out, false, true); }),
            0);
  EXPECT_EQ(SeedsThatGive(64006400, launch,
                          [](std::vector<int>& out) { SumOfBlock(out, true, false); }),
            0);
}

// The same of a warp, one of two.
TEST_F(DeviceEmulator, ABarrierOfAWarpIsMetByTheWarp) {
  const auto reversed = [](std::vector<int>& out, bool barrier) {
    if (ThreadIndex() >= device::kWarp) {
      Own(out) = 31;
      return;
    }
    SharedInts()[Lane()] = Lane();
    if (barrier) device::WarpBarrier();
    Own(out) = SharedInts()[31 - Lane()] ^ Lane();
  };
  const DeviceLaunch launch{.blocks = 2, .threads = 64, .shared_bytes = 128};
  EXPECT_EQ(
      SeedsThatGive(31, launch, [&](std::vector<int>& out) { reversed(out, true); }),
      kSeeds);
  EXPECT_EQ(
      SeedsThatGive(31, launch, [&](std::vector<int>& out) { reversed(out, false); }),
      0);
}

// And of a team, while the other one goes on by itself.
TEST_F(DeviceEmulator, ABarrierOfATeamIsMetByTheTeam) {
  const auto reversed = [](std::vector<int>& out, bool barrier) {
    constexpr int kTeam = 64;
    const int index = ThreadIndex() % kTeam, team = ThreadIndex() / kTeam;
    for (int round = team; round < 2; ++round) {
      int* const shared = SharedInts() + (2 * team + round) * kTeam;
      shared[index] = index;
      if (barrier) device::TeamBarrier(kTeam);
      Own(out) = shared[kTeam - 1 - index] ^ index;
    }
  };
  const DeviceLaunch launch{.blocks = 2, .threads = 128, .shared_bytes = 1024};
  EXPECT_EQ(
      SeedsThatGive(63, launch, [&](std::vector<int>& out) { reversed(out, true); }),
      kSeeds);
  EXPECT_EQ(
      SeedsThatGive(63, launch, [&](std::vector<int>& out) { reversed(out, false); }),
      0);
}

TEST_F(DeviceEmulator, AWarpShufflesByItself) {
  const DeviceLaunch launch{.blocks = 2, .threads = 64};
  EXPECT_EQ(SeedsThatGive(31, launch,
                          [](std::vector<int>& out) {
                            // The first warp makes more of them.
                            const int rounds = ThreadIndex() < device::kWarp ? 5 : 1;
                            for (int i = 0; i < rounds; ++i)
                              Own(out) = Shuffle(Lane(), Lane() ^ 31) + Lane() +
                                         static_cast<int>(Shuffle(0.5f, 3));
                          }),
            kSeeds);
}

TEST_F(DeviceEmulator, NumbersOf64BitsAreShuffledWhole) {
  const auto wide = [](int lane) { return static_cast<uint64_t>(lane) << 32 | 7; };
  EXPECT_EQ(SeedsThatGive(1, {.blocks = 2, .threads = 64},
                          [&](std::vector<int>& out) {
                            const uint64_t got = Shuffle(wide(Lane()), Lane() - 1);
                            Own(out) = got == wide((Lane() + 31) % 32) ? 1 : 0;
                          }),
            kSeeds);
}

TEST_F(DeviceEmulator, AWarpVotes) {
  EXPECT_EQ(SeedsThatGive(1, {.blocks = 2, .threads = 64},
                          [](std::vector<int>& out) {
                            const int warp = device::WarpIndex();
                            const uint32_t votes = device::Ballot(Lane() % 8 > warp);
                            const uint32_t right = warp == 0 ? 0xFEFEFEFE : 0xFCFCFCFC;
                            const int count = device::CountBits(votes);
                            Own(out) = votes == right && count == 28 - 4 * warp ? 1 : 0;
                          }),
            kSeeds);
}

TEST_F(DeviceEmulator, AtomicOperationsReturnWhatWasThere) {
  uint32_t sum = 0xFFFFFFF0u, place = 99;
  std::set<uint32_t> seen, taken;
  RunOnDevice({.blocks = 2, .threads = 32}, 1, [&] {
    seen.insert(device::AtomicAdd(&sum, 1));
    taken.insert(device::AtomicExchange(
        &place, static_cast<uint32_t>(32 * BlockIndex() + ThreadIndex())));
  });
  EXPECT_EQ(sum, 48u);
  EXPECT_EQ(seen.size(), 64u);
  taken.insert(place);
  EXPECT_EQ(taken.size(), 65u);
}

TEST_F(DeviceEmulator, SharedMemoryBeginsAsRubbish) {
  std::set<int> found;
  RunOnDevice({.blocks = 8, .threads = 32, .shared_bytes = 4}, 1,
              [&] { found.insert(SharedInts()[0]); });
  EXPECT_EQ(found.size(), 8u);
}

TEST_F(DeviceEmulator, TheOrderIsDrawnFromTheSeed) {
  const auto order = [](uint64_t seed) {
    std::vector<int> threads;
    RunOnDevice({.blocks = 1, .threads = 32}, seed,
                [&] { threads.push_back(ThreadIndex()); });
    return threads;
  };
  EXPECT_EQ(order(1), order(1));
  EXPECT_NE(order(1), order(2));
}

std::string ErrorOf(const std::function<void()>& kernel) {
  try {
    RunOnDevice({.blocks = 1, .threads = 64}, 1, kernel);
  } catch (const std::logic_error& error) {
    return error.what();
  }
  return "";
}

TEST_F(DeviceEmulator, SaysWhichThreadWaitsInVain) {
  EXPECT_THAT(ErrorOf([] {
                if (ThreadIndex() == 5) Barrier();
              }),
              HasSubstr("thread 5 of block 0 waits at a barrier of the block"));
  EXPECT_THAT(ErrorOf([] {
                if (Lane() > 0) Shuffle(Lane(), 0);
              }),
              HasSubstr("waits at a shuffle"));
  const auto at_two_places = [] {
    if (ThreadIndex() == 0) {
      Barrier();
    } else {
      Barrier();
    }
  };
  EXPECT_THAT(ErrorOf(at_two_places), HasSubstr("where another one waits at line"));
  EXPECT_THAT(ErrorOf([] {
                if (Lane() == 0) device::WarpBarrier();
                if (Lane() > 0) Shuffle(Lane(), 0);
              }),
              HasSubstr("waits at "));
}

// Each lane sets and reads its numbers where the instruction has them.
TEST_F(DeviceEmulator, ProductsOfBytesAreOfUnsignedAndSignedOnes) {
  const auto a = [](int row, int k) { return (37 * row + 11 * k + 5) % 256; };
  const auto b = [](int k, int column) { return (29 * k + 53 * column) % 256 - 128; };
  std::vector<int> wrong(32);
  RunOnDevice({.blocks = 1, .threads = 32}, 1, [&] {
    const int g = Lane() / 4, t = Lane() % 4;
    uint32_t weights[4] = {};
    int32_t inputs[2] = {}, sums[4] = {7, 7, 7, 7};
    for (int k = 0; k < 16; ++k) {
      const int from = k / 4 % 2 * 16 + 4 * t + k % 4;
      const auto weight = static_cast<uint32_t>(a(g + k / 8 * 8, from));
      weights[k / 4 % 2 * 2 + k / 8] |= weight << (8 * (k % 4));
      if (k >= 8) continue;
      const auto input = static_cast<uint8_t>(b(from, g));
      inputs[k / 4] |= static_cast<int32_t>(uint32_t{input} << (8 * (k % 4)));
    }
    device::MultiplyBytes(weights, inputs, sums);
    for (int n = 0; n < 4; ++n) {
      int sum = 7;
      for (int k = 0; k < 32; ++k) sum += a(g + n / 2 * 8, k) * b(k, 2 * t + n % 2);
      wrong[static_cast<size_t>(Lane())] += sums[n] == sum ? 0 : 1;
    }
  });
  EXPECT_EQ(wrong, std::vector<int>(32));
}

}  // namespace
}  // namespace mnemon
