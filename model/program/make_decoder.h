// SPDX-License-Identifier: MIT
// Decoders and predictors made from a model's description and weights. Free of torch.
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

// The decoder of an autoregressive model.
enum class DecoderForm {
  kStep,      // its step form
  kSequence,  // the default decoder, which runs the sequence form
};

// How a decoder or predictor computes. Predictors use the CPU.
struct DecoderOptions {
  DecoderForm form = DecoderForm::kStep;
  std::optional<WeightFormat> format;  // none: as the weights are
  std::string target;                  // one of CpuTargets(); empty: the best
  ThreadPool* pool = nullptr;  // must outlive the decoder; null: the calling thread
  // Device for step forms; must outlive the decoder; null: the CPU.
  DeviceDriver* device = nullptr;
};

// The format in which the stored matrices need no rounding: int8 or bf16 if all are so,
// else fp32.
WeightFormat FormatOf(const TensorViews& views);

// The step form, or the predictor, with the weights in `views`. `views` hold all
// tensors of the model, which come by `stream`; if some are int8, all that may be are
// (StoredTensors). REQUIRES: CheckDescription accepts the model. FAILED_PRECONDITION
// for a model of the other kind; INVALID_ARGUMENT if int8 weights are to have another
// format; RESOURCE_EXHAUSTED without memory, or if the device cannot hold a row of the
// model.
absl::StatusOr<std::unique_ptr<Decoder>> MakeDecoder(const ModelDescription& model,
                                                     const TensorViews& views,
                                                     const DecoderOptions& options,
                                                     const WeightStream& stream = {});
absl::StatusOr<std::unique_ptr<Predictor>> MakePredictor(
    const ModelDescription& model, const TensorViews& views,
    const DecoderOptions& options, const WeightStream& stream = {});

// The instruction set of the CPU's kernels, such as "avx2". REQUIRES: FindCpuOperations
// accepts the target.
std::string KernelsOf(const DecoderOptions& options);

// FAILED_PRECONDITION if the model takes whole sequences, or if it does not.
absl::Status RequireAutoregressive(const ModelDescription& model);
absl::Status RequireWholeSequences(const ModelDescription& model);

// Whether the default decoder serves the model. `steps`: step forms are used if wanted.
// FAILED_PRECONDITION for a model of whole sequences; INVALID_ARGUMENT for options that
// the default decoder does not support.
absl::StatusOr<bool> ServedBySequenceForm(const ModelDescription& model, bool steps,
                                          const DecoderOptions& options);

}  // namespace mnemon
