// SPDX-License-Identifier: MIT
// The operations of steps on the CPU, one table per instruction set. Each computes one
// worker's share; the shares of a pool together write every output exactly once.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/partition.h"
#include "model/blocks/attention/kernels/calls.h"
#include "model/blocks/fast_weights/calls.h"
#include "model/compute/kernels.h"
#include "model/compute/linear_scratch.h"

namespace mnemon {

// `scratch` is the worker's own: ScratchFloats of the call. Functions that return bool
// report whether the numbers that their share wrote to states are finite, as defined by
// the calls.
struct CpuOperations {
  const char* target;  // "avx2"
  const char* int8;    // int8 multiplication: "vnni", "pairs", "single"
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

// Plain loops over the equations of the calls: the reference for the other tables.
const CpuOperations& ReferenceOperations();
// Whether these are the plain loops, the only table that does not follow
// docs/numerics.md.
bool IsReference(const CpuOperations& operations);

// All tables of this build that the machine can run, the best first. A target may occur
// several times, with other int8 multiplications; the first is used. All but the
// reference, which is the last, give the same bits.
std::span<const CpuOperations> AllCpuOperations();

// Their targets, each once.
std::vector<std::string> CpuTargets();

// By name; empty: the best. INVALID_ARGUMENT names --target and lists the names.
absl::StatusOr<const CpuOperations*> FindCpuOperations(std::string_view target);

}  // namespace mnemon
