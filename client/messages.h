// SPDX-License-Identifier: MIT
// Conversion between the client's plain values and the messages of the API.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "client/client.h"
#include "google/protobuf/duration.pb.h"
#include "mnemon/v1/admin.pb.h"
#include "mnemon/v1/generation.pb.h"
#include "mnemon/v1/sampling.pb.h"

namespace mnemon::client {

// Users write "a", resources are named "sessions/a" and "models/a"; empty stays empty.
std::string SessionResource(const std::string& id);
std::string ModelResource(const std::string& name);
// "a" for "sessions/a" or "a".
std::string LastPart(const std::string& resource);

void SetDuration(std::chrono::milliseconds time, google::protobuf::Duration& out);
// Options that are not set leave `sampling` unchanged.
void SetSampling(const SamplingOptions& options, v1::Sampling& sampling);
v1::GenerateRequest ToMessage(const GenerateOptions& options);
v1::DrainRequest DrainWithin(std::optional<std::chrono::milliseconds> grace);
// Calls `send` with the messages of a Score call while it returns true. Text is split
// between characters.
void ForEachScoreMessage(const ScoreOptions& options,
                         const std::function<bool(const v1::ScoreRequest&)>& send);
v1::PredictRequest ToMessage(const PredictOptions& options);
// DATA_LOSS unless every array has the rank of its kind and the length of its shape.
absl::StatusOr<PredictResult> FromMessage(const v1::PredictResponse& message);
ScoreResult FromMessage(const v1::ScoreResponse::Summary& message);
ServerLoad FromMessage(const v1::Load& message);
GenerateChunk FromMessage(const v1::GenerateResponse& message);
TokenLogprobs FromMessage(const v1::TokenLogprobs& message);
// Copies the facts of one message into `result`; returns true for the last message.
bool TakeFacts(const v1::GenerateResponse& message, GenerateResult& result);

}  // namespace mnemon::client
