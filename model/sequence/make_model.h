// SPDX-License-Identifier: MIT
// Models in their sequence form and what serves them, for the trainer, tests and the
// sequence module.
#pragma once

#include <memory>

#include <c10/core/Device.h>

#include "absl/status/statusor.h"
#include "model/decoder/decoder.h"
#include "model/families/config.h"
#include "model/program/make_decoder.h"
#include "model/sequence/model.h"

namespace mnemon {

// The model with uninitialised weights. RESOURCE_EXHAUSTED when memory does not
// suffice. REQUIRES: CheckDescription accepts it.
absl::StatusOr<std::unique_ptr<Model>> MakeModel(const ModelDescription& model);
// That of a configuration; the errors of DescribeModel.
absl::StatusOr<std::unique_ptr<Model>> MakeModel(const ModelConfig& config);

// Copies of the weights that `views` show, all tensors of the model; of a tensor with
// more rows the first ones. Throws std::bad_alloc or c10::Error.
void CopyWeights(const TensorViews& views, Model& model);

// The default decoder with copies of the weights that `views` show, on `device`.
absl::StatusOr<std::unique_ptr<Decoder>> MakeSequenceDecoder(
    const ModelDescription& description, const TensorViews& views, at::Device device);

// The decoder or the predictor that serves `model`; of its own weights it keeps copies,
// but the default decoder, which serves where there is no step form, where the options
// ask for it and on a GPU, needs the model and its weights. A predictor computes on the
// CPU wherever the model is. FAILED_PRECONDITION for a model of the other kind.
absl::StatusOr<std::unique_ptr<Decoder>> MakeDecoder(
    const Model& model, const DecoderOptions& options = {});
absl::StatusOr<std::unique_ptr<Predictor>> MakePredictor(
    const Model& model, const DecoderOptions& options = {});

}  // namespace mnemon
