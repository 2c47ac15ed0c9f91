// SPDX-License-Identifier: MIT
// The kernels of a step on a device: either each executes one call of a step program,
// in consecutive launches, or one executes a whole step, whose blocks synchronise after
// each call. In both, all blocks of a launch together are a call's workers. C++17.
#pragma once

#include <utility>

#include "model/blocks/attention/kernels/attend_cuda.h"
#include "model/blocks/attention/kernels/turn_cuda.h"
#include "model/blocks/fast_weights/step_cuda.h"
#include "model/compute/cuda/linear.h"
#include "model/compute/cuda/sample.h"
#include "model/compute/cuda/tiled_linear.h"
#include "model/operations/cuda/step_call.h"

namespace mnemon::device {

// Resources of a block.
struct StepBlock {
  Share share;
  SharedFloats shared;
  SharedFloats ahead;  // of LinearBlock; another call may use it
  const StepLaunch& launch;
};

// Position within a step.
struct StepNow {
  StepHeader& header;
  bool appends_late;  // as the header says
  StepWave wave;
  int64_t wave_index;
};

// Calls with the values of the header.
MNEMON_DEVICE EmbedCall Bound(const EmbedStep& step, const StepNow& now) {
  EmbedCall call = step.call;
  call.rows = now.wave.rows;
  call.ids += now.wave.first;
  call.positions += now.wave.first;
  if (call.tied != nullptr) call.tied = &step.tied;
  return call;
}
MNEMON_DEVICE LinearCall Bound(const LinearStep& step, const StepNow& now) {
  LinearCall call = step.call;
  call.rows = step.of_logits ? now.header.logits_rows : now.wave.rows;
  if (call.gate != nullptr) call.gate = &step.gate;
  if (call.key_ranges != nullptr) call.key_ranges += now.wave.first;
  return call;
}
MNEMON_DEVICE TurnCall Bound(TurnCall call, const StepNow& now) {
  call.rows = now.wave.rows;
  call.positions += now.wave.first;
  return call;
}
MNEMON_DEVICE AppendCall Bound(AppendCall call, const StepNow& now) {
  call.rows = now.wave.rows;
  call.places += now.wave.first;
  return call;
}
MNEMON_DEVICE AttendCall Bound(AttendCall call, const StepNow& now) {
  call.rows = now.wave.rows;
  call.key_ranges += now.wave.first;
  return call;
}
MNEMON_DEVICE FastWeightCall Bound(FastWeightCall call, const StepNow& now) {
  call.runs = now.header.runs;
  return call;
}
MNEMON_DEVICE MixCall Bound(MixCall call, const StepNow& now) {
  call.rows = now.wave.rows;
  return call;
}
MNEMON_DEVICE NormCall Bound(NormCall call, const StepNow& now) {
  call.rows = now.wave.rows;
  return call;
}
MNEMON_DEVICE KeepCall Bound(KeepCall call, const StepNow& now) {
  call.rows = now.wave.rows;
  call.to += now.wave.first;
  return call;
}
MNEMON_DEVICE device::SampleCall Bound(device::SampleCall call, const StepNow& now) {
  call.count = now.header.draws;
  call.tokens = now.header.result.tokens;
  return call;
}

MNEMON_DEVICE void Prepare(const PrepareStep& step, const StepHeader& header,
                           Share share) {
  const auto each = [share](int64_t count, const auto& one) {
    const int64_t end = share.end(count);
    for (int64_t i = share.begin(count) + ThreadIndex(); i < end; i += ThreadCount()) {
      one(i);
    }
  };
  each(header.table_changes,
       [&](int64_t i) { *step.changes[i].entry = step.changes[i].block; });
  each(header.drawn_tokens, [&](int64_t i) {
    // The value may be a code instead of a token; the host then discards this row.
    const int32_t token = *step.drawn[i].from;
    step.tokens[step.drawn[i].row] = token < 0 ? 0 : token;
  });
}

MNEMON_DEVICE void Keep(const KeepCall& call, Share share) {
  EachNumber(share.begin(call.rows), share.end(call.rows), call.width,
             [&](int64_t r, int64_t i) {
               if (call.to[r] >= 0) call.out.row(call.to[r])[i] = call.in.row(r)[i];
             });
}

// Includes the append of its rows' keys, if that was deferred to it.
MNEMON_DEVICE void Attend(const AttendStep& step, const StepNow& now,
                          const StepBlock& block) {
  const bool late = step.appends && now.appends_late;
  const AppendCall append = late ? Bound(step.append, now) : AppendCall{};
  Attend(Bound(step.call, now), {late ? &append : nullptr, &now.header.result.wrong},
         block.share, block.shared.data, block.ahead,
         {step.first_group + now.wave.first + now.wave_index, block.launch.groups,
          block.launch.arrived});
}

template <StepCallKind kind>
MNEMON_DEVICE void RunCall(const StepCall& step, const StepNow& now,
                           const StepBlock& block) {
  uint32_t* const wrong = &now.header.result.wrong;
  if constexpr (kind == StepCallKind::kPrepare) {
    Prepare(step.prepare, now.header, block.share);
  } else if constexpr (kind == StepCallKind::kEmbed) {
    Embed(Bound(step.embed, now), block.share);
  } else if constexpr (kind == StepCallKind::kLinear) {
    LinearBlock(Bound(step.linear, now), step.linear.plan, BlockIndex(),
                block.ahead.data)
        .Run(block.shared.data);
  } else if constexpr (kind == StepCallKind::kPrepareRows) {
    PrepareRows(Bound(step.linear, now), block.share, block.shared.data,
                step.linear.prepared);
  } else if constexpr (kind == StepCallKind::kTiledLinear) {
    TiledLinear(Bound(step.linear, now), step.linear.factor, step.linear.prepared,
                block.share, block.shared);
  } else if constexpr (kind == StepCallKind::kTurn) {
    Turn(Bound(step.turn, now), block.share);
  } else if constexpr (kind == StepCallKind::kAppend) {
    if (step.append.late && now.appends_late) return;
    Append(Bound(step.append.call, now), block.share, wrong);
  } else if constexpr (kind == StepCallKind::kAttend) {
    Attend(step.attend, now, block);
  } else if constexpr (kind == StepCallKind::kFastWeights) {
    FastWeights(Bound(step.fast_weights, now), block.share, block.shared, wrong);
  } else if constexpr (kind == StepCallKind::kMix) {
    Mix(Bound(step.mix, now), block.share);
  } else if constexpr (kind == StepCallKind::kNorm) {
    Norm(Bound(step.norm, now), block.share);
  } else if constexpr (kind == StepCallKind::kKeep) {
    Keep(Bound(step.keep, now), block.share);
  } else if constexpr (kind == StepCallKind::kSample) {
    Sample(
        Bound(step.sample, now), block.share,
        reinterpret_cast<SampleShared*>(block.shared.data),
        block.launch.sample_scratch + BlockIndex() * SampleScratch(step.sample.vocab));
  } else {
    if (block.share.index == 0 && ThreadIndex() == 0) ++now.header.wave_now;
  }
}

MNEMON_DEVICE void RunAnyCall(const StepCall& step, const StepNow& now,
                              const StepBlock& block) {
  switch (step.kind) {
    case StepCallKind::kPrepare:
      return RunCall<StepCallKind::kPrepare>(step, now, block);
    case StepCallKind::kEmbed:
      return RunCall<StepCallKind::kEmbed>(step, now, block);
    case StepCallKind::kLinear:
      return RunCall<StepCallKind::kLinear>(step, now, block);
    case StepCallKind::kTurn:
      return RunCall<StepCallKind::kTurn>(step, now, block);
    case StepCallKind::kAppend:
      return RunCall<StepCallKind::kAppend>(step, now, block);
    case StepCallKind::kAttend:
      return RunCall<StepCallKind::kAttend>(step, now, block);
    case StepCallKind::kFastWeights:
      return RunCall<StepCallKind::kFastWeights>(step, now, block);
    case StepCallKind::kMix:
      return RunCall<StepCallKind::kMix>(step, now, block);
    case StepCallKind::kNorm:
      return RunCall<StepCallKind::kNorm>(step, now, block);
    case StepCallKind::kKeep:
      return RunCall<StepCallKind::kKeep>(step, now, block);
    case StepCallKind::kSample:
      return RunCall<StepCallKind::kSample>(step, now, block);
    case StepCallKind::kPrepareRows:
    case StepCallKind::kTiledLinear:
    case StepCallKind::kNextWave:  // its waves are those of a loop
      return;
  }
}

// The kernel of one call, in the wave that the header counts.
template <StepCallKind kind>
MNEMON_DEVICE void OneCall(const StepLaunch& launch) {
  StepHeader& header = *launch.header;
  const int64_t wave = launch.waves ? header.wave_now : 0;
  const StepNow now{header, header.appends_late, header.wave[wave], wave};
  const StepBlock block{{BlockIndex(), BlockCount()},
                        {static_cast<float*>(SharedMemory()), launch.shared_floats},
                        {},
                        launch};
  RunCall<kind>(launch.call, now, block);
}

// The calls of a step in order: those of each wave, then of logits, then of draws, if
// any.
class StepCursor {
 public:
  MNEMON_DEVICE StepCursor(const StepLaunch& launch, const StepHeader& header)
      : launch_(launch),
        waves_(static_cast<int>(header.waves)),
        end_(launch.wave_calls + (header.draws > 0
                                      ? launch.logits_calls + launch.draw_calls
                                  : header.logits_rows > 0 ? launch.logits_calls
                                                           : 0)),
        call_(waves_ > 0 ? 0 : launch.wave_calls) {}

  // Null at the end.
  MNEMON_DEVICE const StepCall* call() const {
    return call_ < end_ ? launch_.calls + call_ : nullptr;
  }
  // 0 after the waves.
  MNEMON_DEVICE int wave() const { return wave_ < waves_ ? wave_ : 0; }

  MNEMON_DEVICE void Next() {
    ++call_;
    if (call_ == launch_.wave_calls && ++wave_ < waves_) call_ = 0;
  }

 private:
  const StepLaunch& launch_;
  const int waves_, end_;
  int call_;
  int wave_ = 0;
};

// A whole step. While blocks wait for each other, each copies ahead what the next call
// needs and what does not depend on this one: the weights of its share, and the call
// after that.
class StepRun {
 public:
  MNEMON_DEVICE explicit StepRun(const StepLaunch& launch)
      : now_{*launch.header, launch.header->appends_late, launch.header->wave[0], 0},
        calls_(static_cast<StepCall*>(SharedMemory())),
        block_{{BlockIndex(), BlockCount()},
               {Ahead() + launch.ahead_floats, launch.shared_floats},
               {Ahead(), launch.ahead_floats},
               launch} {}

  MNEMON_DEVICE void Run() {
    StepCursor at(block_.launch, now_.header);
    BringCall(at.call(), 0);
    StepCursor next(at);
    next.Next();
    BringCall(next.call(), 1);
    Arrive();
    for (int slot = 0; at.call() != nullptr; slot = 1 - slot) {
      if (at.wave() != now_.wave_index) {
        now_.wave_index = at.wave();
        now_.wave = now_.header.wave[now_.wave_index];
      }
      const StepCall& call = calls_[slot];
      if (call.kind == StepCallKind::kAttend && call.attend.appends &&
          !now_.appends_late) {
        Append(Bound(call.attend.append, now_), block_.share,
               &now_.header.result.wrong);
        GridBarrier();
      }
      RunAnyCall(call, now_, block_);
      at.Next();
      next.Next();
      if (call.meets) {
        auto token = GridArrive();
        BringNext(at.call(), next.call(), slot);
        GridWait(std::move(token));
      } else {
        Barrier();
        BringNext(at.call(), next.call(), slot);
      }
      Arrive();
    }
  }

 private:
  MNEMON_DEVICE static float* Ahead() {
    return static_cast<float*>(SharedMemory()) + kWholeStepCallFloats;
  }

  // `coming` is in the other slot already.
  MNEMON_DEVICE void BringNext(const StepCall* coming, const StepCall* next, int slot) {
    if (coming == nullptr) return;
    const StepCall& call = calls_[1 - slot];
    if (call.kind == StepCallKind::kLinear) {
      LinearBlock(call.linear.call, call.linear.plan, BlockIndex(), block_.ahead.data)
          .Bring();
    }
    BringCall(next, slot);
  }

  MNEMON_DEVICE void BringCall(const StepCall* call, int slot) {
    if (call == nullptr) return;
    constexpr int kPieces = sizeof(StepCall) / 16;
    for (int i = ThreadIndex(); i < kPieces; i += ThreadCount()) {
      CopyAhead(reinterpret_cast<Four*>(calls_ + slot) + i,
                reinterpret_cast<const Four*>(call) + i);
    }
  }
  MNEMON_DEVICE static void Arrive() {
    AwaitCopies();
    Barrier();
  }

  StepNow now_;
  StepCall* const calls_;  // two, in shared memory
  const StepBlock block_;
};

// The kernel of a whole step. REQUIRES: all blocks of the launch run at once.
MNEMON_DEVICE void WholeStep(const StepLaunch& launch) { StepRun(launch).Run(); }

}  // namespace mnemon::device
