// SPDX-License-Identifier: MIT
// What serves a model, made of its description and its weights. Free of torch.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/compute/kernels.h"
#include "model/compute/weights.h"
#include "model/decoder/decoder.h"
#include "model/description/description.h"

namespace mnemon {

class DeviceDriver;
class ThreadPool;

// Which decoder serves an autoregressive model.
enum class DecoderForm {
  kStep,      // its step form
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

// That of the matrices as they are stored, in which no number of theirs is rounded:
// int8 or bf16 where all are so, else fp32.
WeightFormat FormatOf(const TensorViews& views);

// The step form with the weights that `views` show, or the predictor. `views` are all
// tensors of the model, which come by `stream`; where some are int8, all are that may
// be (StoredTensors). REQUIRES: CheckDescription accepts the model.
// FAILED_PRECONDITION for a model of the other kind;
// INVALID_ARGUMENT for another format than int8 of int8 weights; RESOURCE_EXHAUSTED
// without memory, or where the device cannot hold a row of the model.
absl::StatusOr<std::unique_ptr<Decoder>> MakeDecoder(const ModelDescription& model,
                                                     const TensorViews& views,
                                                     const DecoderOptions& options,
                                                     const WeightStream& stream = {});
absl::StatusOr<std::unique_ptr<Predictor>> MakePredictor(
    const ModelDescription& model, const TensorViews& views,
    const DecoderOptions& options, const WeightStream& stream = {});

// The instruction set by which the CPU computes, as "avx2". REQUIRES: FindCpuOperations
// accepts the target.
std::string KernelsOf(const DecoderOptions& options);

// FAILED_PRECONDITION for a model of whole sequences, or for any other model.
absl::Status RequireAutoregressive(const ModelDescription& model);
absl::Status RequireWholeSequences(const ModelDescription& model);

// Whether the default decoder serves the model. `steps`: kernels of step forms run
// where it is wanted. FAILED_PRECONDITION for a model of whole sequences;
// INVALID_ARGUMENT for options that do not go with the default decoder.
absl::StatusOr<bool> ServedBySequenceForm(const ModelDescription& model, bool steps,
                                          const DecoderOptions& options);

}  // namespace mnemon
