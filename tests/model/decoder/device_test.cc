// SPDX-License-Identifier: MIT
// Every architecture computes the same on another device as on the CPU, and no tensor
// stays on the CPU: an operation across devices throws.
#include "model/sequence/device.h"

#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cross_entropy_loss.h>

#include "base/error.h"
#include "gmock/gmock.h"
#include "model/sequence/make_model.h"
#include "tests/fakes/device/host_device.h"
#include "tests/model/decoder/variants.h"

namespace mnemon {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kTime = 6;

at::Tensor Here(const at::Tensor& tensor) { return tensor.to(at::kCPU); }

double Tolerance(at::Device device) { return device == HostDevice() ? 1e-5 : 1e-4; }

class DeviceTest : public testing::TestWithParam<ModelConfig> {
 protected:
  std::unique_ptr<Model> ModelOn(at::Device device) const {
    std::unique_ptr<Model> model = MakeTestModel(GetParam());
    MoveWeights(*model, device);
    EXPECT_EQ(DeviceOf(*model), device);
    return model;
  }
};

using DecoderDeviceTest = DeviceTest;
using EncoderDeviceTest = DeviceTest;

TEST_P(DecoderDeviceTest, ForwardAndItsCarry) {
  const std::unique_ptr<Model> here = ModelOn(at::kCPU);
  const at::Tensor tokens = RandomTokens(GetParam(), 2, kTime);
  const at::Device device = AcceleratorForTests();
  SCOPED_TRACE(device.str());
  const std::unique_ptr<Model> there = ModelOn(device);
  Carry a, b;
  for (const auto& [begin, count] : {std::pair{0, 3}, {3, 1}, {4, 2}}) {
    const at::Tensor piece = tokens.narrow(1, begin, count);
    const ForwardResult expected = MustForward(*here, piece, a);
    const ForwardResult found = MustForward(*there, piece, b);
    EXPECT_EQ(found.logits.device(), device);
    EXPECT_LE(RelativeDifference(Here(found.logits), expected.logits),
              Tolerance(device));
    ASSERT_EQ(found.carry.tensors.size(), expected.carry.tensors.size());
    for (size_t i = 0; i < found.carry.tensors.size(); ++i) {
      EXPECT_EQ(found.carry.tensors[i].device(), device);
      EXPECT_LE(
          RelativeDifference(Here(found.carry.tensors[i]), expected.carry.tensors[i]),
          Tolerance(device));
    }
    a = expected.carry, b = found.carry;
  }
}

std::vector<std::pair<std::string, at::Tensor>> Gradients(
    Model& model, const at::Tensor& tokens, const ForwardOptions& options) {
  CastWeights(model, at::kDouble);
  RequireGradients(model, true);
  const ForwardResult result =
      MustForward(model, tokens.narrow(1, 0, kTime), {}, options);
  const at::Tensor targets = tokens.narrow(1, 1, kTime).flatten();
  at::cross_entropy_loss(result.logits.flatten(0, 1),
                         targets.to(result.logits.device()))
      .backward();
  std::vector<std::pair<std::string, at::Tensor>> gradients;
  model.Visit([&](const std::string& name, at::Tensor& weight) {
    gradients.emplace_back(name, weight.grad());
  });
  return gradients;
}

// Uses float64: fast weights divide by sums that may be close to zero, and in float32
// the two devices' rounding, 2e-4 on an H100, could hide a mistake.
TEST_P(DeviceTest, GradientsAndDropout) {
  const at::Tensor tokens = RandomTokens(GetParam(), 2, kTime + 1);
  const at::Device device = AcceleratorForTests();
  const ForwardOptions options = {.dropout = DropoutKey{.key = 1}};
  const auto expected = Gradients(*ModelOn(at::kCPU), tokens, options);
  const auto found = Gradients(*ModelOn(device), tokens, options);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    SCOPED_TRACE(device.str() + " " + expected[i].first);
    ASSERT_EQ(found[i].second.defined(), expected[i].second.defined());
    if (!found[i].second.defined()) continue;
    EXPECT_EQ(found[i].second.device(), device);
    EXPECT_LE(RelativeDifference(Here(found[i].second), expected[i].second), 1e-9);
  }
}

// Logits [T, V] of the default decoder, computed in pieces of these lengths; `beside`
// other sessions take part in the same steps.
std::vector<float> Decode(const Model& model, const std::vector<int64_t>& pieces,
                          int beside) {
  const int64_t vocab = model.description().vocab;
  const at::Tensor tokens = RandomTokens(model.description(), 1, kTime);
  const std::vector<int32_t> ids(tokens.data_ptr<int64_t>(),
                                 tokens.data_ptr<int64_t>() + kTime);
  auto decoder = MakeDecoder(model);
  EXPECT_TRUE(decoder.ok()) << decoder.status();
  auto arena = StateArena::Create((*decoder)->spec(), {.slots = beside + 1});
  EXPECT_TRUE(arena.ok()) << arena.status();
  std::vector<int32_t> slots;
  for (int i = 0; i <= beside; ++i) slots.push_back(*(*arena)->Acquire());
  std::vector<float> logits;
  int64_t at = 0;
  for (const int64_t length : pieces) {
    std::vector<Segment> segments;
    for (const int32_t slot : slots) {
      // The one that counts comes last.
      segments.push_back(
          {.slot = slot,
           .position = at,
           .tokens = {ids.data() + at, static_cast<size_t>(length)},
           .logits = slot == slots.back() ? LogitsMode::kAll : LogitsMode::kNone});
    }
    std::vector<float> rows(length * vocab);
    const absl::Status status = (*decoder)->Step(segments, **arena, rows.data());
    EXPECT_TRUE(status.ok()) << status;
    logits.insert(logits.end(), rows.begin(), rows.end());
    at += length;
  }
  return logits;
}

// State stays in the arena of the host; the weights and the work are there.
TEST_P(DecoderDeviceTest, TheDefaultDecoder) {
  const std::vector<float> expected = Decode(*ModelOn(at::kCPU), {kTime}, 0);
  const at::Device device = AcceleratorForTests();
  SCOPED_TRACE(device.str());
  const std::unique_ptr<Model> there = ModelOn(device);
  const std::vector<float> found = Decode(*there, {kTime}, 0);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], 10 * Tolerance(device)) << i;
  }
  EXPECT_EQ(Decode(*there, {1, 3, 2}, 0), found) << "bits in pieces";
  EXPECT_EQ(Decode(*there, {kTime}, 2), found) << "bits beside others";
}

// A predictor computes on the CPU wherever the model is.
TEST_P(EncoderDeviceTest, ThePredictor) {
  constexpr int64_t kBatch = 2;
  const at::Tensor tokens = RandomTokens(GetParam(), kBatch, kTime);
  const std::vector<int32_t> ids(tokens.data_ptr<int64_t>(),
                                 tokens.data_ptr<int64_t>() + tokens.numel());
  const std::unique_ptr<Model> here = ModelOn(at::kCPU);
  const auto expected =
      (*MakePredictor(*here))->Predict({.tokens = ids, .batch = kBatch});
  ASSERT_TRUE(expected.ok()) << expected.status();
  const at::Device device = AcceleratorForTests();
  SCOPED_TRACE(device.str());
  const std::unique_ptr<Model> there = ModelOn(device);
  const auto found =
      (*MakePredictor(*there))->Predict({.tokens = ids, .batch = kBatch});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->logits, expected->logits);
}

INSTANTIATE_TEST_SUITE_P(Variants, DeviceTest, testing::ValuesIn(AllVariants()),
                         VariantName);
INSTANTIATE_TEST_SUITE_P(Variants, DecoderDeviceTest,
                         testing::ValuesIn(AutoregressiveVariants()), VariantName);
INSTANTIATE_TEST_SUITE_P(Variants, EncoderDeviceTest,
                         testing::ValuesIn(EncoderKindVariants()), VariantName);

TEST(HostDevice, RefusesWhatAGpuRefuses) {
  const at::Tensor here = RandomTokens(AllVariants()[0], 2, 2);
  const at::Tensor there = here.to(HostDevice());
  EXPECT_EQ(there.device(), HostDevice());
  EXPECT_TRUE(Here(there).equal(here));
  EXPECT_TRUE(Here(there + there).equal(here + here));
  EXPECT_THROW(there + here, c10::Error);
}

TEST(FindDevice, TheCpuIsAlwaysThere) {
  const auto device = FindDevice("cpu");
  ASSERT_TRUE(device.ok());
  EXPECT_EQ(*device, at::Device(at::kCPU));
  EXPECT_EQ(DeviceClass(*device).rfind("cpu", 0), 0);
}

TEST(FindDevice, NamesFlagAndFix) {
  for (const char* name : {"", "gpu", "CUDA", "cuda:1", "\n"}) {
    const auto device = FindDevice(name);
    EXPECT_EQ(device.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(GetErrorDetail(device.status())->field, "device");
    EXPECT_THAT(std::string(device.status().message()), HasSubstr("--device"));
    EXPECT_THAT(std::string(device.status().message()), HasSubstr("cpu or cuda"));
  }
}

TEST(FindDevice, SaysWhyThereIsNoGpu) {
  const auto device = FindDevice("cuda");
  if (device.ok()) {
    EXPECT_TRUE(device->is_cuda());
    EXPECT_EQ(DeviceClass(*device).rfind("cuda-", 0), 0);
    return;
  }
  EXPECT_EQ(device.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(device.status().message()),
              testing::AllOf(HasSubstr("--device cuda: "), HasSubstr("--device cpu")));
}

}  // namespace
}  // namespace mnemon
