// SPDX-License-Identifier: MIT
// What the session of a call remembers of it, so that the call can be resumed.
#pragma once

#include "server/calls/call.h"
#include "server/run/engine_context.h"

namespace mnemon {

// No effect where the call cannot be resumed, or memory has run out.
// It ended as `call.delivery.ending` says. REQUIRES: the history is final.
void RememberEnd(const EngineContext& context, const Call& call);
// It waits for a resume. REQUIRES: the history is final.
void RememberDetached(const EngineContext& context, const Call& call);
// It goes on without its consumer, which has got what was delivered so far.
void RememberDelivered(const EngineContext& context, const Call& call);
// It resumes another call and was not admitted: its stream may have given what was
// there.
void RememberStream(const EngineContext& context, const Call& call);

}  // namespace mnemon
