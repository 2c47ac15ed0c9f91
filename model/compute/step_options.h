// SPDX-License-Identifier: MIT
// The options of a step form or a predictor: how it computes, and where its weights
// come from.
#pragma once

#include "model/compute/kernels.h"
#include "model/compute/weights.h"

namespace mnemon {

struct CpuOperations;
class DeviceDriver;
class ThreadPool;

// Operations, pool and device must outlive what is made with them; weights are packed
// on the pool.
struct StepOptions {
  WeightFormat format = WeightFormat::kFp32;  // of the model, see MatrixFormat
  const CpuOperations* operations = nullptr;
  ThreadPool* pool = nullptr;
  DeviceDriver* device = nullptr;  // that decoders compute on; null: the CPU
  WeightStream stream = {};
};

}  // namespace mnemon
