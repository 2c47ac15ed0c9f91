// SPDX-License-Identifier: MIT
#include "model/sequence/make_model.h"

#include <exception>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/families/families.h"
#include "model/sequence/default_decoder.h"
#include "model/sequence/described_model.h"
#include "model/sequence/device.h"

namespace mnemon {
namespace {

// Views of all weights on the CPU; `copies` keeps those that are on another device.
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

}  // namespace

void CopyWeights(const TensorViews& views, Model& model) {
  std::map<std::string_view, const TensorView*> by_name;
  for (const TensorView& view : views) by_name[view.name] = &view;
  const at::NoGradGuard no_grad;
  model.Visit([&](const std::string& name, at::Tensor& tensor) {
    at::Tensor read = at::empty(tensor.sizes());
    ReadRows(*by_name.at(name), 0, tensor.size(0), read.data_ptr<float>());
    tensor.copy_(read);
  });
}

absl::StatusOr<std::unique_ptr<Model>> MakeModel(const ModelConfig& config) {
  MNEMON_ASSIGN_OR_RETURN(const ModelDescription model, DescribeModel(config));
  return MakeModel(model);
}

absl::StatusOr<std::unique_ptr<Model>> MakeModel(const ModelDescription& model) {
  return CatchOutOfMemory("the weights of this model",
                          [&]() -> absl::StatusOr<std::unique_ptr<Model>> {
                            try {
                              return MakeDescribedModel(model);
                            } catch (const c10::Error&) {  // libtorch's error for this
                              throw std::bad_alloc();
                            }
                          });
}

absl::StatusOr<std::unique_ptr<Decoder>> MakeSequenceDecoder(
    const ModelDescription& description, const TensorViews& views, at::Device device) {
  MNEMON_ASSIGN_OR_RETURN(std::unique_ptr<Model> model, MakeModel(description));
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
      ServedBySequenceForm(model.description(),
                           DeviceOf(model).is_cpu() || options.device != nullptr,
                           options));
  if (sequence) return MakeDefaultDecoder(model);
  std::vector<at::Tensor> copies;
  return MakeDecoder(model.description(), ViewOnCpu(model, copies), options);
}

absl::StatusOr<std::unique_ptr<Predictor>> MakePredictor(
    const Model& model, const DecoderOptions& options) {
  std::vector<at::Tensor> copies;
  return MakePredictor(model.description(), ViewOnCpu(model, copies), options);
}

}  // namespace mnemon
