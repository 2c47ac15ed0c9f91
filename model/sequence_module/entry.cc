// SPDX-License-Identifier: MIT
// The library's side of model/module/sequence_module.h.
#include <exception>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>

#include "base/out_of_memory.h"
#include "base/process.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/default/default_decoder.h"
#include "model/module/sequence_module.h"
#include "model/sequence/device.h"
#include "model/sequence/model.h"
#include "model/sequence/runtime.h"
#include "model/sequence_registry/sequence_registry.h"

namespace mnemon {
namespace {

void CopyWeights(const TensorViews& views, Model& model) {
  std::map<std::string_view, const TensorView*> by_name;
  for (const TensorView& view : views) by_name[view.name] = &view;
  const at::NoGradGuard no_grad;
  model.Visit([&](const std::string& name, at::Tensor& tensor) {
    const TensorView& view = *by_name.at(name);
    tensor.copy_(at::from_blob(const_cast<float*>(view.data), view.shape));
  });
}

class TorchModule final : public SequenceModule {
 public:
  // The default decoder runs on one core.
  TorchModule() { InitTensorRuntime(1); }

  std::string LibraryVersion() const override {
    return StrCat("libtorch ", TensorLibraryVersion());
  }

  absl::Status CheckDevice(const std::string& device) const override {
    const std::lock_guard lock(mutex_);
    return FindDevice(device).status();
  }

  absl::StatusOr<std::unique_ptr<Decoder>> MakeDecoder(
      const ModelConfig& config, const TensorViews& views,
      const std::string& device) const override {
    const std::lock_guard lock(mutex_);
    MNEMON_ASSIGN_OR_RETURN(const at::Device where, FindDevice(device));
    MNEMON_ASSIGN_OR_RETURN(std::unique_ptr<Model> model, MakeModel(config));
    CopyWeights(views, *model);
    try {
      MoveWeights(*model, where);
    } catch (const std::exception&) {
      return OutOfMemoryError(StrCat("the weights on ", where.str()));
    }
    RequireGradients(*model, false);
    return MakeDefaultDecoder(std::move(model));
  }

 private:
  mutable std::mutex mutex_;  // one at a time: devices are made ready on first use
};

}  // namespace
}  // namespace mnemon

extern "C" __attribute__((visibility("default"))) const mnemon::SequenceModule*
MnemonSequenceModule(const char* build) {
  if (mnemon::VersionText("sequence module", "") != build) return nullptr;
  static const mnemon::TorchModule module;
  return &module;
}
