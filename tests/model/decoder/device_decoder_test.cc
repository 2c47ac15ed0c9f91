// SPDX-License-Identifier: MIT
// Step forms on a device (an emulated one) beside the same on the CPU: any schedule of
// steps, forks, cuts and restored states gives the same bits.
#include <cmath>
#include <cstdlib>
#include <memory>
#include <new>
#include <ostream>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/compute/device/open_device.h"
#include "model/compute/step_options.h"
#include "model/compute/thread_pool.h"
#include "model/families/families.h"
#include "model/operations/cpu_operations.h"
#include "model/program/make_decoder.h"
#include "model/sampling/sampler.h"
#include "tests/fakes/device/device_operations.h"
#include "tests/fakes/device/emulated_driver.h"
#include "tests/model/compute/bit_hash.h"
#include "tests/model/decoder/drawn_weights.h"
#include "tests/model/decoder/random_schedule.h"
#include "tests/model/description/random_descriptions.h"

namespace mnemon {
namespace {

// Named by MNEMON_TEST_DEVICE, or an emulated one.
std::unique_ptr<DeviceDriver> MakeDriver(const EmulatedDriver::Options& options) {
  const char* const name = std::getenv("MNEMON_TEST_DEVICE");
  if (name == nullptr) return std::make_unique<EmulatedDriver>(options);
  return OpenDevice(name).value();
}

bool OnEmulator() { return std::getenv("MNEMON_TEST_DEVICE") == nullptr; }

// With MNEMON_SCHEDULES=full each variant runs in all formats, and longer.
bool FullSchedules() {
  const char* const set = std::getenv("MNEMON_SCHEDULES");
  return set != nullptr && std::string_view(set) == "full";
}

struct Case {
  std::string name;
  ModelDescription model;
  WeightFormat format;

  friend void PrintTo(const Case& one, std::ostream* out) {
    *out << one.name << " " << NameOf(one.format);
  }
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  // Each model in one format, and each format in some models.
  int format = 0;
  const auto add = [&](const std::string& name, const ModelDescription& model) {
    constexpr WeightFormat kFormats[] = {WeightFormat::kFp32, WeightFormat::kInt8,
                                         WeightFormat::kBf16};
    const int first = format++;
    for (int i = 0; i < (FullSchedules() ? 3 : 1); ++i) {
      cases.push_back({name, model, kFormats[(first + i) % 3]});
    }
  };
  for (const Family& entry : Families()) {
    if (!entry.autoregressive()) continue;
    format = 0;
    for (const ModelConfig& config : entry.variants()) {
      add(config.architecture, entry.describe(config));
    }
  }
  for (const ModelDescription& model : RandomDescriptions(/*whole=*/false)) {
    add("random", model);
  }
  return cases;
}

class DeviceDecoderTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (!CanEmulateDevices()) GTEST_SKIP() << "no fibers with ThreadSanitizer";
  }

  StepOptions OnCpu() {
    return {.format = GetParam().format,
            .operations = &AllCpuOperations().front(),
            .pool = &pool_};
  }
  StepOptions OnDevice(DeviceDriver& driver) {
    StepOptions options = OnCpu();
    options.device = &driver;
    return options;
  }

  ThreadPool pool_{1};
  DrawnWeights weights_{GetParam().model};
};

TEST_P(DeviceDecoderTest, AnyScheduleGivesTheBitsOfTheCpu) {
  const auto& [name, model, format] = GetParam();
  for (const int64_t whole_step_rows : {0, 8}) {
    const auto driver =
        MakeDriver({.processors = 1 + static_cast<int>(whole_step_rows) / 3,
                    .whole_step_rows = whole_step_rows,
                    .seed = 1 + static_cast<uint64_t>(whole_step_rows)});
    World cpu(model, weights_.views, OnCpu());
    World device(model, weights_.views, OnDevice(*driver));
    RandomSchedule(cpu, device, 7 + static_cast<uint64_t>(whole_step_rows))
        .Run(FullSchedules() ? 60 : 8);
  }
}

TEST_P(DeviceDecoderTest, ImportsTheSameState) {
  const auto& [name, model, format] = GetParam();
  const auto driver = MakeDriver({});
  World cpu(model, weights_.views, OnCpu());
  World device(model, weights_.views, OnDevice(*driver));
  const StateSpec& spec = cpu.arena->spec();
  constexpr int64_t kPosition = 5;
  std::minstd_rand random(3);
  std::uniform_real_distribution<float> number(-1.0f, 1.0f);
  std::vector<std::vector<float>> numbers;
  TensorViews carry;
  for (const StateEntry& one : CarryOf(model).spec.entries) {
    std::vector<int64_t> shape = one.shape;
    if (one.growth != Growth::kFixed) {
      const bool ring = spec.growth() == Growth::kRing;
      shape.insert(shape.begin(),
                   ring ? std::min(kPosition, spec.capacity()) : kPosition);
    }
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    std::vector<float>& some = numbers.emplace_back(static_cast<size_t>(count));
    for (float& f : some) f = number(random);
    carry.push_back({.name = one.name, .shape = shape, .data = some.data()});
  }
  std::vector<float> logits[2];
  for (int w = 0; w < 2; ++w) {
    World& world = w == 0 ? cpu : device;
    const int32_t slot = *world.arena->Acquire();
    const absl::Status imported =
        world.decoder->Import(kPosition, carry, *world.arena, slot);
    ASSERT_TRUE(imported.ok()) << imported;
    const int32_t token = 1;
    logits[w].resize(static_cast<size_t>(model.vocab));
    const Segment segment{.slot = slot, .position = kPosition, .tokens = {&token, 1}};
    ASSERT_TRUE(
        world.decoder->Step({&segment, 1}, *world.arena, logits[w].data()).ok());
    world.arena->Reset(slot);
    if (!carry.empty()) {
      const float before = std::exchange(numbers.back().back(), HUGE_VALF);
      EXPECT_TRUE(IsNonFiniteState(
          world.decoder->Import(kPosition, carry, *world.arena, slot)));
      EXPECT_EQ(world.arena->length(slot), 0);
      numbers.back().back() = before;
    }
    world.arena->Release(slot);
  }
  EXPECT_EQ(logits[0], logits[1]);
}

// A token whose numbers are not finite: no session of its step keeps what it made, and
// they go on without it.
TEST_P(DeviceDecoderTest, AStateThatIsNotFiniteIsNotKept) {
  const auto& [name, model, format] = GetParam();
  constexpr int32_t kBad = 1;
  // An RMS norm turns what is too large to be squared into zero.
  const bool squared = model.head.norm.kind == Norm::Kind::kRms;
  const float bad = squared ? HUGE_VALF : 3e38f;
  for (size_t i = 0; i < weights_.views.size(); ++i) {
    if (weights_.views[i].name != names::Weight(names::kEmbed)) continue;
    std::fill_n(weights_.floats[i].begin() + kBad * model.width, model.width, bad);
  }
  for (const int64_t whole_step_rows : {0, 8}) {
    const auto driver = MakeDriver({.whole_step_rows = whole_step_rows});
    World cpu(model, weights_.views, OnCpu());
    World device(model, weights_.views, OnDevice(*driver));
    std::vector<float> logits[2];
    for (int w = 0; w < 2; ++w) {
      World& world = w == 0 ? cpu : device;
      logits[w].resize(static_cast<size_t>(2 * model.vocab));
      const int32_t slots[] = {*world.arena->Acquire(), *world.arena->Acquire()};
      const auto step = [&](int64_t position, std::vector<int32_t> tokens) {
        std::vector<Segment> segments;
        for (size_t s = 0; s < 2; ++s) {
          segments.push_back(
              {.slot = slots[s], .position = position, .tokens = {&tokens[s], 1}});
        }
        return world.decoder->Step(segments, *world.arena, logits[w].data());
      };
      ASSERT_TRUE(step(0, {2, 3}).ok());
      const absl::Status status = step(1, {kBad, 2});
      EXPECT_TRUE(IsNonFiniteState(status)) << status;
      for (const int32_t slot : slots) world.arena->Reset(slot);
      ASSERT_TRUE(step(0, {3, 2}).ok());
      for (const int32_t slot : slots) world.arena->Release(slot);
    }
    if (!model.head.tied) {
      EXPECT_EQ(logits[0], logits[1]);
    }
  }
}

// Sessions that generate, each with parameters of its own, the next step submitted
// before the last one is complete.
class Generation {
 public:
  static constexpr int kLongest = 5;  // prompt

  Generation(const ModelDescription& model, uint64_t seed) : vocab_(model.vocab) {
    std::minstd_rand random(static_cast<uint32_t>(seed));
    for (int i = 0; i < 5; ++i) {
      SamplingParams& params = params_.emplace_back();
      params.temperature = i == 0 ? 0.0f : 0.9f;
      params.top_k = i == 1 ? 3 : 0;
      params.top_p = i == 2 ? 0.7f : 1.0f;
      params.repetition_penalty = i >= 3 ? 1.3f : 1.0f;
      params.penalty_window_tokens = i == 3 ? 4 : 64;
      if (i == 4)
        params.logit_bias = {{.token = 0, .bias = 1}, {.token = 2, .bias = -1}};
      params.seed = random();
      std::vector<int32_t>& prompt = prompts_.emplace_back();
      for (int p = 0; p < 1 + i * 3 % kLongest; ++p) {
        prompt.push_back(static_cast<int32_t>(random() % vocab_));
      }
    }
  }

  // Logits of the last session, step by step, as they are before penalties.
  std::vector<float> logits;

  // The histories, with so many tokens drawn.
  std::vector<std::vector<int32_t>> OnHost(World& world, int tokens) {
    std::vector<std::vector<int32_t>> histories = prompts_;
    SamplerScratch scratch;
    for (size_t i = 0; i < histories.size(); ++i) {
      std::vector<int32_t>& history = histories[i];
      const int32_t slot = *world.arena->Acquire();
      PenaltyCounts penalties(params_[i], vocab_);
      std::vector<float> row(static_cast<size_t>(vocab_));
      std::span<const int32_t> fed = history;
      for (int t = 0; t < tokens; ++t) {
        const Segment segment{
            .slot = slot, .position = world.arena->length(slot), .tokens = fed};
        EXPECT_TRUE(world.decoder->Step({&segment, 1}, *world.arena, row.data()).ok());
        if (i + 1 == histories.size()) {
          logits.insert(logits.end(), row.begin(), row.end());
        }
        penalties.Update(history);
        history.push_back(*Sample(row, params_[i], static_cast<int64_t>(history.size()),
                                  scratch, penalties.counts()));
        fed = std::span(history).last(1);
      }
      world.arena->Release(slot);
    }
    return histories;
  }

  std::vector<std::vector<int32_t>> OnDevice(World& world, int tokens) {
    std::vector<std::vector<int32_t>> histories = prompts_;
    std::vector<int32_t> slots, drawn(histories.size());
    for (size_t i = 0; i < histories.size(); ++i) {
      slots.push_back(*world.arena->Acquire());
      EXPECT_TRUE(
          world.decoder->BeginDraws(slots.back(), params_[i], prompts_[i]).ok());
    }
    const int32_t unknown = kDrawn;
    logits.resize(static_cast<size_t>(tokens * vocab_));
    for (int t = 0; t <= tokens; ++t) {
      std::vector<Segment> segments;
      for (size_t i = 0; i < histories.size() && t < tokens; ++i) {
        segments.push_back(
            {.slot = slots[i],
             .position = world.arena->length(slots[i]),
             .tokens = t == 0 ? std::span<const int32_t>(prompts_[i])
                              : std::span(&unknown, 1),
             .logits = i + 1 < histories.size() ? LogitsMode::kNone : LogitsMode::kLast,
             .draw = true});
      }
      if (t < tokens) {
        EXPECT_TRUE(
            world.decoder->Submit(segments, *world.arena, logits.data() + t * vocab_)
                .ok());
      }
      if (t == 0) continue;
      EXPECT_TRUE(world.decoder->Complete(drawn).ok());
      for (size_t i = 0; i < histories.size(); ++i) histories[i].push_back(drawn[i]);
    }
    for (const int32_t slot : slots) {
      world.decoder->EndDraws(slot);
      world.arena->Release(slot);
    }
    return histories;
  }

 private:
  const int64_t vocab_;
  std::vector<SamplingParams> params_;
  std::vector<std::vector<int32_t>> prompts_;
};

TEST_P(DeviceDecoderTest, DrawsTheTokensOfTheHost) {
  const auto& [name, model, format] = GetParam();
  for (const int64_t whole_step_rows : {0, 64}) {
    const auto driver = MakeDriver({.whole_step_rows = whole_step_rows});
    World cpu(model, weights_.views, OnCpu());
    World device(model, weights_.views, OnDevice(*driver));
    Generation here(model, 3), there(model, 3);
    const auto tokens = static_cast<int>(
        std::min<int64_t>(9, cpu.arena->spec().max_positions() - Generation::kLongest));
    EXPECT_EQ(there.OnDevice(device, tokens), here.OnHost(cpu, tokens));
    EXPECT_EQ(there.logits, here.logits);
  }
}

// A device that is lost says so, whatever is asked of it; once it is back everything is
// as it was.
TEST_P(DeviceDecoderTest, ALostDeviceComesBack) {
  if (!OnEmulator()) GTEST_SKIP() << "for the emulated device";
  const auto& [name, model, format] = GetParam();
  EmulatedDriver driver({});
  World device(model, weights_.views, OnDevice(driver));
  Generation generation(model, 4);
  const auto histories = generation.OnDevice(device, 2);
  const int32_t slot = *device.arena->Acquire();
  const int32_t token = 1;
  const Segment segment{
      .slot = slot, .position = 0, .tokens = {&token, 1}, .logits = LogitsMode::kNone};
  driver.Lose(/*tries=*/1);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(
        IsDeviceLost(device.decoder->Step({&segment, 1}, *device.arena, nullptr)));
  }
  EXPECT_TRUE(IsDeviceLost(device.decoder->BeginDraws(slot, {}, {})));
  device.arena = nullptr;
  EXPECT_EQ(device.decoder->Restart().code(), absl::StatusCode::kUnavailable);
  ASSERT_TRUE(device.decoder->Restart().ok());
  device.MakeArena();
  EXPECT_EQ(generation.OnDevice(device, 2), histories);
}

// Memory that runs out at any time, while a decoder is made or a step needs some.
TEST_P(DeviceDecoderTest, WithoutMemoryNothingIsLost) {
  if (!OnEmulator()) GTEST_SKIP() << "for the emulated device";
  const auto& [name, model, format] = GetParam();
  EmulatedDriver driver({});
  std::vector<float> expected, logits(static_cast<size_t>(model.vocab));
  const int32_t token = 1;
  bool failed = true;
  for (int after = 0; failed; ++after) {
    failed = false;
    driver.FailTake(after);
    try {
      World device(model, weights_.views, OnDevice(driver));
      const auto slot = device.arena->Acquire();
      absl::Status status = slot.status();
      if (slot.ok()) {
        const Segment segment{.slot = *slot, .position = 0, .tokens = {&token, 1}};
        status = device.decoder->Step({&segment, 1}, *device.arena, logits.data());
        if (!status.ok()) {
          EXPECT_EQ(device.arena->length(*slot), 0);
          // There is memory again.
          ASSERT_TRUE(
              device.decoder->Step({&segment, 1}, *device.arena, logits.data()).ok());
        }
        if (expected.empty()) expected = logits;
        EXPECT_EQ(logits, expected);
        device.arena->Release(*slot);
      }
      failed = !status.ok();
      if (failed) {
        EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
      }
    } catch (const std::bad_alloc&) {
      failed = true;
    }
    EXPECT_TRUE(driver.Wait(driver.Mark()).ok());
    EXPECT_EQ(driver.used(), 0);
  }
}

// Tables that take more copies than there is pinned memory for, and a step of several
// pieces.
TEST(DeviceDecoder, BringsTablesOfManyLongSessions) {
  if (!CanEmulateDevices()) GTEST_SKIP() << "no fibers with ThreadSanitizer";
  ModelConfig config = (*FindFamily("causal"))->variants()[0];
  config.positions = 1700;
  const ModelDescription model = *DescribeModel(config);
  const DrawnWeights weights(model);
  const auto driver = MakeDriver({});
  ThreadPool pool(1);
  const StepOptions on_cpu{.operations = &AllCpuOperations().front(), .pool = &pool};
  StepOptions on_device = on_cpu;
  on_device.device = driver.get();
  World cpu(model, weights.views, on_cpu);
  World device(model, weights.views, on_device);
  constexpr int64_t kPosition = 1600;
  constexpr size_t kSessions = 50;
  std::minstd_rand random(4);
  std::vector<std::vector<float>> numbers;
  TensorViews carry;
  for (const StateEntry& one : CarryOf(model).spec.entries) {
    std::vector<float>& some =
        numbers.emplace_back(static_cast<size_t>(kPosition * one.elements()));
    for (float& f : some) f = static_cast<float>(random() % 1000) / 500 - 1;
    std::vector<int64_t> shape = one.shape;
    shape.insert(shape.begin(), kPosition);
    carry.push_back({.name = one.name, .shape = shape, .data = some.data()});
  }
  std::vector<int32_t> tokens(kSessions * 6);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % config.vocab);
  std::vector<float> logits[2];
  for (int w = 0; w < 2; ++w) {
    World& world = w == 0 ? cpu : device;
    std::vector<Segment> segments;
    for (size_t i = 0; i < kSessions; ++i) {
      const int32_t slot = *world.arena->Acquire();
      if (i == 0) {
        ASSERT_TRUE(world.decoder->Import(kPosition, carry, *world.arena, slot).ok());
      } else {
        ASSERT_TRUE(world.arena->Fork(segments[0].slot, slot).ok());
      }
      segments.push_back({.slot = slot,
                          .position = kPosition,
                          .tokens = std::span(tokens).subspan(6 * i, 6),
                          .logits = LogitsMode::kAll});
    }
    logits[w].resize(tokens.size() * static_cast<size_t>(config.vocab));
    ASSERT_TRUE(world.decoder->Step(segments, *world.arena, logits[w].data()).ok());
    for (const Segment& segment : segments) world.arena->Release(segment.slot);
  }
  EXPECT_EQ(logits[0], logits[1]);
}

TEST(DeviceDecoder, RefusesAModelThatABlockCannotHold) {
  if (!CanEmulateDevices()) GTEST_SKIP() << "no fibers with ThreadSanitizer";
  const ModelDescription model = *DescribeModel((*FindFamily("causal"))->variants()[0]);
  const DrawnWeights weights(model);
  EmulatedDriver driver({.shared_bytes = 256});
  const auto decoder = MakeDecoder(model, weights.views, {.device = &driver});
  EXPECT_EQ(decoder.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(decoder.status().message()),
              testing::HasSubstr("shared memory"));
}

INSTANTIATE_TEST_SUITE_P(Variants, DeviceDecoderTest, testing::ValuesIn(Cases()),
                         [](const testing::TestParamInfo<Case>& info) {
                           return info.param.name + "_" + std::to_string(info.index) +
                                  "_" + NameOf(info.param.format);
                         });

}  // namespace
}  // namespace mnemon
