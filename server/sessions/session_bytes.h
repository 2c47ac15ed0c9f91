// SPDX-License-Identifier: MIT
// Memory of sessions without history and state, in bytes as the allocator counts them.
#pragma once

#include <cstdint>
#include <string>

#include "server/sessions/session.h"

namespace mnemon {

// A new session.
int64_t FreshBytes(const Session& session);
// A session with all that it remembers.
int64_t WholeBytes(const Session& session);

// Parts of WholeBytes: a remembered request id, the record of the newest call (null:
// 0), the sampling parameters (of a session: 0 if it has none).
int64_t RememberedBytes(const std::string& request_id);
int64_t RecordBytes(const CallRecord* record);
int64_t BytesOf(const SessionSampling& sampling);
int64_t SamplingBytes(const Session& session);

}  // namespace mnemon
