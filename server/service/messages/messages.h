// SPDX-License-Identifier: MIT
// Conversions between plain values of the engine and messages of the API.
#pragma once

#include <chrono>
#include <string_view>

#include "absl/status/statusor.h"
#include "mnemon/v1/admin.pb.h"
#include "mnemon/v1/generation.pb.h"
#include "mnemon/v1/models.pb.h"
#include "mnemon/v1/sessions.pb.h"
#include "server/engine/engine_stats.h"
#include "server/requests/request.h"
#include "server/service/messages/names.h"
#include "server/streams/token_stream.h"

namespace mnemon {

// INVALID_ARGUMENT for malformed names, and for enum values and shapes that a request
// of the engine cannot represent; UNIMPLEMENTED for set fields that are not available.
// Errors name request paths.
absl::StatusOr<CreateSessionRequest> FromMessage(const v1::CreateSessionRequest& r);
ListSessionsRequest FromMessage(const v1::ListSessionsRequest& r);
absl::StatusOr<ForkSessionRequest> FromMessage(const v1::ForkSessionRequest& r);
absl::StatusOr<RewindSessionRequest> FromMessage(const v1::RewindSessionRequest& r);
// Settings are set where the mask names them, or, without one, where the message has
// them.
absl::StatusOr<UpdateSessionRequest> FromMessage(const v1::UpdateSessionRequest& r);
absl::StatusOr<CheckpointSessionRequest> FromMessage(
    const v1::CheckpointSessionRequest& r);
absl::StatusOr<VerifySessionRequest> FromMessage(const v1::VerifySessionRequest& r);
// Without the snapshot.
absl::StatusOr<ImportSessionRequest> FromMessage(
    const v1::ImportSessionRequest::Open& r);
// `defaults`: the sampling of the model, where the message sets nothing.
absl::StatusOr<GenerateRequest> FromMessage(const v1::GenerateRequest& r,
                                            const RequestedSampling& defaults = {});
absl::StatusOr<ScoreRequest> FromMessage(const v1::ScoreRequest::Open& r);
absl::StatusOr<PredictRequest> FromMessage(const v1::PredictRequest& r);

absl::StatusOr<Prompt> FromMessage(const v1::Prompt& prompt);

// A turn of a conversation as the call of Generate that it is.
v1::GenerateRequest TurnOf(const v1::ConverseRequest::Open& open,
                           const v1::ConverseRequest::Turn& turn);
// An error of that call, with the path of its field in the messages of a conversation.
absl::Status ErrorOfTurn(const absl::Status& error,
                         const v1::ConverseRequest::Open& open,
                         const v1::ConverseRequest::Turn& turn);

// Sampling of a session: `path` is its name in the request. UNIMPLEMENTED for a
// constraint.
absl::StatusOr<SessionSampling> FromMessage(const v1::Sampling& sampling,
                                            std::string_view path);
void ToMessage(const SessionSampling& sampling, v1::Sampling& out);

// INVALID_ARGUMENT unless it is a valid Duration; the engine has narrower limits.
absl::StatusOr<std::chrono::milliseconds> FromDuration(
    const google::protobuf::Duration& duration, std::string_view field);

// The scope of errors of these calls. Does not refer to `r`.
RequestScope ScopeOf(const v1::CreateSessionRequest& r);
RequestScope ScopeOf(const v1::UpdateSessionRequest& r);
RequestScope ScopeOf(const v1::ForkSessionRequest& r);
RequestScope ScopeOf(const v1::ImportSessionRequest::Open& r);
RequestScope ScopeOf(const v1::GenerateRequest& r);
RequestScope ScopeOf(const v1::ScoreRequest::Open& r);
RequestScope ScopeOf(const v1::PredictRequest& r);
// All other requests on one session.
template <class Request>
requires requires(const Request& r) { r.name(); }
RequestScope ScopeOf(const Request& r) { return {.session = r.name()}; }

void ToMessage(const SessionFacts& facts, v1::Session& out);
void ToMessage(const CheckpointFacts& facts, v1::Checkpoint& out);
void ToMessage(const HistoryPart& part, v1::SessionHistory& out);
void ToMessage(const VerifiedSession& verified, v1::VerifySessionResponse& out);
void ToMessage(const ModelFacts& facts, v1::Model& out);
void ToMessage(const EngineStats& stats, v1::Load& out);
void ToMessage(const TokenLogprobs& logprobs, int64_t index, v1::TokenLogprobs& out);
// Introspection of the token at `index`.
void ToMessage(const Introspection& introspection, int64_t index,
               v1::Introspection& out);
struct PredictShape {
  int64_t batch = 0;  // B
  int64_t time = 0;   // T
  int64_t vocab = 0;  // V
};
void ToMessage(const Predictor::Output& output, const PredictShape& shape,
               v1::PredictResponse& out);
// Everything but a failed status. Clears `out` first. `session` and `model` are the
// resource names of the call.
void ToMessage(const TokenChunk& chunk, const std::string& session,
               const std::string& model, v1::GenerateResponse& out);

// Room for `count` more elements of `field`, made before they are added: a field that
// grows while memory runs out leaks the new element. May throw std::bad_alloc.
template <class T>
void ReserveMore(size_t count, google::protobuf::RepeatedPtrField<T>& field) {
  field.Reserve(field.size() + static_cast<int>(count));
}

}  // namespace mnemon
