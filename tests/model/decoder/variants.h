// SPDX-License-Identifier: MIT
// The models of the property tests: every variant of every architecture, with weights
// that hide nothing (no table at zero, no two layers alike).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "gtest/gtest.h"
#include "model/families/config.h"
#include "model/sequence/model.h"

namespace mnemon {

std::vector<ModelConfig> AllVariants();
// Variants that a carry continues, and variants that take whole sequences.
std::vector<ModelConfig> AutoregressiveVariants();
std::vector<ModelConfig> EncoderKindVariants();
bool Autoregressive(const ModelConfig& config);
// "feedback_0": the architecture and the index among its variants.
std::string VariantName(const testing::TestParamInfo<ModelConfig>& info);

// Gradients are off.
std::unique_ptr<Model> MakeTestModel(const ModelConfig& config, uint64_t seed = 1);
std::unique_ptr<Model> MakeTestModel(const ModelDescription& model, uint64_t seed = 1);

// [batch, time] int64, within the vocabulary.
at::Tensor RandomTokens(const ModelConfig& config, int64_t batch, int64_t time,
                        uint64_t seed = 1);
at::Tensor RandomTokens(const ModelDescription& model, int64_t batch, int64_t time,
                        uint64_t seed = 1);

// The ids of such a tensor, row by row.
std::vector<int32_t> Ids(const at::Tensor& tokens);

at::Generator MakeGenerator(uint64_t seed);

// How many of `time` tokens give the same logits in any segmentation: all except for
// whole segments (Attention), which are part of the function as soon as a query sees
// more than its window.
int64_t SegmentationFree(const ModelDescription& model, int64_t time);
int64_t SegmentationFree(const ModelConfig& config, int64_t time);

// Forward that must succeed.
ForwardResult MustForward(const Model& model, const at::Tensor& tokens,
                          const Carry& carry = {}, const ForwardOptions& options = {});
// Forward over consecutive pieces of these lengths, with logits concatenated.
ForwardResult MustForwardInPieces(const Model& model, const at::Tensor& tokens,
                                  const std::vector<int64_t>& lengths,
                                  Carry carry = {});

// [rows, columns] of doubles, N(0, 1).
at::Tensor Normal(at::IntArrayRef shape, uint64_t seed);

// max |a - b| / (1 + max |b|).
double RelativeDifference(const at::Tensor& a, const at::Tensor& b);

}  // namespace mnemon
