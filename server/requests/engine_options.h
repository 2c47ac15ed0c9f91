// SPDX-License-Identifier: MIT
// The options of an engine.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "base/memory/byte_budget.h"
#include "model/sampling/sampling_operations.h"
#include "server/requests/observer.h"
#include "server/requests/request.h"

namespace mnemon {

class SessionStore;
class ThreadPool;

// Bounds of one prediction.
struct PredictLimits {
  int64_t multiply_adds = int64_t{100} * 1000 * 1000 * 1000;
  int64_t bytes = int64_t{256} << 20;  // of intermediate values and answer
};

struct EngineOptions {
  // Behaviour. Limits of calls and sessions are per model.
  int32_t sessions = 1'000'000;               // named ones, in use or not
  int32_t running = 64;                       // calls that run at once
  int32_t max_queue = 256;                    // queued calls
  int64_t queue_bytes = int64_t{64} << 20;    // their prompts and penalty counts
  std::chrono::milliseconds max_wait{60000};  // estimated wait of a queued call
  int32_t max_tokens = 65536;                 // that one call generates
  int32_t max_prompt_tokens = 1 << 20;
  // How long a caller may neither read its stream nor send what is to be scored.
  std::chrono::milliseconds idle_timeout{30000};
  std::optional<std::chrono::milliseconds> session_ttl;      // default: max_session_ttl
  std::optional<std::chrono::milliseconds> max_session_ttl;  // lowers longer ones
  PredictLimits predict;
  // Performance.
  int64_t state_bytes = int64_t{1} << 30;         // of a model's states in memory
  int64_t memory_bytes = ByteBudget::kUnlimited;  // of everything except the weights
  int64_t call_bytes = 0;  // of it, what idle sessions leave to calls: see MemoryShares
  int64_t step_tokens = 256;  // tokens per step, over all calls
  int callback_threads = 2;
  // For sampling: the threads of the decoders' pool, which outlives the engine (null:
  // the runners' threads), and the instruction set.
  ThreadPool* pool = nullptr;
  const SamplingOperations* sampling = &SamplingOperationsOf();
  const Clock* clock = &Clock::Real();  // outlives the engine and its streams
  // The clock of idle_timeout, if it differs; null: `clock`. Outlives the engine.
  const Clock* idle_clock = nullptr;
  // Null: nothing is measured. Shared, because streams may outlive the engine.
  std::shared_ptr<EngineObserver> observer;
  // Stores sessions; null: they are in memory only. Outlives the engine.
  SessionStore* store = nullptr;
  // Default durability of sessions if there is a store.
  Durability durability = Durability::kTurn;
  // Snapshots are written at the end of a turn, or after about `snapshot_rest` without
  // one if turns follow each other faster, and after `snapshot_tokens` more tokens.
  std::chrono::milliseconds snapshot_rest{500};
  int64_t snapshot_tokens = 4096;
};

}  // namespace mnemon
