// SPDX-License-Identifier: MIT
// A step program as a device executes it: calls of kernels.h with fixed addresses, and
// what the host writes for each step. C++17.
#pragma once

#include <cstdint>

#include "model/kernels/kernels.h"

namespace mnemon {

// Rows that go through the calls together.
struct StepWave {
  int64_t first = 0;
  int64_t rows = 0;
  int64_t groups = 0;  // as of AttendCall
};

// An entry of a block table, and what it becomes.
struct TableChange {
  float** entry = nullptr;
  float* block = nullptr;
};

// The beginning of what the host writes for a step, in device memory; arrays follow.
struct StepHeader {
  int64_t table_changes = 0;
  int64_t waves = 0;
  int64_t runs = 0;         // of fast weights
  int64_t logits_rows = 0;  // rows whose logits are wanted
  // The device's: of the next launch; and bits, set by calls that say whether what they
  // wrote is finite.
  int64_t wave_now = 0;
  uint32_t wrong = 0;
  StepWave wave[kMaxChunk];
};

// Rows r of `in` with to[r] >= 0 become rows to[r] of `out`.
struct KeepCall {
  int64_t rows = 0;
  int64_t width = 0;
  const int32_t* to = nullptr;  // [rows]
  ConstRows in{nullptr, 0};
  Rows out;
};

inline constexpr int kStepCallKinds = 9;
enum class StepCallKind : int32_t {
  kTables,  // changes tables
  kEmbed,
  kLinear,
  kAppend,
  kAttend,
  kFastWeights,
  kMix,
  kKeep,
  kNextWave,  // for launches that come once for each wave
};

// One of the calls, as of its kind, without what the header says: rows, groups, runs.
// Arrays of rows begin with the first wave's.
struct StepCall {
  StepCallKind kind = StepCallKind::kTables;
  bool of_logits = false;  // kLinear: the rows whose logits are wanted
  bool meets = true;       // what follows waits for all of it

  const TableChange* changes = nullptr;
  EmbedCall embed;
  LinearCall linear;
  MatrixView second;  // what embed.tied or linear.gate points to, where they do
  AppendCall append;
  AttendCall attend;
  FastWeightCall fast_weights;
  MixCall mix;
  KeepCall keep;
};

// Threads of a block of a kernel that does one call, and of one that does them all.
inline constexpr int kOneCallThreads = 128;
inline constexpr int kWholeStepThreads = 256;

// What a kernel is launched with.
struct StepLaunch {
  StepHeader* header = nullptr;
  StepCall call;  // of a kernel that does one call
  // Of the kernel that does a whole step: calls of each wave, then those of its logits.
  const StepCall* calls = nullptr;
  int32_t wave_calls = 0;
  int32_t logits_calls = 0;
  // Floats of shared memory, and scratch of each block.
  int64_t shared_floats = 0;
  float* scratch = nullptr;
  int64_t scratch_floats = 0;
};

}  // namespace mnemon
