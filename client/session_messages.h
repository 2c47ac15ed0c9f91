// SPDX-License-Identifier: MIT
// Conversion between sessions as plain values and the messages of the API.
#pragma once

#include "client/session.h"
#include "mnemon/v1/sessions.pb.h"

namespace mnemon::client {

v1::CreateSessionRequest ToMessage(const CreateSessionOptions& options);
v1::UpdateSessionRequest ToMessage(const UpdateSessionOptions& options);
v1::ForkSessionRequest ToMessage(const ForkSessionOptions& options);
v1::RewindSessionRequest ToMessage(const RewindSessionOptions& options);
// First message of the stream.
v1::ImportSessionRequest ToMessage(const ImportSessionOptions& options);

Session FromMessage(const v1::Session& message);
SessionCheckpoint FromMessage(const v1::Checkpoint& message);
Verification FromMessage(const v1::VerifySessionResponse& message);

}  // namespace mnemon::client
