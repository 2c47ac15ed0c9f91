// SPDX-License-Identifier: MIT
// The sampler of a device (model/compute/cuda/sample.h), on the emulator, gives the
// tokens of Sample, whatever the launch, the seed and what memory held before.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "base/error.h"
#include "gtest/gtest.h"
#include "model/compute/cuda/sample.h"
#include "model/compute/device/slot_sampler.h"
#include "model/compute/functions.h"
#include "model/sampling/fixed_point.h"
#include "model/sampling/philox.h"
#include "model/sampling/sampler.h"
#include "tests/fakes/device/device_emulator.h"
#include "tests/fakes/device/device_operations.h"
#include "tests/model/sampling/drawn_cases.h"

namespace mnemon {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(DeviceNumbers, AreThoseOfTheCpu) {
  Draws draws(3);
  for (int round = 0; round < 100000; ++round) {
    // Totals of any length.
    const uint64_t total = draws.Bits() >> draws.Below(64), random = draws.Bits();
    const float share = draws.OneOf(
        {0.0f, 1.0f, std::ldexp(1.0f, -draws.Below(150)),
         std::ldexp(static_cast<float>(draws.Bits() >> 40), -24 - draws.Below(140))});
    ASSERT_EQ(device::CeilOfShare(share, total), CeilOfShare(share, total))
        << share << " of " << total;
    ASSERT_EQ(device::FloorOfFraction(random, total), FloorOfFraction(random, total));
    ASSERT_EQ(device::RandomAt(random, total), RandomAt(random, total));
    const double scaled = static_cast<double>(total | 1) * 0x1p-40;
    ASSERT_EQ(device::Log(scaled), numerics::Log(scaled)) << scaled;
    ASSERT_EQ(device::FixedPoint(share),
              static_cast<uint64_t>(std::ldexp(double{share}, 40)));
  }
}

// What a device knows of a request, in the memory of the host.
class DeviceRequest {
 public:
  DeviceRequest(const SamplingParams& params, const std::vector<int32_t>& history)
      : image_(params, history), sampler_(image_.MoveTo(Memory())) {}
  DeviceRequest(const DeviceRequest&) = delete;
  DeviceRequest& operator=(const DeviceRequest&) = delete;

  device::SlotSampler* sampler() { return sampler_; }

 private:
  // Where the image is itself.
  void* Memory() { return const_cast<void*>(image_.data()); }

  SlotSamplerImage image_;
  device::SlotSampler* const sampler_;
};

// Launches of drawn shapes.
class Device {
 public:
  explicit Device(Draws& draws) : draws_(draws) {}

  // Draws change the logits, [rows, vocab].
  std::vector<int32_t> Sample(const std::vector<device::DrawRow>& rows,
                              std::vector<float> logits) {
    const size_t vocab = logits.size() / rows.size();
    const DeviceLaunch launch = Shape();
    std::vector<std::vector<int32_t>> scratch(static_cast<size_t>(launch.blocks));
    for (auto& of_block : scratch) of_block = Scratch(vocab);
    std::vector<int32_t> tokens(rows.size(), -9);
    const device::SampleCall call{rows.data(),
                                  static_cast<int64_t>(rows.size()),
                                  static_cast<int32_t>(vocab),
                                  {logits.data(), static_cast<int64_t>(vocab)},
                                  tokens.data()};
    RunOnDevice(launch, draws_.Bits(), [&] {
      device::Sample(call, {device::BlockIndex(), launch.blocks}, Shared(),
                     scratch[static_cast<size_t>(device::BlockIndex())].data());
    });
    return tokens;
  }

  // What the cuts leave.
  std::vector<int32_t> Kept(const std::vector<float>& logits,
                            const SamplingParams& params, float most) {
    DeviceLaunch launch = Shape();
    launch.blocks = 1;
    const auto vocab = static_cast<int32_t>(logits.size());
    std::vector<int32_t> scratch = Scratch(logits.size()), kept;
    const device::SampleRow row{.top_k = params.top_k,
                                .top_p = params.top_p,
                                .min_p = params.min_p,
                                .typical_p = params.typical_p};
    RunOnDevice(launch, draws_.Bits(), [&] {
      device::Candidates candidates(logits.data(), vocab, scratch.data(),
                                    scratch.data() + vocab, *Shared());
      const device::WeightScale scale{most, params.temperature};
      device::MakeCuts(row, scale, candidates);
      const device::DrawWeight weight = device::CutMinP(row, scale, candidates);
      if (device::ThreadIndex() != 0) return;
      for (int32_t i = 0; i < candidates.count(); ++i) {
        const device::CandidateToken token = candidates.Token(i);
        if (weight.least == 0 || weight(token) > 0) kept.push_back(token.id);
      }
    });
    return kept;
  }

 private:
  static device::SampleShared* Shared() {
    return static_cast<device::SampleShared*>(device::SharedMemory());
  }
  std::vector<int32_t> Scratch(size_t vocab) {
    const int64_t size = device::SampleScratch(static_cast<int32_t>(vocab));
    std::vector<int32_t> scratch(static_cast<size_t>(size));
    for (int32_t& number : scratch) number = static_cast<int32_t>(draws_.Bits());
    return scratch;
  }
  DeviceLaunch Shape() {
    return {.blocks = 1 + draws_.Below(3),
            .threads = draws_.Often(50) ? 1024 : 32 * (1 + draws_.Below(8)),
            .shared_bytes = sizeof(device::SampleShared)};
  }

  Draws& draws_;
};

int32_t AsOnDevice(const absl::StatusOr<int32_t>& token) {
  if (token.ok()) return *token;
  return GetErrorDetail(token.status())->reason == "NO_TOKEN_ALLOWED"
             ? device::kNothingAllowed
             : device::kUnusableLogits;
}

std::vector<int32_t> DrawnTokens(Draws& draws, size_t most, size_t vocab) {
  std::vector<int32_t> tokens(static_cast<size_t>(draws.Below(most)));
  // Few different tokens, or many.
  const size_t among = draws.Often(2) ? std::min<size_t>(vocab, 4) : vocab;
  for (int32_t& token : tokens) token = draws.Below(among);
  return tokens;
}

// One request, on the CPU.
struct Drawn {
  std::vector<float> logits;
  SamplingParams params;
  std::vector<int32_t> history;
  PenaltyCounts counts;

  Drawn(Draws& draws, size_t vocab)
      : logits(draws.Logits(vocab)),
        params(draws.Params(vocab)),
        history(DrawnTokens(draws, 200, vocab)),
        counts(params, static_cast<int64_t>(vocab)) {
    if (draws.Often(4)) {
      // Many of one token.
      const int32_t token = AnyToken(draws);
      for (int i = 0; i < 40; ++i)
        params.logit_bias.push_back({draws.Often(3) ? draws.Below(vocab) : token,
                                     draws.OneOf({0.1f, 3e38f, -3e38f, -7.5f})});
    }
    if (draws.Often(8)) {
      for (size_t i = draws.Often(3) ? 1 : 0; i < vocab; ++i)
        params.logit_bias.push_back({static_cast<int32_t>(i), -kInf});
    }
    if (draws.Often(8))
      logits[static_cast<size_t>(AnyToken(draws))] = draws.OneOf({NAN, -NAN, kInf});
    if (draws.Often(20)) std::fill(logits.begin(), logits.end(), -kInf);
  }

  int32_t Sample(int64_t index, SamplerScratch& scratch) {
    counts.Update(history);
    return AsOnDevice(mnemon::Sample(logits, params, index, scratch, counts.counts()));
  }

 private:
  // Often one that penalties or biases change.
  int32_t AnyToken(Draws& draws) const {
    if (draws.Often(3) && !history.empty()) return history.back();
    if (draws.Often(3) && !params.logit_bias.empty())
      return params.logit_bias.back().token;
    return draws.Below(logits.size());
  }
};

class DeviceSampler : public testing::Test {
 protected:
  void SetUp() override {
    if (!CanEmulateDevices()) GTEST_SKIP() << "no fibers with ThreadSanitizer";
  }

  static void Add(const Drawn& row, DeviceRequest& request,
                  std::vector<device::DrawRow>& rows, std::vector<float>& logits) {
    rows.push_back({.sampler = request.sampler(),
                    .index = static_cast<int64_t>(row.history.size()),
                    .logits_row = static_cast<int32_t>(rows.size())});
    logits.insert(logits.end(), row.logits.begin(), row.logits.end());
  }

  // A call of some rows.
  void ExpectAsOnCpu(size_t vocab, size_t count) {
    std::vector<Drawn> drawn;
    std::vector<std::unique_ptr<DeviceRequest>> requests;
    std::vector<float> logits;
    std::vector<device::DrawRow> rows;
    for (size_t r = 0; r < count; ++r) {
      const Drawn& row = drawn.emplace_back(draws_, vocab);
      requests.push_back(std::make_unique<DeviceRequest>(row.params, row.history));
      Add(row, *requests.back(), rows, logits);
    }
    const std::vector<int32_t> tokens = device_.Sample(rows, logits);
    for (size_t r = 0; r < count; ++r) {
      Drawn& row = drawn[r];
      const SamplingParams& params = row.params;
      ASSERT_EQ(tokens[r], row.Sample(rows[r].index, scratch_))
          << "temperature " << params.temperature << " top_k " << params.top_k
          << " top_p " << params.top_p << " min_p " << params.min_p << " typical_p "
          << params.typical_p << " penalties " << params.penalizes() << " window "
          << params.penalty_window_tokens << " biases " << params.logit_bias.size()
          << " V " << vocab << " row " << r << " of " << count;
    }
  }

  Draws draws_{5};
  Device device_{draws_};
  SamplerScratch scratch_;
};

TEST_F(DeviceSampler, SmallVocabularies) {
  for (int round = 0; round < 150; ++round) {
    const auto vocab =
        static_cast<size_t>(draws_.OneOf({1, 2, 5, 31, 32, 33, 1 + draws_.Below(300)}));
    ASSERT_NO_FATAL_FAILURE(ExpectAsOnCpu(vocab, 1 + draws_.Below(6)));
  }
}

TEST_F(DeviceSampler, MiddlingVocabularies) {
  for (int round = 0; round < 100; ++round) {
    const auto vocab = static_cast<size_t>(
        draws_.OneOf({255, 1024, 1025, 3000, 500 + draws_.Below(3000)}));
    ASSERT_NO_FATAL_FAILURE(ExpectAsOnCpu(vocab, 1 + draws_.Below(4)));
  }
}

TEST_F(DeviceSampler, LargeVocabularies) {
  for (int round = 0; round < 8; ++round)
    ASSERT_NO_FATAL_FAILURE(ExpectAsOnCpu(50257, 2));
}

// Not drawn tokens alone, which most of the kept never become.
TEST_F(DeviceSampler, KeepsTheSameTokens) {
  for (int round = 0; round < 200; ++round) {
    const auto vocab = static_cast<size_t>(
        draws_.OneOf({1, 31, 33, 1025, 1 + draws_.Below(100), 1 + draws_.Below(3000)}));
    const std::vector<float> logits = draws_.Logits(vocab);
    const float most = *std::max_element(logits.begin(), logits.end());
    SamplingParams params = draws_.Params(vocab);
    if (params.temperature == 0 || draws_.Often(2)) params.temperature = 2;
    if (draws_.Often(3)) params.typical_p = draws_.OneOf({0.1f, 0.5f, 0.9f});
    if (draws_.Often(3)) params.top_k = 1 + draws_.Below(vocab);
    // The weight of a token, exactly.
    const float logit = logits[static_cast<size_t>(draws_.Below(vocab))];
    if (draws_.Often(3))
      params.min_p = device::Exp((logit - most) / params.temperature);
    const LogitScale scale{.most = most, .temperature = params.temperature};
    Candidates expected(logits, scale, *scratch_.operations, scratch_.candidates);
    if (params.top_k > 0) expected.CutTopK(params.top_k);
    if (params.typical_p < 1) expected.CutTypical(params.typical_p);
    if (params.top_p < 1) expected.CutTopP(params.top_p);
    if (params.min_p > 0) expected.CutMinP(params.min_p);
    std::vector<int32_t> ids;
    for (size_t i = 0; i < expected.size(); ++i) ids.push_back(expected.id(i));
    ASSERT_EQ(device_.Kept(logits, params, most), ids)
        << "temperature " << params.temperature << " top_k " << params.top_k
        << " top_p " << params.top_p << " min_p " << params.min_p << " typical_p "
        << params.typical_p << " V " << vocab;
  }
}

TEST_F(DeviceSampler, AddsBlocksInTheirOrder) {
  for (const size_t count : {1, 17, 1024, 1025, 3000, 40000}) {
    std::vector<float> parts(count);
    for (float& part : parts) part = static_cast<float>(std::abs(draws_.Normal()));
    float expected = 0;
    for (size_t block = 0; block < count; block += 1024) {
      float sums[16] = {};
      for (size_t i = block; i < std::min(block + 1024, count); ++i)
        sums[i % 16] += parts[i];
      for (int apart = 8; apart > 0; apart /= 2) {
        for (int i = 0; i < apart; ++i) sums[i] += sums[i + apart];
      }
      expected += sums[0];
    }
    std::vector<float> sums;
    RunOnDevice({.blocks = 1, .threads = 96}, draws_.Bits(), [&] {
      sums.push_back(
          device::BlockSum(parts.data(), static_cast<int32_t>(parts.size())));
    });
    EXPECT_EQ(sums, std::vector<float>(96, expected)) << count;
  }
}

// The device is told of no token after the start.
TEST_F(DeviceSampler, KeepsItsWindowsUpToDate) {
  constexpr size_t kVocab = 12;
  std::vector<Drawn> drawn;
  std::vector<std::unique_ptr<DeviceRequest>> requests;
  for (const int32_t window : {0, 1, 2, 7, 64, 100, 65536, 7}) {
    Drawn& row = drawn.emplace_back(draws_, kVocab);
    row.params = {.temperature = window == 2 ? 0.0f : 0.8f,
                  .repetition_penalty = window == 64 ? 1.0f : 1.2f,
                  .frequency_penalty = 0.3f,
                  .presence_penalty = window == 65536 ? 0.7f : 0.0f,
                  .penalty_window_tokens = window,
                  .seed = draws_.Bits()};
    row.counts = PenaltyCounts(row.params, kVocab);
    row.history = DrawnTokens(draws_, drawn.size() % 2 == 0 ? 90 : 10, kVocab);
    requests.push_back(std::make_unique<DeviceRequest>(row.params, row.history));
  }
  for (int step = 0; step < 150; ++step) {
    std::vector<float> logits;
    std::vector<device::DrawRow> rows;
    for (size_t r = 0; r < drawn.size(); ++r) {
      drawn[r].logits = draws_.Logits(kVocab);
      Add(drawn[r], *requests[r], rows, logits);
    }
    const std::vector<int32_t> tokens = device_.Sample(rows, logits);
    for (size_t r = 0; r < drawn.size(); ++r) {
      const int32_t token = drawn[r].Sample(rows[r].index, scratch_);
      ASSERT_EQ(tokens[r], token) << "step " << step << " row " << r;
      drawn[r].history.push_back(token);
    }
  }
}

}  // namespace
}  // namespace mnemon
