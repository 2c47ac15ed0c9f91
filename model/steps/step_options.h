// SPDX-License-Identifier: MIT
// The options of a step form or a predictor: how it computes, and where its weights
// come from.
#pragma once

#include <string>

#include "model/kernels/kernels.h"
#include "model/weights/weights.h"

namespace mnemon {

struct CpuOperations;
class ThreadPool;

// The operations and the pool must outlive what is made with them; weights are packed
// on the pool.
struct StepOptions {
  WeightFormat format = WeightFormat::kFp32;
  const CpuOperations* operations = nullptr;
  ThreadPool* pool = nullptr;
  WeightStream stream = {};
};

// Of a step form or predictor with these options: see Decoder::numerics_id().
std::string StepNumericsId(const StepOptions& options);

}  // namespace mnemon
