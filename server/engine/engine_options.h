// SPDX-License-Identifier: MIT
// The options of an engine.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/byte_budget.h"
#include "base/clock.h"
#include "model/sampling/sampling_operations.h"
#include "server/engine/observer.h"
#include "server/engine/request.h"
#include "server/engine/token_history.h"

namespace mnemon {

class SessionStore;
class ThreadPool;

struct EngineOptions {
  // Behaviour. Limits of calls and sessions are per model.
  int32_t sessions = 1'000'000;               // named ones, at rest or not
  int32_t running = 64;                       // calls that run at once
  int32_t max_queue = 256;                    // calls that wait
  int64_t queue_bytes = int64_t{64} << 20;    // of their prompts and penalty counts
  std::chrono::milliseconds max_wait{60000};  // that a call is expected to wait
  int32_t max_tokens = 65536;                 // most that one call generates
  int32_t max_prompt_tokens = 1 << 20;
  // How long a call may hold up its own stream: by not reading, or by not sending what
  // is to be scored.
  std::chrono::milliseconds idle_timeout{30000};
  // The ttl of a session that is created without one; absent: max_session_ttl.
  std::optional<std::chrono::milliseconds> session_ttl;
  // Longer ttls are lowered to it; absent: no limit.
  std::optional<std::chrono::milliseconds> max_session_ttl;
  // Bounds of one prediction: multiply-adds, and bytes of intermediate values and
  // answer.
  int64_t max_predict_multiply_adds = int64_t{100} * 1000 * 1000 * 1000;
  int64_t max_predict_bytes = int64_t{256} << 20;
  // Performance.
  // States of a model in memory, at most: of calls that run and of sessions at rest.
  int64_t state_bytes = int64_t{1} << 30;
  // All that models, sessions and calls take beside the weights, at most.
  int64_t memory_bytes = ByteBudget::kUnlimited;
  // Of that, what sessions at rest leave to calls at least: see MemoryShares.
  int64_t call_bytes = 0;
  int64_t step_tokens = 256;  // tokens per step, over all calls
  int callback_threads = 2;
  // What samples: the threads of the decoders' pool, which outlives the engine (null:
  // the runners' threads), and the instruction set.
  ThreadPool* pool = nullptr;
  const SamplingOperations* sampling = &SamplingOperationsOf();
  const Clock* clock = &Clock::Real();  // outlives the engine and its streams
  // The time of idle_timeout, where that passes slower; null: `clock`. Outlives the
  // engine.
  const Clock* idle_clock = nullptr;
  // Null: nothing is measured. Shared, because streams may outlive the engine.
  std::shared_ptr<EngineObserver> observer;
  HistoryObserver on_history_change;  // may be empty
  // Where sessions outlive the engine; null: in memory alone. Outlives the engine.
  SessionStore* store = nullptr;
  // Of a session that is made without one, where there is a store.
  Durability durability = Durability::kTurn;
  // A snapshot is written at the end of a turn, but for one that has followed another
  // within this time: then when the session has rested so long, about; and when its
  // history has so many tokens more than the last one.
  std::chrono::milliseconds snapshot_rest{500};
  int64_t snapshot_tokens = 4096;
};

}  // namespace mnemon
