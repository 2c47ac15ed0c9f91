// SPDX-License-Identifier: MIT
#include "tests/model/decoder/variants.h"

#include <algorithm>
#include <limits>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "model/families/families.h"
#include "model/sequence/make_model.h"
#include "model/sequence/runtime.h"

namespace mnemon {
namespace {

// Tiny tensors on a machine that runs other tests too: threads would only wait for each
// other.
class OneThread final : public testing::Environment {
 public:
  void SetUp() override { InitTensorRuntime(1); }
};
const testing::Environment* const kOneThread =
    testing::AddGlobalTestEnvironment(new OneThread);

}  // namespace

std::vector<ModelConfig> AllVariants() {
  std::vector<ModelConfig> all;
  for (const Family& entry : Families()) {
    for (const ModelConfig& config : entry.variants()) all.push_back(config);
  }
  return all;
}

bool Autoregressive(const ModelConfig& config) {
  return FindFamily(config.architecture).value()->autoregressive();
}

std::vector<ModelConfig> AutoregressiveVariants() {
  std::vector<ModelConfig> variants = AllVariants();
  std::erase_if(variants, [](const ModelConfig& c) { return !Autoregressive(c); });
  return variants;
}

std::vector<ModelConfig> EncoderKindVariants() {
  std::vector<ModelConfig> variants = AllVariants();
  std::erase_if(variants, Autoregressive);
  return variants;
}

std::string VariantName(const testing::TestParamInfo<ModelConfig>& info) {
  const std::string& name = info.param.architecture;
  const std::vector<ModelConfig> all = FindFamily(name).value()->variants();
  const auto index = std::find(all.begin(), all.end(), info.param) - all.begin();
  return name + "_" + std::to_string(index);
}

std::vector<int32_t> Ids(const at::Tensor& tokens) {
  const at::Tensor all = tokens.to(at::kInt).contiguous();
  return {all.data_ptr<int32_t>(), all.data_ptr<int32_t>() + all.numel()};
}

at::Generator MakeGenerator(uint64_t seed) {
  return at::make_generator<at::CPUGeneratorImpl>(seed);
}

std::unique_ptr<Model> MakeTestModel(const ModelConfig& config, uint64_t seed) {
  absl::StatusOr<ModelDescription> model = DescribeModel(config);
  EXPECT_TRUE(model.ok()) << model.status();
  return MakeTestModel(*model, seed);
}

std::unique_ptr<Model> MakeTestModel(const ModelDescription& description,
                                     uint64_t seed) {
  absl::StatusOr<std::unique_ptr<Model>> model = MakeModel(description);
  EXPECT_TRUE(model.ok()) << model.status();
  InitialiseWeights(**model, Initialisation::kSane, seed);
  at::Generator generator = MakeGenerator(seed);
  (*model)->Visit([&](const std::string&, at::Tensor& weight) {
    weight.add_(at::empty_like(weight).normal_(0.0, 0.2, generator));
  });
  return *std::move(model);
}

at::Tensor RandomTokens(const ModelConfig& config, int64_t batch, int64_t time,
                        uint64_t seed) {
  return RandomTokens(ModelDescription{.vocab = config.vocab}, batch, time, seed);
}

at::Tensor RandomTokens(const ModelDescription& model, int64_t batch, int64_t time,
                        uint64_t seed) {
  return at::empty({batch, time}, at::kLong)
      .random_(0, model.vocab, MakeGenerator(seed));
}

int64_t SegmentationFree(const ModelDescription& model, int64_t time) {
  const auto* attention = FirstBlock<Attention>(model);
  const bool segments = attention != nullptr && attention->whole_segments;
  return segments ? std::min(time, *attention->window + 1) : time;
}

int64_t SegmentationFree(const ModelConfig& config, int64_t time) {
  return SegmentationFree(*DescribeModel(config), time);
}

ForwardResult MustForward(const Model& model, const at::Tensor& tokens,
                          const Carry& carry, const ForwardOptions& options) {
  absl::StatusOr<ForwardResult> result =
      model.Forward(tokens.contiguous(), carry, options);
  EXPECT_TRUE(result.ok()) << result.status();
  return *std::move(result);
}

ForwardResult MustForwardInPieces(const Model& model, const at::Tensor& tokens,
                                  const std::vector<int64_t>& lengths, Carry carry) {
  std::vector<at::Tensor> logits;
  int64_t begin = 0;
  for (const int64_t length : lengths) {
    ForwardResult part = MustForward(model, tokens.narrow(1, begin, length), carry);
    logits.push_back(part.logits);
    carry = std::move(part.carry);
    begin += length;
  }
  return {.logits = at::cat(logits, 1), .carry = std::move(carry)};
}

at::Tensor Normal(at::IntArrayRef shape, uint64_t seed) {
  return at::empty(shape, at::kDouble).normal_(0.0, 1.0, MakeGenerator(seed));
}

double RelativeDifference(const at::Tensor& a, const at::Tensor& b) {
  EXPECT_EQ(a.sizes(), b.sizes());
  if (a.sizes() != b.sizes()) return std::numeric_limits<double>::infinity();
  return ((a - b).abs().max() / (1.0 + b.abs().max())).item<double>();
}

}  // namespace mnemon
