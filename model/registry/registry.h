// SPDX-License-Identifier: MIT
// The table of architectures, without torch: explicit, in registry.cc. The sequence
// forms have one of their own, model/sequence_registry.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "model/config/config.h"
#include "model/decoder/decoder.h"
#include "model/kernels/kernels.h"
#include "model/weights/weights.h"

namespace mnemon {

class DeviceDriver;
class ThreadPool;
struct StepOptions;

struct ArchitectureEntry {
  std::string_view name;
  std::string_view summary;  // one line
  // Checks beyond ValidateConfig: which fields and values this architecture takes.
  absl::Status (*validate)(const ModelConfig& config);
  // All tensors in the order of the file. REQUIRES here and below: validated.
  std::vector<TensorShape> (*tensors)(const ModelConfig& config);
  // What serves it: one of the two is set, but for an autoregressive model without a
  // step form of its own, which the default decoder serves. What `views` show is read
  // during the call alone.
  absl::StatusOr<std::unique_ptr<Decoder>> (*make_decoder)(const ModelConfig& config,
                                                           const TensorViews& views,
                                                           const StepOptions& options);
  std::unique_ptr<Predictor> (*make_predictor)(const ModelConfig& config,
                                               const TensorViews& views,
                                               const StepOptions& options);
  // Tiny configurations that together reach every branch of the architecture. Property
  // tests run over them.
  std::vector<ModelConfig> (*variants)();

  bool autoregressive() const { return make_predictor == nullptr; }
};

std::span<const ArchitectureEntry> Architectures();

// NOT_FOUND lists the known names.
absl::StatusOr<const ArchitectureEntry*> FindArchitecture(std::string_view name);

// All tensors of a checkpoint in the architecture's order; with `int8` that of an int8
// checkpoint, where scales follow the matrix. REQUIRES: validated.
std::vector<TensorShape> StoredTensors(const ModelConfig& config, bool int8);

// ValidateConfig and the architecture's own checks, in one error that lists all.
absl::Status ValidateModel(const ModelConfig& config);

// Which decoder serves an autoregressive model.
enum class DecoderForm {
  kStep,      // its step form, where it has one
  kSequence,  // the default decoder, which runs the sequence form
};

// How a decoder or predictor computes; a predictor on the CPU.
struct DecoderOptions {
  DecoderForm form = DecoderForm::kStep;
  std::optional<WeightFormat> format;  // none: that of the weights
  std::string target;                  // of CpuTargets(); empty: the best
  ThreadPool* pool = nullptr;  // must outlive the decoder; null: the calling thread
  // That step forms compute on; must outlive the decoder; null: the CPU.
  DeviceDriver* device = nullptr;
};

// The step form with the weights that `views` show, or the predictor. `config` was
// validated, and `views` are all of its tensors, which come by `stream`; where some are
// int8, all are that may be (StoredTensors). FAILED_PRECONDITION for a model of the
// other kind, or one without a step form; INVALID_ARGUMENT for another format than int8
// of int8 weights; RESOURCE_EXHAUSTED without memory, or where the device cannot hold a
// row of the model.
absl::StatusOr<std::unique_ptr<Decoder>> MakeDecoder(const ModelConfig& config,
                                                     const TensorViews& views,
                                                     const DecoderOptions& options,
                                                     const WeightStream& stream = {});
absl::StatusOr<std::unique_ptr<Predictor>> MakePredictor(
    const ModelConfig& config, const TensorViews& views, const DecoderOptions& options,
    const WeightStream& stream = {});

// FAILED_PRECONDITION for an encoder, or for any other model.
absl::Status RequireAutoregressive(const ModelConfig& config);
absl::Status RequireEncoder(const ModelConfig& config);

// Whether the default decoder serves the model. `steps`: kernels of step forms run
// where it is wanted. FAILED_PRECONDITION for an encoder; INVALID_ARGUMENT for options
// that do not go with the default decoder.
absl::StatusOr<bool> ServedBySequenceForm(const ModelConfig& config, bool steps,
                                          const DecoderOptions& options);

// Applies an architecture name as users type it: a registry name, or feedback_shared
// for feedback with projection: shared. NOT_FOUND lists the known names.
absl::Status SetArchitecture(ModelConfig& config, std::string_view name);

}  // namespace mnemon
