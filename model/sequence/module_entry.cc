// SPDX-License-Identifier: MIT
// The library's side of model/load/sequence_module.h.
#include <mutex>
#include <string>

#include "base/process/process.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/load/sequence_module.h"
#include "model/sequence/device.h"
#include "model/sequence/make_model.h"
#include "model/sequence/runtime.h"

namespace mnemon {
namespace {

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
      const ModelDescription& model, const TensorViews& views,
      const std::string& device) const override {
    const std::lock_guard lock(mutex_);
    MNEMON_ASSIGN_OR_RETURN(const at::Device where, FindDevice(device));
    return MakeSequenceDecoder(model, views, where);
  }

 private:
  mutable std::mutex mutex_;  // devices are initialised on first use, one at a time
};

}  // namespace
}  // namespace mnemon

extern "C" __attribute__((visibility("default"))) const mnemon::SequenceModule*
MnemonSequenceModule(const char* build) {
  if (mnemon::VersionText("sequence module", "") != build) return nullptr;
  static const mnemon::TorchModule module;
  return &module;
}
