// SPDX-License-Identifier: MIT
#include <algorithm>
#include <chrono>

#include "server/service/messages/messages.h"

namespace mnemon {

void ToMessage(const EngineStats& stats, v1::Load& out) {
  int64_t queue_capacity = 0, session_capacity = 0, state_capacity_bytes = 0;
  std::chrono::duration<double> wait{};
  for (const ModelStats& model : stats.models) {
    queue_capacity += model.max_waiting;
    session_capacity += model.session_capacity;
    state_capacity_bytes += model.state_capacity_bytes;
    wait = std::max(wait, model.wait);
  }
  out.set_running_call_count(stats.running);
  out.set_queued_call_count(stats.queued);
  out.set_queue_capacity(queue_capacity);
  out.set_session_count(stats.sessions);
  out.set_session_capacity(session_capacity);
  out.set_state_size_bytes(stats.state_bytes);
  out.set_state_capacity_bytes(state_capacity_bytes);
  // An estimate, of which a year is as much as for ever.
  const std::chrono::duration<double> most = std::chrono::hours(24 * 365);
  SetDuration(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::min(wait, most)),
      *out.mutable_queue_duration());
  out.set_computed_token_count(stats.tokens_computed);
  out.set_generated_token_count(stats.tokens_generated);
  out.set_draining(stats.draining);
}

}  // namespace mnemon
