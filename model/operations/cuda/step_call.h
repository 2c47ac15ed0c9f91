// SPDX-License-Identifier: MIT
// A step program as executed on a device: calls of kernels.h with fixed addresses, and
// the input that the host writes for each step. C++17.
#pragma once

#include <cstdint>

#include "model/blocks/attention/kernels/calls.h"
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

// An entry of a block table and its new value.
struct TableChange {
  float** entry = nullptr;
  float* block = nullptr;
};

// A row whose token was drawn by its slot and is not known to the host.
struct DrawnToken {
  const int32_t* from = nullptr;
  int64_t row = 0;
};

// Most rows of a step.
inline constexpr int kStepRows = 256;

// Result of a step for the host.
struct StepResult {
  uint32_t wrong = 0;              // bits: numbers written to states are not finite
  int32_t tokens[kStepRows] = {};  // drawn tokens, in the order of draws
};

// Header of the host's input for a step, in device memory; arrays follow.
struct StepHeader {
  int64_t table_changes = 0;
  int64_t drawn_tokens = 0;
  int64_t waves = 0;
  int64_t runs = 0;         // runs of fast weights
  int64_t logits_rows = 0;  // rows whose logits are computed
  int64_t draws = 0;
  bool appends_late = false;  // attention appends: no row attends to another's append
  int64_t wave_now = 0;       // wave of the next launch, counted by the device
  StepResult result;
  StepWave wave[kMaxChunk + 1];  // after the last one nothing is computed
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
  kPrepare,  // changes tables and inserts drawn tokens
  kEmbed,
  kLinear,       // in a whole step
  kPrepareRows,  // in a launch of its own: for the tiled linear after it
  kTiledLinear,  // in a launch of its own
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

// Additions to the calls of kernels.h.
struct PrepareStep {
  const TableChange* changes = nullptr;
  const DrawnToken* drawn = nullptr;
  int32_t* tokens = nullptr;  // into which drawn tokens are inserted
};
struct EmbedStep {
  EmbedCall call;
  MatrixView tied;  // target of the call's pointer, if set
};
struct LinearStep {
  LinearCall call;
  MatrixView gate;         // target of the call's pointer, if set
  bool of_logits = false;  // its rows are those with logits
  Rows prepared;           // rows of a launch; null: they are read in place
  bool factor = false;     // see TiledLinear
  LinearPlan plan;         // in a whole step
};
struct AppendStep {
  AppendCall call;
  bool late = false;  // deferred to the attention after it, if the header says so
};
struct AttendStep {
  AttendCall call;
  AppendCall append;  // append of the keys of its rows, if `appends`
  bool appends = false;
  const int64_t* first_group = nullptr;  // see AttendScratch; each wave has its own
};

// One of the calls, without the values in the header: rows, groups, runs. Arrays of
// rows start with those of the first wave.
struct alignas(16) StepCall {
  StepCallKind kind = StepCallKind::kPrepare;
  bool meets = true;  // later calls wait for all of it
  union {             // by kind
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

// Threads per block of a kernel that executes one call, and of one that executes all. A
// block processes whole rows of logits.
inline constexpr int OneCallThreads(StepCallKind kind) {
  return kind == StepCallKind::kSample        ? 512
         : kind == StepCallKind::kTiledLinear ? 256
                                              : 128;
}
inline constexpr int kWholeStepThreads = 256;

// Floats of a block's shared memory in which a whole step holds its current call and
// the next.
inline constexpr int64_t kWholeStepCallFloats = 2 * sizeof(StepCall) / sizeof(float);

// Arguments of a kernel.
struct StepLaunch {
  StepHeader* header = nullptr;
  StepCall call;  // of a kernel for one call
  // For a whole step: the calls of each wave, of logits, and of draws.
  const StepCall* calls = nullptr;
  int32_t wave_calls = 0;
  int32_t logits_calls = 0;
  int32_t draw_calls = 0;
  int64_t shared_floats = 0;
  int64_t ahead_floats = 0;  // additional for a whole step, for data copied ahead
  bool waves = false;        // of a kernel for one call: there may be several
  // For attention: see AttendScratch.
  float* groups = nullptr;
  uint32_t* arrived = nullptr;
  int32_t* sample_scratch = nullptr;  // SampleScratch per block
};

}  // namespace mnemon
