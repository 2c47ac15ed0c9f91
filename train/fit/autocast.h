// SPDX-License-Identifier: MIT
// The arithmetic of a forward pass in training: float32, or libtorch's autocast.
#pragma once

#include <c10/core/Device.h>

#include "train/data/config.h"

namespace mnemon {

// With kBf16: while it lives, matrix products of this thread on this kind of device
// take their operands and give their result in bfloat16; with kFp32 it does nothing.
// Weights keep their type and get gradients in it. Models switch it off themselves
// where float32 is needed: see Model::Forward. A backward pass belongs outside: it
// takes the type of each operation from the forward pass. REQUIRES: the CPU or CUDA for
// kBf16; no other Autocast lives on this thread.
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
