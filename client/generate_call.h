// SPDX-License-Identifier: MIT
// One Generate call of a client, over as many streams as needed.
#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include "absl/status/statusor.h"
#include "client/client.h"
#include "client/connection.h"
#include "client/stream_progress.h"
#include "mnemon/v1/generation.grpc.pb.h"

namespace mnemon::client {

// See Client::Generate. All arguments must outlive it; Run once.
class GenerateCall {
 public:
  using OnChunk = std::function<bool(const GenerateChunk&)>;

  GenerateCall(Connection& connection, v1::Generation::Stub& stub,
               const GenerateOptions& options, const OnChunk& on_chunk);
  absl::StatusOr<GenerateResult> Run();

 private:
  using SteadyClock = std::chrono::steady_clock;

  // Runs one stream to its end: OK if the call has ended as well.
  absl::Status Stream();
  void Take(const v1::GenerateResponse& message, bool first);

  Connection& connection_;
  v1::Generation::Stub& stub_;
  const OnChunk& on_chunk_;
  const bool again_;  // resume when the stream is lost
  const std::chrono::system_clock::time_point deadline_;
  Connection::Registration registration_;
  Retries retries_;
  StreamProgress progress_;
  std::optional<SteadyClock::time_point> begin_;
  GenerateResult result_;
  bool wanted_ = true;
  bool finished_ = false;
  absl::Status damage_;
};

}  // namespace mnemon::client
