// SPDX-License-Identifier: MIT
// Statistics of the runner of one model, and why it may not be ready.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace mnemon {

// Why a model is not ready, the most serious first:
//   draining      the engine takes no more calls
//   device lost   the decoder's device was lost and is not back
//   no progress   for longer than Progress::Limit a round, step or piece has been under
//                 way, or has been due
//   stuck call    for as long a call has held its permit after its deadline, its time
//                 limit, or its idle limit
//   overdue answer  what waits for an answer was not given one within its bound
//                 (Waiters), and is not now: a store or a thread hangs
//   state full    calls have waited kStateFull for state memory, and none has got any
//   memory full   within kMemoryFull a call was refused since no memory was left for
//                 its short prompt, or for its state though no other ran, and none has
//                 started since
//   queue full    by calls, bytes or expected wait
inline constexpr std::string_view kUnreadyReasons[] = {
    "draining",       "device lost", "no progress", "stuck call",
    "overdue answer", "state full",  "memory full", "queue full"};
inline constexpr std::chrono::seconds kStateFull{10};
inline constexpr std::chrono::seconds kMemoryFull{10};

// What has changed within a round of a model's runner is counted at its end.
struct ModelStats {
  std::string model;
  std::string architecture;
  // Now. Calls are those of Generate and Score, or of Predict.
  int64_t running = 0;      // calls with a permit: they run, or wait for blocks
  int64_t waiting = 0;      // calls in the queue
  int64_t max_waiting = 0;  // calls; Options::max_queue
  // How long a call that comes now would wait, by measured times; 0 when it would start
  // at once, and before enough was measured.
  std::chrono::duration<double> wait{};
  // Calls that wait for their callers to read or to send: running ones, and those that
  // have computed all and whose callers have not read for a second.
  int64_t stalled = 0;
  bool ready = true;             // takes calls and makes progress
  std::string_view unready;      // one of kUnreadyReasons, or empty
  int64_t session_capacity = 0;  // Options::sessions; an encoder has none
  int64_t sessions = 0;          // named ones
  int64_t sessions_queued = 0;   // of them, those whose call is not admitted yet
  int64_t sessions_running = 0;  // and those whose call runs or delivers
  int64_t sessions_resting = 0;  // of the others, those that have a state in memory
  int64_t sessions_stored = 0;   // and those whose histories are in the store alone
  int64_t weight_bytes = 0;      // as the decoder or predictor has packed them
  bool state_on_host = true;     // else in the memory of a device
  // Bytes of the arena that sessions hold, and could hold at once: blocks in whole, and
  // fixed entries. An encoder has none. Earlier fixed entries come on top.
  int64_t state_bytes = 0;
  int64_t running_state_bytes = 0;  // of them, those in slots
  int64_t shadow_bytes = 0;
  int64_t state_capacity_bytes = 0;
  // Since the start.
  int64_t steps = 0;             // model calls; of an encoder, predictions
  int64_t tokens_computed = 0;   // those computed again included
  int64_t tokens_generated = 0;  // tokens sampled, delivered or not
  int64_t preemptions = 0;       // running calls whose states made room for others
};

}  // namespace mnemon
