// SPDX-License-Identifier: MIT
// Options of a step form or a predictor: how it computes, and the source of its
// weights.
#pragma once

#include "model/compute/kernels.h"
#include "model/compute/weights.h"

namespace mnemon {

struct CpuOperations;
class DeviceDriver;
class ThreadPool;

// Operations, pool and device must outlive what is made with them. Weights are packed
// on the pool.
struct StepOptions {
  WeightFormat format = WeightFormat::kFp32;  // the model's; see MatrixFormat
  const CpuOperations* operations = nullptr;
  ThreadPool* pool = nullptr;
  DeviceDriver* device = nullptr;  // for decoders; null: the CPU
  WeightStream stream = {};
};

}  // namespace mnemon
