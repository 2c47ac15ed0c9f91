// SPDX-License-Identifier: MIT
#include "model/sequence_registry/sequence_registry.h"

#include <algorithm>
#include <array>
#include <exception>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/Exception.h>

#include "base/check.h"
#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/arch/causal.h"
#include "model/arch/encoder.h"
#include "model/arch/fast_weights.h"
#include "model/arch/feedback.h"
#include "model/arch/transformer_xl.h"
#include "model/default/default_decoder.h"
#include "model/sequence/device.h"

namespace mnemon {
namespace {

struct SequenceForm {
  std::string_view architecture;
  // REQUIRES: validated. Weights are allocated, not initialised.
  std::unique_ptr<Model> (*make)(const ModelConfig& config);
};

constexpr auto kSequenceForms = std::to_array<SequenceForm>({
    {"feedback", MakeFeedback},
    {"fast_weights", MakeFastWeights},
    {"transformer_xl", MakeTransformerXl},
    {"causal", MakeCausal},
    {"encoder", MakeEncoder},
});

// Views of all weights on the CPU; `copies` keeps those that lie elsewhere.
TensorViews ViewOnCpu(const Model& model, std::vector<at::Tensor>& copies) {
  // Not const, for visitors that replace tensors; these only look.
  Model& looked_at = const_cast<Model&>(model);
  if (DeviceOf(model).is_cpu()) return ViewWeights(looked_at);
  TensorViews views;
  looked_at.Visit([&](const std::string& name, at::Tensor& tensor) {
    copies.push_back(tensor.to(at::kCPU).contiguous());
    views.push_back({name, tensor.sizes().vec(), copies.back().data_ptr<float>()});
  });
  return views;
}

void CopyWeights(const TensorViews& views, Model& model) {
  std::map<std::string_view, const TensorView*> by_name;
  for (const TensorView& view : views) by_name[view.name] = &view;
  const at::NoGradGuard no_grad;
  model.Visit([&](const std::string& name, at::Tensor& tensor) {
    const TensorView& view = *by_name.at(name);
    tensor.copy_(at::from_blob(const_cast<float*>(view.data), view.shape));
  });
}

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> MakeModel(const ModelConfig& config) {
  MNEMON_RETURN_IF_ERROR(ValidateModel(config));
  const auto form = std::find_if(
      kSequenceForms.begin(), kSequenceForms.end(),
      [&](const SequenceForm& f) { return f.architecture == config.architecture; });
  MNEMON_CHECK(form != kSequenceForms.end());  // every architecture has one
  return CatchOutOfMemory("the weights of this model",
                          [&]() -> absl::StatusOr<std::unique_ptr<Model>> {
                            try {
                              return form->make(config);
                            } catch (const c10::Error&) {  // how libtorch says it
                              throw std::bad_alloc();
                            }
                          });
}

absl::StatusOr<std::unique_ptr<Decoder>> MakeSequenceDecoder(const ModelConfig& config,
                                                             const TensorViews& views,
                                                             at::Device device) {
  MNEMON_ASSIGN_OR_RETURN(std::unique_ptr<Model> model, MakeModel(config));
  CopyWeights(views, *model);
  try {
    MoveWeights(*model, device);
  } catch (const std::exception&) {
    return OutOfMemoryError(StrCat("the weights on ", device.str()));
  }
  RequireGradients(*model, false);
  return MakeDefaultDecoder(std::move(model));
}

absl::StatusOr<std::unique_ptr<Decoder>> MakeDecoder(const Model& model,
                                                     const DecoderOptions& options) {
  MNEMON_ASSIGN_OR_RETURN(
      const bool sequence,
      ServedBySequenceForm(model.config(),
                           DeviceOf(model).is_cpu() || options.device != nullptr,
                           options));
  if (sequence) return MakeDefaultDecoder(model);
  std::vector<at::Tensor> copies;
  return MakeDecoder(model.config(), ViewOnCpu(model, copies), options);
}

absl::StatusOr<std::unique_ptr<Predictor>> MakePredictor(
    const Model& model, const DecoderOptions& options) {
  std::vector<at::Tensor> copies;
  return MakePredictor(model.config(), ViewOnCpu(model, copies), options);
}

}  // namespace mnemon
