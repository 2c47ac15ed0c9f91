// SPDX-License-Identifier: MIT
#include "client/generate_call.h"

#include <utility>

#include "base/status_macros.h"
#include "client/messages.h"
#include "client/request_id.h"

namespace mnemon::client {
namespace {

bool Again(const GenerateOptions& options, const RetryOptions& retry) {
  return options.resume.automatic && !options.session.empty() && retry.tries > 1;
}

v1::GenerateRequest RequestOf(const GenerateOptions& options, bool again) {
  v1::GenerateRequest request = ToMessage(options);
  if (again && request.request_id().empty()) request.set_request_id(NewRequestId());
  return request;
}

std::chrono::system_clock::time_point DeadlineOf(const GenerateOptions& options) {
  return options.deadline ? std::chrono::system_clock::now() + *options.deadline
                          : std::chrono::system_clock::time_point::max();
}

}  // namespace

GenerateCall::GenerateCall(Connection& connection, v1::Generation::Stub& stub,
                           const GenerateOptions& options, const OnChunk& on_chunk)
    : connection_(connection),
      stub_(stub),
      on_chunk_(on_chunk),
      again_(Again(options, connection.retry())),
      deadline_(DeadlineOf(options)),
      registration_(connection),
      retries_(connection.retry()),
      progress_(RequestOf(options, again_)) {}

absl::StatusOr<GenerateResult> GenerateCall::Run() {
  while (true) {
    const absl::Status status = Stream();
    if (!wanted_) return absl::CancelledError("cancelled");
    if (status.ok()) break;
    if (!again_ || registration_.cancelled()) return status;
    MNEMON_RETURN_IF_ERROR(progress_.GoOn(status));
    const absl::Status awaited =
        connection_.Await(registration_, retries_, status, deadline_);
    if (!awaited.ok()) {
      return absl::IsCancelled(awaited)
                 ? awaited
                 : progress_.Ended(awaited, "the stream was lost");
    }
    ++result_.resumes;
  }
  result_.total_time = SteadyClock::now() - *begin_;
  return std::move(result_);
}

absl::Status GenerateCall::Stream() {
  MNEMON_RETURN_IF_ERROR(connection_.Reach(registration_, deadline_));
  if (!begin_) begin_ = SteadyClock::now();
  grpc::ClientContext context;
  if (deadline_ != std::chrono::system_clock::time_point::max()) {
    context.set_deadline(deadline_);
  }
  registration_.SetStream(&context);
  auto reader = stub_.Generate(&context, progress_.request());
  v1::GenerateResponse message;
  bool first = true;
  while (reader->Read(&message)) {
    if (!wanted_ || !damage_.ok()) continue;
    Take(message, std::exchange(first, false));
    if (!wanted_ || !damage_.ok()) context.TryCancel();
  }
  const absl::Status status = connection_.FromServer(reader->Finish());
  registration_.SetStream(nullptr);
  MNEMON_RETURN_IF_ERROR(damage_);
  MNEMON_RETURN_IF_ERROR(status);
  return finished_ ? absl::OkStatus()
                   : absl::DataLossError("the stream ended without its final message");
}

void GenerateCall::Take(const v1::GenerateResponse& message, bool first) {
  const bool resumed = first && progress_.resumes();
  const int64_t before = progress_.last_index();
  damage_ = progress_.Take(message);
  if (!damage_.ok()) return;
  finished_ = TakeFacts(message, result_) || finished_;
  const bool empty = message.tokens().empty() && message.text().empty();
  if (empty && !resumed) return;
  if (!message.tokens().empty()) retries_.Restart();
  if (!empty && result_.time_to_first_token.count() == 0) {
    result_.time_to_first_token = SteadyClock::now() - *begin_;
  }
  GenerateChunk chunk = FromMessage(message);
  if (resumed) chunk.resumed_after = before;
  wanted_ = on_chunk_(chunk);
}

}  // namespace mnemon::client
