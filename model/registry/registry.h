// SPDX-License-Identifier: MIT
// The architectures mnemon knows: an explicit table in registry.cc.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "model/config/config.h"
#include "model/decoder/decoder.h"
#include "model/kernels/kernels.h"
#include "model/sequence/model.h"

namespace mnemon {

class ThreadPool;
struct StepOptions;

struct ArchitectureEntry {
  std::string_view name;
  std::string_view summary;  // one line
  // What ValidateConfig cannot know: which fields and values this architecture takes.
  absl::Status (*validate)(const ModelConfig& config);
  // REQUIRES: validated. Weights are allocated, not initialised.
  std::unique_ptr<Model> (*make)(const ModelConfig& config);
  // What serves it: one of the two is set, but for an autoregressive model without a
  // step form of its own, which the default decoder serves. What `views` show must
  // outlive the decoder, the model its predictor.
  std::unique_ptr<Decoder> (*make_decoder)(const ModelConfig& config,
                                           const StateSpec& carry_spec,
                                           const TensorViews& views,
                                           const StepOptions& options);
  std::unique_ptr<Predictor> (*make_predictor)(const Model& model);
  // Tiny configurations that together reach every branch of the architecture. Property
  // tests run over them.
  std::vector<ModelConfig> (*variants)();

  bool autoregressive() const { return make_predictor == nullptr; }
};

std::span<const ArchitectureEntry> Architectures();

// NOT_FOUND lists the known names.
absl::StatusOr<const ArchitectureEntry*> FindArchitecture(std::string_view name);

// ValidateConfig and the architecture's own checks, in one error that lists all.
absl::Status ValidateModel(const ModelConfig& config);

// Validates, then makes the model with uninitialised weights. RESOURCE_EXHAUSTED when
// memory does not suffice.
absl::StatusOr<std::unique_ptr<Model>> MakeModel(const ModelConfig& config);

// How a decoder computes, on the CPU.
struct DecoderOptions {
  WeightFormat format = WeightFormat::kFp32;
  std::string target;          // of CpuTargets(); empty: the best
  ThreadPool* pool = nullptr;  // must outlive the decoder; null: the calling thread
};

// The decoder or the predictor that serves `model`, which must outlive it and keep its
// weights. FAILED_PRECONDITION for a model of the other kind.
absl::StatusOr<std::unique_ptr<Decoder>> MakeDecoder(
    const Model& model, const DecoderOptions& options = {});
absl::StatusOr<std::unique_ptr<Predictor>> MakePredictor(const Model& model);

// Applies an architecture name as users type it: a registry name, or feedback_shared
// for feedback with projection: shared. NOT_FOUND lists the known names.
absl::Status SetArchitecture(ModelConfig& config, std::string_view name);

}  // namespace mnemon
