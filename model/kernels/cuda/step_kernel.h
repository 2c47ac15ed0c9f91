// SPDX-License-Identifier: MIT
// The kernels of a step on a device: one call of a step program each, for launches one
// after the other, or a whole step whose blocks meet behind each call. The same for
// both: all blocks of a launch together are a call's workers. C++17.
#pragma once

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
  const StepLaunch& launch;
};

MNEMON_DEVICE StepBlock BlockOf(const StepLaunch& launch) {
  return {{BlockIndex(), BlockCount()},
          {static_cast<float*>(SharedMemory()), launch.shared_floats},
          launch};
}

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

template <StepCallKind kind>
MNEMON_DEVICE void RunCall(const StepCall& step, StepHeader& header, int64_t wave_index,
                           const StepBlock& block) {
  const StepWave& wave = header.wave[wave_index];
  if constexpr (kind == StepCallKind::kPrepare) {
    Prepare(step, header, block.share);
  } else if constexpr (kind == StepCallKind::kEmbed) {
    Embed(Bound(step.embed, step, wave), block.share);
  } else if constexpr (kind == StepCallKind::kLinear) {
    Linear(Bound(step.linear, step, header, wave), block.share, block.shared);
  } else if constexpr (kind == StepCallKind::kPrepareRows) {
    PrepareRows(Bound(step.linear, step, header, wave), block.share, block.shared,
                step.prepared);
  } else if constexpr (kind == StepCallKind::kTiledLinear) {
    TiledLinear(Bound(step.linear, step, header, wave), step.factor, step.prepared,
                block.share, block.shared);
  } else if constexpr (kind == StepCallKind::kAppend) {
    Append(Bound(step.append, wave), block.share, &header.result.wrong);
  } else if constexpr (kind == StepCallKind::kAttend) {
    Attend(Bound(step.attend, wave), block.share, block.shared.data,
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

MNEMON_DEVICE void RunAnyCall(const StepCall& step, StepHeader& header, int64_t wave,
                              const StepBlock& block) {
  switch (step.kind) {
    case StepCallKind::kPrepare:
      return RunCall<StepCallKind::kPrepare>(step, header, wave, block);
    case StepCallKind::kEmbed:
      return RunCall<StepCallKind::kEmbed>(step, header, wave, block);
    case StepCallKind::kLinear:
      return RunCall<StepCallKind::kLinear>(step, header, wave, block);
    case StepCallKind::kAppend:
      return RunCall<StepCallKind::kAppend>(step, header, wave, block);
    case StepCallKind::kAttend:
      return RunCall<StepCallKind::kAttend>(step, header, wave, block);
    case StepCallKind::kFastWeights:
      return RunCall<StepCallKind::kFastWeights>(step, header, wave, block);
    case StepCallKind::kMix:
      return RunCall<StepCallKind::kMix>(step, header, wave, block);
    case StepCallKind::kKeep:
      return RunCall<StepCallKind::kKeep>(step, header, wave, block);
    case StepCallKind::kSample:
      return RunCall<StepCallKind::kSample>(step, header, wave, block);
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
  RunCall<kind>(launch.call, *launch.header, launch.header->wave_now, BlockOf(launch));
}

// The kernel of a whole step. REQUIRES: all blocks of the launch run at once.
MNEMON_DEVICE void WholeStep(const StepLaunch& launch) {
  const StepBlock block = BlockOf(launch);
  StepHeader& header = *launch.header;
  const auto run = [&](const StepCall* calls, int32_t count, int64_t wave) {
    for (int32_t i = 0; i < count; ++i) {
      RunAnyCall(calls[i], header, wave, block);
      // The next call uses the same shared memory.
      if (calls[i].meets) {
        GridBarrier();
      } else {
        Barrier();
      }
    }
  };
  for (int64_t wave = 0; wave < header.waves; ++wave) {
    run(launch.calls, launch.wave_calls, wave);
  }
  const StepCall* const logits = launch.calls + launch.wave_calls;
  if (header.logits_rows > 0) run(logits, launch.logits_calls, 0);
  if (header.draws > 0) run(logits + launch.logits_calls, launch.draw_calls, 0);
}

}  // namespace mnemon::device
