// SPDX-License-Identifier: MIT
// A step program as a device executes it: calls of kernels.h with fixed addresses, and
// what the host writes for each step. C++17.
#pragma once

#include <cstdint>

#include "model/blocks/attention/calls.h"
#include "model/blocks/fast_weights/calls.h"
#include "model/compute/cuda/linear_plan.h"
#include "model/compute/cuda/sample_row.h"
#include "model/compute/kernels.h"

namespace mnemon {

// Rows that go through the calls together.
struct StepWave {
  int64_t first = 0;
  int64_t rows = 0;
};

// An entry of a block table, and what it becomes.
struct TableChange {
  float** entry = nullptr;
  float* block = nullptr;
};

// A row whose token is the one that its slot has drawn, which the host does not know.
struct DrawnToken {
  const int32_t* from = nullptr;
  int64_t row = 0;
};

// Most rows of a step.
inline constexpr int kStepRows = 256;

// What a step finds: for the host.
struct StepResult {
  uint32_t wrong = 0;              // bits: not all that was written to states is finite
  int32_t tokens[kStepRows] = {};  // that were drawn, in the order of draws
};

// The beginning of what the host writes for a step, in device memory; arrays follow.
struct StepHeader {
  int64_t table_changes = 0;
  int64_t drawn_tokens = 0;
  int64_t waves = 0;
  int64_t runs = 0;         // of fast weights
  int64_t logits_rows = 0;  // rows whose logits are computed
  int64_t draws = 0;
  bool appends_late = false;  // in attention: no row attends to what another appends
  int64_t wave_now = 0;       // of the next launch: the device counts them
  StepResult result;
  StepWave wave[kMaxChunk + 1];  // behind the last one nothing is computed
};

// Rows r of `in` with to[r] >= 0 become rows to[r] of `out`.
struct KeepCall {
  int64_t rows = 0;
  int64_t width = 0;
  const int32_t* to = nullptr;  // [rows]
  ConstRows in{nullptr, 0};
  Rows out;
};

inline constexpr int kStepCallKinds = 14;
enum class StepCallKind : int32_t {
  kPrepare,  // changes tables, and puts drawn tokens in place
  kEmbed,
  kLinear,       // of a whole step
  kPrepareRows,  // of a launch of its own: for the tiled linear behind it
  kTiledLinear,  // likewise
  kTurn,
  kAppend,
  kAttend,
  kFastWeights,
  kMix,
  kNorm,
  kKeep,
  kSample,
  kNextWave,  // for launches that come once for each wave
};

// What calls have besides those of kernels.h.
struct PrepareStep {
  const TableChange* changes = nullptr;
  const DrawnToken* drawn = nullptr;
  int32_t* tokens = nullptr;  // that drawn ones are put among
};
struct EmbedStep {
  EmbedCall call;
  MatrixView tied;  // what the call points to, where it does
};
struct LinearStep {
  LinearCall call;
  MatrixView gate;         // likewise
  bool of_logits = false;  // its rows are those whose logits are computed
  Rows prepared;           // of a launch: its rows; null: they are read where they are
  bool factor = false;     // as of TiledLinear
  LinearPlan plan;         // of a whole step
};
struct AppendStep {
  AppendCall call;
  bool late = false;  // the attention behind it does it, where the header says so
};
struct AttendStep {
  AttendCall call;
  AppendCall append;  // of the keys of its own rows, where `appends`
  bool appends = false;
  const int64_t* first_group = nullptr;  // as of AttendScratch; each wave has its own
};

// One of the calls, without what the header says: rows, groups, runs. Arrays of rows
// begin with the first wave's.
struct alignas(16) StepCall {
  StepCallKind kind = StepCallKind::kPrepare;
  bool meets = true;  // what follows waits for all of it
  union {             // as of its kind
    PrepareStep prepare;
    EmbedStep embed;
    LinearStep linear;  // kLinear, kPrepareRows, kTiledLinear
    TurnCall turn;
    AppendStep append;
    AttendStep attend;
    FastWeightCall fast_weights;
    MixCall mix;
    NormCall norm;
    KeepCall keep;
    device::SampleCall sample;
  };

  StepCall() : prepare() {}
};

// Threads of a block of a kernel that does one call, and of one that does them all. A
// row of logits is one block's.
inline constexpr int OneCallThreads(StepCallKind kind) {
  return kind == StepCallKind::kSample        ? 512
         : kind == StepCallKind::kTiledLinear ? 256
                                              : 128;
}
inline constexpr int kWholeStepThreads = 256;

// Floats of a block's shared memory in which a whole step has the call that it makes
// and the one behind it.
inline constexpr int64_t kWholeStepCallFloats = 2 * sizeof(StepCall) / sizeof(float);

// What a kernel is launched with.
struct StepLaunch {
  StepHeader* header = nullptr;
  StepCall call;  // of a kernel that does one call
  // Of the kernel that does a whole step: calls of each wave, those of logits, and of
  // draws.
  const StepCall* calls = nullptr;
  int32_t wave_calls = 0;
  int32_t logits_calls = 0;
  int32_t draw_calls = 0;
  int64_t shared_floats = 0;
  int64_t ahead_floats = 0;  // more of a whole step, for what is brought ahead
  bool waves = false;        // of a kernel that does one call: there may be several
  // Of attention: as AttendScratch.
  float* groups = nullptr;
  uint32_t* arrived = nullptr;
  int32_t* sample_scratch = nullptr;  // of each block SampleScratch
};

}  // namespace mnemon
