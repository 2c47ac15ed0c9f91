// SPDX-License-Identifier: MIT
// The shared library that links libtorch and holds all sequence forms: loaded when a
// model needs it, and never unloaded. See docs/decisions/sequence_module.md.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/compute/weights.h"
#include "model/decoder/decoder.h"

namespace mnemon {

// Implemented in the library. Safe for concurrent use.
class SequenceModule {
 public:
  virtual ~SequenceModule() = default;

  // "libtorch 1.13.1"
  virtual std::string LibraryVersion() const = 0;

  // INVALID_ARGUMENT if `device`, the value of a --device flag, is not available; the
  // message names the flag and the fix.
  virtual absl::Status CheckDevice(const std::string& device) const = 0;

  // The default decoder on `device`, with copies of the weights in `views`, all tensors
  // of the model.
  virtual absl::StatusOr<std::unique_ptr<Decoder>> MakeDecoder(
      const ModelDescription& model, const TensorViews& views,
      const std::string& device) const = 0;
};

// Loads the library beside the program's own file, or in ../lib/mnemon from there.
// FAILED_PRECONDITION, which names the files, if none can be loaded or it is not of
// this program's build. Safe for concurrent use.
absl::StatusOr<const SequenceModule*> LoadSequenceModule();

// Entry point of the library, named kSequenceModuleEntry; returns null if the caller is
// of another build.
using SequenceModuleEntry = const SequenceModule* (*)(const char* build);
inline constexpr char kSequenceModuleEntry[] = "MnemonSequenceModule";

}  // namespace mnemon
