// SPDX-License-Identifier: MIT
// Memory of a device whose fresh memory is rubbish: what is taken begins as zeros, also
// where it was given back before.
#include "model/compute/device/device_memory.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"
#include "tests/fakes/device/emulated_driver.h"

namespace mnemon {
namespace {

TEST(DeviceMemory, IsTakenAsZeros) {
  constexpr int64_t kBytes = 2 * StateMemory::kUnit;
  constexpr auto kFloats = kBytes / static_cast<int64_t>(sizeof(float));
  EmulatedDriver driver({});
  DeviceMemory memory(
      driver, {.entries = {{.name = "e", .shape = {4}, .growth = Growth::kAppend}}});
  std::vector<float> there(kFloats);
  const auto is_zero = [&](float* at) {
    std::ranges::fill(there, 1.0f);
    driver.CopyOut(at, there.data(), kBytes);
    return driver.Wait(driver.Mark()).ok() &&
           std::ranges::count(there, 0.0f) == kFloats;
  };
  for (const auto taker : {StateMemory::Taker::kOwner, StateMemory::Taker::kRecycler}) {
    auto* const taken = static_cast<float*>(memory.Take(kBytes, taker));
    EXPECT_TRUE(is_zero(taken));
    memory.Fill(taken, kFloats, 7.0f);
    EXPECT_FALSE(is_zero(taken));
    memory.GiveBack(taken, kBytes);
    memory.TakeAgain(taken, kBytes);
    EXPECT_TRUE(is_zero(taken));
    memory.GiveBack(taken, kBytes);
  }
}

// More than the pinned memory holds, in pieces of many sizes.
TEST(DeviceMemory, CopiesToTheHostAndBack) {
  constexpr int64_t kBytes = 8 * StateMemory::kUnit;
  constexpr auto kFloats = kBytes / static_cast<int64_t>(sizeof(float));
  EmulatedDriver driver({});
  DeviceMemory memory(
      driver, {.entries = {{.name = "e", .shape = {4}, .growth = Growth::kAppend}}});
  auto* const taken =
      static_cast<float*>(memory.Take(kBytes, StateMemory::Taker::kOwner));
  std::vector<float> from(kFloats), to(kFloats);
  std::iota(from.begin(), from.end(), 1.0f);
  std::vector<StateMemory::HostCopy> in, out;
  for (int64_t at = 0, count = 1; at < kFloats; at += count, count = 3 * count + 1) {
    count = std::min(count, kFloats - at);
    in.push_back({.block = taken + at, .host = from.data() + at, .count = count});
    out.push_back({.block = taken + at, .host = to.data() + at, .count = count});
  }
  ASSERT_TRUE(memory.CopyIn(in).ok());
  std::reverse(out.begin(), out.end());
  ASSERT_TRUE(memory.CopyOut(out).ok());
  EXPECT_EQ(to, from);
  ASSERT_TRUE(memory.CopyOut({}).ok());
  driver.Lose();
  EXPECT_TRUE(absl::IsUnavailable(memory.CopyOut(out)));
  EXPECT_TRUE(absl::IsUnavailable(memory.CopyIn(in)));
}

}  // namespace
}  // namespace mnemon
