// SPDX-License-Identifier: MIT
// The operations of steps on the CPU, one table per instruction set: each does one
// worker's share. The shares of a pool together touch every output exactly once.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/partition.h"
#include "model/blocks/attention/calls.h"
#include "model/blocks/fast_weights/calls.h"
#include "model/compute/kernels.h"
#include "model/compute/linear_scratch.h"

namespace mnemon {

// `scratch` is the worker's own: ScratchFloats of the call. What returns bool says
// whether the numbers that its share wrote to states leave them finite, as the calls
// say.
struct CpuOperations {
  const char* target;  // "avx2"
  const char* int8;    // how it multiplies int8: "vnni", "pairs", "single"
  void (*embed)(const EmbedCall& call, Share share);
  void (*linear)(const LinearCall& call, Share share, float* scratch);
  void (*parts)(const PartsCall& call, Share share, float* scratch);
  void (*fold)(const FoldCall& call, Share share);
  void (*turn)(const TurnCall& call, Share share);
  bool (*append)(const AppendCall& call, Share share);
  void (*attend)(const AttendCall& call, Share share, float* scratch);
  bool (*fast_weights)(const FastWeightCall& call, Share share, float* scratch);
  void (*mix)(const MixCall& call, Share share);
  void (*norm)(const NormCall& call, Share share);
  void (*softmax)(const SoftmaxCall& call, Share share);
};

// Plain loops over the equations of the calls: what the others are held against.
const CpuOperations& ReferenceOperations();
// Whether these are the plain loops, which alone do not keep to docs/numerics.md.
bool IsReference(const CpuOperations& operations);

// All that this build has and this machine can run, the best first. A target may be
// there several times, with another way to multiply int8; the first one is used. All
// but the reference, which is the last, give the same bits.
std::span<const CpuOperations> AllCpuOperations();

// Their targets, each once.
std::vector<std::string> CpuTargets();

// By name; empty: the best. INVALID_ARGUMENT names --target and lists the names.
absl::StatusOr<const CpuOperations*> FindCpuOperations(std::string_view target);

}  // namespace mnemon
