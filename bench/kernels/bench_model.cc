// SPDX-License-Identifier: MIT
#include "bench/kernels/bench_model.h"

#include <utility>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>

#include "base/status_macros.h"
#include "bench/kernels/model_size.h"
#include "model/io/checkpoint.h"
#include "model/sequence/device.h"
#include "model/sequence/make_model.h"
#include "model/sequence/model.h"
#include "model/sequence/tensors.h"
#include "train/commands/compute_flags.h"

namespace mnemon {
namespace {

constexpr uint64_t kSeed = 1;

// Draws tensors that start at 0 (biases, tables of positions), which would hide a
// program that reads them wrongly.
void DrawZeros(Model& model) {
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(kSeed);
  model.Visit([&](const std::string&, at::Tensor& tensor) {
    if (!tensor.any().item<bool>()) tensor.normal_(0.0, 0.1, generator);
  });
}

absl::StatusOr<std::unique_ptr<Model>> DrawModel(const ModelConfig& config) {
  MNEMON_ASSIGN_OR_RETURN(std::unique_ptr<Model> model, MakeModel(config));
  InitialiseWeights(*model, Initialisation::kSane, kSeed);
  DrawZeros(*model);
  return model;
}

}  // namespace

absl::StatusOr<std::unique_ptr<BenchModel>> BenchModel::Make(
    std::string_view architecture, std::string_view size, const Compute& compute) {
  MNEMON_ASSIGN_OR_RETURN(const ModelConfig config, SizedConfig(architecture, size));
  MNEMON_ASSIGN_OR_RETURN(std::unique_ptr<Model> model, DrawModel(config));
  MoveWeights(*model, compute.device);
  MNEMON_ASSIGN_OR_RETURN(std::unique_ptr<Decoder> decoder,
                          MakeDecoder(*model, compute.decoder));
  return std::unique_ptr<BenchModel>(new BenchModel(
      architecture, size, config, compute.decoder.format.value_or(WeightFormat::kFp32),
      std::move(model), std::move(decoder)));
}

absl::StatusOr<std::unique_ptr<BenchModel>> BenchModel::Make(
    std::string_view architecture, std::string_view size) {
  return Make(architecture, size, Compute());
}

BenchModel::BenchModel(std::string_view architecture, std::string_view size,
                       const ModelConfig& config, WeightFormat format,
                       std::unique_ptr<Model> model, std::unique_ptr<Decoder> decoder)
    : architecture_(architecture),
      size_(size),
      config_(config),
      format_(format),
      model_(std::move(model)),
      decoder_(std::move(decoder)),
      parameters_(CountParameters(*model_)) {}

BenchModel::~BenchModel() = default;

const StateSpec& BenchModel::carry_spec() const { return model_->carry_spec(); }

absl::Status WriteDrawnCheckpoint(const ModelConfig& config, const std::string& dir) {
  MNEMON_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model, DrawModel(config));
  MNEMON_ASSIGN_OR_RETURN(std::string weights, FormatWeights(*model));
  return WriteCheckpoint(dir, {{"config.json", ConfigToJson(config)},
                               {"model.safetensors", std::move(weights)}});
}

}  // namespace mnemon
