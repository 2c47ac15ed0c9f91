// SPDX-License-Identifier: MIT
// The arithmetic of a forward pass in training: float32, or libtorch's autocast.
#pragma once

#include <c10/core/Device.h>

#include "train/data/config.h"

namespace mnemon {

// With kBf16, matrix products of this thread on this kind of device take operands and
// give results in bfloat16 while the object lives; with kFp32 it does nothing. Weights
// keep their type, and their gradients have the same. Models switch autocast off where
// they need float32: see Model::Forward. Run the backward pass outside: it takes the
// type of each operation from the forward pass. REQUIRES: for kBf16, the CPU or CUDA;
// no other Autocast lives on this thread.
class Autocast {
 public:
  Autocast(Precision precision, at::Device device);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  const bool on_;
  const at::DeviceType device_;
};

}  // namespace mnemon
