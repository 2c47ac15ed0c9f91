// SPDX-License-Identifier: MIT
// What sessions take in memory, beside history and state, as the allocator counts.
#pragma once

#include <cstdint>
#include <string>

#include "server/engine/session.h"

namespace mnemon {

// What one that is made takes.
int64_t FreshBytes(const Session& session);
// With all that it remembers.
int64_t WholeBytes(const Session& session);

// Parts of that: a remembered request id, the record of a newest call or null, the
// sampling that a session has.
int64_t RememberedBytes(const std::string& request_id);
int64_t RecordBytes(const CallRecord* record);
int64_t BytesOf(const SessionSampling& sampling);
int64_t SamplingBytes(const Session& session);

}  // namespace mnemon
