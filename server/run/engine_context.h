// SPDX-License-Identifier: MIT
// The parts that the runners of one engine share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "model/sampling/sampling_team.h"
#include "model/state/block_recycler.h"
#include "server/admission/pool_turns.h"
#include "server/requests/engine_errors.h"
#include "server/requests/engine_memory.h"
#include "server/requests/engine_options.h"
#include "server/sessions/session_directory.h"
#include "server/waiting/callback_threads.h"
#include "server/waiting/progress.h"
#include "server/waiting/waiters.h"

namespace mnemon {

class DurableSessions;

// Its parts but for `samplers` are safe for concurrent use. Shared, because a stream
// may outlive its engine.
struct EngineContext : std::enable_shared_from_this<EngineContext> {
  // `vocabs`: V of each model, 0 of a predictor.
  EngineContext(const EngineOptions& its_options, const std::vector<int64_t>& vocabs)
      : options(its_options),
        models(static_cast<int64_t>(vocabs.size())),
        memory(std::make_shared<EngineMemory>(its_options.memory_bytes, vocabs,
                                              its_options.call_bytes)),
        waiters(*its_options.clock),
        directory(vocabs.size(), its_options.sessions, *its_options.clock, memory,
                  [this](CallbackList& due) { callbacks.Post(due); }),
        turns(*its_options.clock),
        samplers(its_options.pool, *its_options.sampling, std::ranges::max(vocabs)),
        callbacks(its_options.callback_threads) {}

  // How long a runner may show no progress.
  Progress::Duration ProgressLimit() const {
    return Progress::Limit(turns.LongestPiece(), models);
  }

  const EngineOptions options;
  const int64_t models;
  const std::shared_ptr<EngineMemory> memory;
  mutable Waiters waiters;
  mutable SessionDirectory directory;
  mutable PoolTurns turns;
  mutable SamplingTeam samplers;  // of the runner whose turn it is
  mutable CallbackThreads callbacks;
  // Reads, writes, encodes and decodes states.
  mutable CallbackThreads snapshots{1, options.snapshot_rest};
  // Looks for what may leave memory, for whom all the others may wait.
  mutable CallbackThreads sweeps{1, options.snapshot_rest};
  mutable CallbackThreads restores{1};  // reads and decodes states that calls wait for
  // Null where sessions are in memory alone. Set before runners start.
  DurableSessions* durable = nullptr;
  mutable BlockRecycler recycler;  // outlives the arenas of the runners
  // Each frees about `bytes` on request, from any thread: those of the models, then
  // others. False: there is nothing to free.
  mutable std::vector<std::function<bool(int64_t bytes)>> givers;

  // Memory ran out for `bytes` more of the model `of`, or of none: others give up what
  // they do not use. True: there is some, and each runner is woken once it is given up.
  bool AskForMemory(int64_t bytes, size_t of = SIZE_MAX) const {
    bool any = false;
    for (size_t i = 0; i < givers.size(); ++i) {
      if (i != of && givers[i] && givers[i](bytes)) any = true;
    }
    any = any || recycler.HasReserves();
    if (any) recycler.GiveUpReserves();
    return any;
  }
  // The error for one who found none, and is to find some when it asks again.
  absl::Status MemoryLimit(int64_t bytes) const {
    AskForMemory(bytes);
    return engine_errors::MemoryLimit();
  }
};

}  // namespace mnemon
