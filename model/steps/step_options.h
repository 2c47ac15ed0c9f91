// SPDX-License-Identifier: MIT
// The options of a step form or a predictor: how it computes, and where its weights
// come from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "model/config/config.h"
#include "model/kernels/kernels.h"
#include "model/weights/weights.h"

namespace mnemon {

struct CpuOperations;
class DeviceDriver;
class ThreadPool;

// Operations, pool and device must outlive what is made with them; weights are packed
// on the pool.
struct StepOptions {
  WeightFormat format = WeightFormat::kFp32;  // of the matrices, see MatrixFormat
  const CpuOperations* operations = nullptr;
  ThreadPool* pool = nullptr;
  DeviceDriver* device = nullptr;  // that decoders compute on; null: the CPU
  WeightStream stream = {};
};

// The format of a matrix that is made of tensors such as `base` in a model of `format`:
// fp32 in place of int8 for the attention of fast_weights, where what is rounded away
// gathers in the state, and where slices are too narrow for int8 or too wide. Part of
// what "int8" means in a numerics_id: kKernelRevision changes with it.
WeightFormat MatrixFormat(const ModelConfig& config, WeightFormat format,
                          std::string_view base, int64_t inputs, int64_t slice);

// Whether a tensor of the model is int8 where its format is: a matrix whose
// MatrixFormat is. The embedding and other tables are none, even where the head is the
// embedding: then the head alone is quantised, at load.
bool IsInt8(const ModelConfig& config, const TensorShape& tensor);

// Of a step form or predictor with these options: see Decoder::numerics_id().
std::string StepNumericsId(const StepOptions& options);

}  // namespace mnemon
