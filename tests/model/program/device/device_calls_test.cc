// SPDX-License-Identifier: MIT
// What the host does for a step on a device: no allocation, no wait, one copy there,
// one back, and few launches.
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "bench/kernels/allocation_count.h"
#include "gtest/gtest.h"
#include "model/compute/device/device_driver.h"
#include "model/families/families.h"
#include "model/program/make_decoder.h"
#include "tests/model/decoder/drawn_weights.h"

namespace mnemon {
namespace {

// Counts calls, and does nothing.
class CountingDriver final : public DeviceDriver {
 public:
  struct Counts {
    int copies_in = 0, copies_out = 0, launches = 0, waits = 0;
    bool operator==(const Counts&) const = default;
    friend void PrintTo(const Counts& counts, std::ostream* out) {
      *out << counts.copies_in << " in, " << counts.copies_out << " out, "
           << counts.launches << " launches, " << counts.waits << " waits";
    }
  };
  Counts counts;

  const DeviceLimits& limits() const override { return limits_; }
  bool lost() const override { return false; }
  int64_t free_bytes() override { return int64_t{1} << 40; }
  void* Take(int64_t bytes) override { return std::calloc(1, Size(bytes)); }
  void GiveBack(void* memory) override { std::free(memory); }
  char* TakeAddresses(int64_t bytes) override {
    return static_cast<char*>(std::calloc(1, Size(bytes)));
  }
  void GiveBackAddresses(char* begin) override { std::free(begin); }
  void Map(char*, int64_t) override {}
  void Unmap(char*, int64_t) override {}
  void* TakePinned(int64_t bytes) override { return std::calloc(1, Size(bytes)); }
  void GiveBackPinned(void* memory) override { std::free(memory); }
  void CopyIn(const void*, void*, int64_t) override { ++counts.copies_in; }
  void CopyOut(const void*, void*, int64_t) override { ++counts.copies_out; }
  void Copy(const void*, void*, int64_t) override {}
  void Fill(float*, int64_t, float) override {}
  void Launch(StepKernel, const LaunchShape&, const StepLaunch&) override {
    ++counts.launches;
  }
  void Launch(const DeviceGraph&) override { ++counts.launches; }
  void BeginGraph() override {}
  std::unique_ptr<DeviceGraph> EndGraph() override {
    return std::make_unique<DeviceGraph>();
  }
  int64_t Mark() override { return ++marks_; }
  absl::Status Wait(int64_t) override {
    ++counts.waits;
    return absl::OkStatus();
  }
  absl::Status Restart() override { return absl::OkStatus(); }

 private:
  static size_t Size(int64_t bytes) { return static_cast<size_t>(bytes); }

  const DeviceLimits limits_{
      .name = "none", .processors = 8, .shared_bytes = 1 << 20, .whole_step_rows = 2};
  int64_t marks_ = 0;
};

class DeviceCalls : public testing::TestWithParam<const char*> {};

TEST_P(DeviceCalls, AWarmStepIsACopyALaunchAndACopy) {
  const ModelDescription model =
      *DescribeModel((*FindFamily(GetParam()))->variants()[0]);
  const DrawnWeights weights(model);
  CountingDriver driver;
  const auto decoder = *MakeDecoder(model, weights.views, {.device = &driver});
  const auto arena = *StateArena::Create(
      decoder->spec(), {.slots = 8, .memory = decoder->MakeStateMemory()});
  for (const size_t sessions : {1, 7}) {
    std::vector<Segment> segments;
    std::vector<int32_t> drawn(sessions);
    const int32_t unknown = kDrawn;
    for (size_t i = 0; i < sessions; ++i) {
      const int32_t slot = *arena->Acquire();
      ASSERT_TRUE(decoder->BeginDraws(slot, {}, {}).ok());
      segments.push_back({.slot = slot,
                          .tokens = {&unknown, 1},
                          .logits = LogitsMode::kNone,
                          .draw = true});
    }
    const auto submit = [&] {
      for (Segment& segment : segments) segment.position = arena->length(segment.slot);
      return decoder->Submit(segments, *arena, nullptr);
    };
    ASSERT_TRUE(submit().ok());
    ASSERT_TRUE(submit().ok());
    ASSERT_TRUE(decoder->Complete(drawn).ok());
    driver.counts = {};
    const int64_t before = CountAllocationsOfThread().calls;
    const absl::Status submitted = submit();
    const CountingDriver::Counts step = driver.counts;
    const absl::Status completed = decoder->Complete(drawn);
    EXPECT_EQ(CountAllocationsOfThread().calls, before);
    EXPECT_TRUE(submitted.ok() && completed.ok());
    // Few rows are one kernel; more are graphs: of the program, of logits, of draws.
    EXPECT_EQ(step,
              (CountingDriver::Counts{
                  .copies_in = 1, .copies_out = 1, .launches = sessions == 1 ? 1 : 3}));
    EXPECT_EQ(driver.counts.waits, 1);
    ASSERT_TRUE(decoder->Complete(drawn).ok());
    for (const Segment& segment : segments) {
      decoder->EndDraws(segment.slot);
      arena->Release(segment.slot);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, DeviceCalls,
                         testing::Values("feedback", "fast_weights", "transformer_xl",
                                         "causal"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace mnemon
