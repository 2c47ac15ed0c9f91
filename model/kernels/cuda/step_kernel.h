// SPDX-License-Identifier: MIT
// The kernels of a step on a device: one call of a step program each, for launches one
// after the other, or a whole step whose blocks meet behind each call. The same for
// both: all blocks of a launch together are a call's workers. C++17.
#pragma once

#include <utility>

#include "model/kernels/cuda/attend.h"
#include "model/kernels/cuda/fast_weights.h"
#include "model/kernels/cuda/linear.h"
#include "model/kernels/cuda/sample.h"
#include "model/kernels/cuda/step_call.h"
#include "model/kernels/cuda/tiled_linear.h"

namespace mnemon::device {

// What a block has.
struct StepBlock {
  Share share;
  SharedFloats shared;
  SharedFloats ahead;  // of LinearAhead
  const StepLaunch& launch;
};

// Calls with what the header says.
MNEMON_DEVICE EmbedCall Bound(EmbedCall call, const StepCall& step,
                              const StepWave& wave) {
  call.rows = wave.rows;
  call.ids += wave.first;
  call.positions += wave.first;
  if (call.tied != nullptr) call.tied = &step.second;
  return call;
}
MNEMON_DEVICE LinearCall Bound(LinearCall call, const StepCall& step,
                               const StepHeader& header, const StepWave& wave) {
  call.rows = step.of_logits ? header.logits_rows : wave.rows;
  if (call.gate != nullptr) call.gate = &step.second;
  if (call.key_ranges != nullptr) call.key_ranges += wave.first;
  return call;
}
MNEMON_DEVICE AppendCall Bound(AppendCall call, const StepWave& wave) {
  call.rows = wave.rows;
  call.places += wave.first;
  return call;
}
MNEMON_DEVICE AttendCall Bound(AttendCall call, const StepWave& wave) {
  call.rows = wave.rows;
  call.groups = wave.groups;
  call.key_ranges += wave.first;
  return call;
}
MNEMON_DEVICE FastWeightCall Bound(FastWeightCall call, const StepHeader& header) {
  call.runs = header.runs;
  return call;
}
MNEMON_DEVICE MixCall Bound(MixCall call, const StepWave& wave) {
  call.rows = wave.rows;
  return call;
}
MNEMON_DEVICE KeepCall Bound(KeepCall call, const StepWave& wave) {
  call.rows = wave.rows;
  call.to += wave.first;
  return call;
}

MNEMON_DEVICE device::SampleCall Bound(device::SampleCall call, StepHeader& header) {
  call.count = header.draws;
  call.tokens = header.result.tokens;
  return call;
}

MNEMON_DEVICE void Prepare(const StepCall& step, const StepHeader& header,
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
    // In place of a token may be why there is none: then the host takes this row back.
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

MNEMON_DEVICE bool AppendsLate(const StepCall& step, const StepHeader& header) {
  return step.appends_late && header.appends_late;
}

// `wave` is number `wave_index` of the header's.
template <StepCallKind kind>
MNEMON_DEVICE void RunCall(const StepCall& step, StepHeader& header,
                           const StepWave& wave, int64_t wave_index,
                           const StepBlock& block) {
  if constexpr (kind == StepCallKind::kPrepare) {
    Prepare(step, header, block.share);
  } else if constexpr (kind == StepCallKind::kEmbed) {
    Embed(Bound(step.embed, step, wave), block.share);
  } else if constexpr (kind == StepCallKind::kLinear) {
    Linear(Bound(step.linear, step, header, wave), block.share, block.shared,
           block.ahead);
  } else if constexpr (kind == StepCallKind::kPrepareRows) {
    PrepareRows(Bound(step.linear, step, header, wave), block.share, block.shared,
                step.prepared);
  } else if constexpr (kind == StepCallKind::kTiledLinear) {
    TiledLinear(Bound(step.linear, step, header, wave), step.factor, step.prepared,
                block.share, block.shared);
  } else if constexpr (kind == StepCallKind::kAppend) {
    if (AppendsLate(step, header)) return;
    Append(Bound(step.append, wave), block.share, &header.result.wrong);
  } else if constexpr (kind == StepCallKind::kAttend) {
    const AppendCall append = Bound(step.append, wave);
    Attend(Bound(step.attend, wave),
           {AppendsLate(step, header) ? &append : nullptr, &header.result.wrong},
           block.share, block.shared.data,
           {step.first_group + wave.first + wave_index, block.launch.groups,
            block.launch.arrived});
  } else if constexpr (kind == StepCallKind::kFastWeights) {
    FastWeights(Bound(step.fast_weights, header), block.share, block.shared,
                &header.result.wrong);
  } else if constexpr (kind == StepCallKind::kMix) {
    Mix(Bound(step.mix, wave), block.share);
  } else if constexpr (kind == StepCallKind::kKeep) {
    Keep(Bound(step.keep, wave), block.share);
  } else if constexpr (kind == StepCallKind::kSample) {
    Sample(
        Bound(step.sample, header), block.share,
        reinterpret_cast<SampleShared*>(block.shared.data),
        block.launch.sample_scratch + BlockIndex() * SampleScratch(step.sample.vocab));
  } else {
    if (block.share.index == 0 && ThreadIndex() == 0) ++header.wave_now;
  }
}

MNEMON_DEVICE void RunAnyCall(const StepCall& step, StepHeader& header,
                              const StepWave& wave, int64_t index,
                              const StepBlock& block) {
  switch (step.kind) {
    case StepCallKind::kPrepare:
      return RunCall<StepCallKind::kPrepare>(step, header, wave, index, block);
    case StepCallKind::kEmbed:
      return RunCall<StepCallKind::kEmbed>(step, header, wave, index, block);
    case StepCallKind::kLinear:
      return RunCall<StepCallKind::kLinear>(step, header, wave, index, block);
    case StepCallKind::kAppend:
      return RunCall<StepCallKind::kAppend>(step, header, wave, index, block);
    case StepCallKind::kAttend:
      return RunCall<StepCallKind::kAttend>(step, header, wave, index, block);
    case StepCallKind::kFastWeights:
      return RunCall<StepCallKind::kFastWeights>(step, header, wave, index, block);
    case StepCallKind::kMix:
      return RunCall<StepCallKind::kMix>(step, header, wave, index, block);
    case StepCallKind::kKeep:
      return RunCall<StepCallKind::kKeep>(step, header, wave, index, block);
    case StepCallKind::kSample:
      return RunCall<StepCallKind::kSample>(step, header, wave, index, block);
    case StepCallKind::kPrepareRows:
    case StepCallKind::kTiledLinear:
    case StepCallKind::kNextWave:  // its waves are those of a loop
      return;
  }
}

// The kernel of one call, in the wave that the header counts.
template <StepCallKind kind>
MNEMON_DEVICE void OneCall(const StepLaunch& launch) {
  AwaitLaunches();
  StepHeader& header = *launch.header;
  const int64_t wave = header.wave_now;
  const StepBlock block{{BlockIndex(), BlockCount()},
                        {static_cast<float*>(SharedMemory()), launch.shared_floats},
                        {},
                        launch};
  RunCall<kind>(launch.call, header, header.wave[wave], wave, block);
}

// The calls of a step in order: those of each wave, then of logits, then of draws,
// where there are any.
class StepCursor {
 public:
  MNEMON_DEVICE StepCursor(const StepLaunch& launch, const StepHeader& header)
      : launch_(launch),
        waves_(header.waves),
        end_(launch.wave_calls + (header.draws > 0
                                      ? launch.logits_calls + launch.draw_calls
                                  : header.logits_rows > 0 ? launch.logits_calls
                                                           : 0)),
        call_(waves_ > 0 ? 0 : launch.wave_calls) {}

  // Null: at the end.
  MNEMON_DEVICE const StepCall* call() const {
    return call_ < end_ ? launch_.calls + call_ : nullptr;
  }
  // Behind the waves: 0.
  MNEMON_DEVICE int64_t wave() const { return wave_ < waves_ ? wave_ : 0; }

  MNEMON_DEVICE void Next() {
    ++call_;
    if (call_ == launch_.wave_calls && ++wave_ < waves_) call_ = 0;
  }

 private:
  const StepLaunch& launch_;
  const int64_t waves_;
  const int32_t end_;
  int32_t call_;
  int64_t wave_ = 0;
};

// A whole step. While blocks wait for each other, each brings what the next call needs
// and does not depend on this one: the weights of its share, and the call behind that.
class StepRun {
 public:
  MNEMON_DEVICE explicit StepRun(const StepLaunch& launch)
      : header_(*launch.header),
        calls_(static_cast<StepCall*>(SharedMemory())),
        block_{{BlockIndex(), BlockCount()},
               {Ahead() + launch.ahead_floats, launch.shared_floats},
               {Ahead(), launch.ahead_floats},
               launch} {}

  MNEMON_DEVICE void Run() {
    StepCursor now(block_.launch, header_);
    BringCall(now.call(), 0);
    StepCursor next(now);
    next.Next();
    BringCall(next.call(), 1);
    StepWave wave = header_.wave[0];
    int64_t wave_index = 0;
    Arrive();
    for (int slot = 0; now.call() != nullptr; slot = 1 - slot) {
      if (now.wave() != wave_index) {
        wave_index = now.wave();
        wave = header_.wave[wave_index];
      }
      const StepCall& call = calls_[slot];
      RunAnyCall(call, header_, wave, wave_index, block_);
      const bool meets = call.meets && !(call.kind == StepCallKind::kAppend &&
                                         AppendsLate(call, header_));
      now.Next();
      next.Next();
      if (meets) {
        auto token = GridArrive();
        BringNext(now, next, slot, wave);
        GridWait(std::move(token));
      } else {
        Barrier();
        BringNext(now, next, slot, wave);
      }
      Arrive();
    }
  }

 private:
  MNEMON_DEVICE static float* Ahead() {
    return static_cast<float*>(SharedMemory()) + kWholeStepCallFloats;
  }

  // `now` is in the other slot.
  MNEMON_DEVICE void BringNext(const StepCursor& now, const StepCursor& next, int slot,
                               const StepWave& wave) {
    if (now.call() == nullptr) return;
    BringCall(next.call(), slot);
    const StepCall& call = calls_[1 - slot];
    if (call.kind != StepCallKind::kLinear) return;
    const LinearCall linear = Bound(call.linear, call, header_, wave);
    const int64_t units = LinearUnits(linear.weights);
    const LinearAhead ahead(
        linear, {block_.share.begin(units), block_.share.end(units)}, block_.ahead);
    if (ahead.fits()) ahead.Bring();
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

  StepHeader& header_;
  StepCall* const calls_;  // two, in shared memory
  const StepBlock block_;
};

// The kernel of a whole step. REQUIRES: all blocks of the launch run at once.
MNEMON_DEVICE void WholeStep(const StepLaunch& launch) { StepRun(launch).Run(); }

}  // namespace mnemon::device
