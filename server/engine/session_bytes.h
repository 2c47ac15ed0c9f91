// SPDX-License-Identifier: MIT
// What sessions take in memory, beside history and state, as the allocator counts.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/byte_budget.h"
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

// The record, which has the charge of its prompt as long as anybody has the record.
std::shared_ptr<CallRecord> WithCharge(CallRecord record, ByteCharge charge);
inline int64_t PromptBytes(const CallRecord& record) {
  return static_cast<int64_t>(record.prompt.size() * sizeof(int32_t));
}

}  // namespace mnemon
