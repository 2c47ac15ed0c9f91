// SPDX-License-Identifier: MIT
// What calls may ask of introspection, and how much of it may wait.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "model/decoder/introspection.h"
#include "server/calls/call.h"
#include "server/requests/engine_model.h"

namespace mnemon {

// Of one token, at most.
inline constexpr int64_t kMaxIntrospectionBytes = int64_t{1} << 20;
// Of the tokens of a stream that wait, and so of one message.
inline constexpr int64_t kMaxWaitingIntrospectionBytes = int64_t{2} << 20;

// FAILED_PRECONDITION, NO_INTROSPECTION: the model does not have one of the fields.
// REQUIRES: a decoder.
absl::Status CheckIntrospection(const IntrospectionFields& fields,
                                const EngineModel& model);

// Of a call that ends before the position `end`: bounds the tokens that may wait in its
// stream by what each may bring. INVALID_ARGUMENT: one token takes too much. REQUIRES:
// CheckIntrospection accepts the fields; the runner does not have the call yet.
absl::Status LimitIntrospection(const Call& call, const EngineModel& model,
                                int64_t end);

}  // namespace mnemon
