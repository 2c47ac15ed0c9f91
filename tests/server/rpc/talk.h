// SPDX-License-Identifier: MIT
// A stream of Generation.Converse, read message by message, and messages for it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/error.h"
#include "client/status.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/rig.h"

namespace mnemon::converse {

using Request = v1::ConverseRequest;
using Response = v1::ConverseResponse;
using Tokens = std::vector<int32_t>;

inline constexpr int64_t kMany = 1000000;

inline Request OpenOf(const std::string& session, int64_t credits) {
  Request request;
  if (!session.empty()) request.mutable_open()->set_session("sessions/" + session);
  request.mutable_open()->set_credit_token_count(credits);
  request.mutable_open()->mutable_sampling()->set_temperature(0);
  return request;
}

inline Request TurnOf(const Tokens& prompt, int32_t max_tokens) {
  Request request;
  Request::Turn& turn = *request.mutable_turn();
  auto& ids = *turn.mutable_prompt()->mutable_tokens()->mutable_ids();
  ids.Add(prompt.begin(), prompt.end());
  turn.mutable_stopping()->set_max_tokens(max_tokens);
  return request;
}

inline Request CreditsOf(int64_t count) {
  Request request;
  request.mutable_credits()->set_token_count(count);
  return request;
}

inline Request Interrupt() {
  Request request;
  request.mutable_interrupt();
  return request;
}

inline Tokens Greedy(const Tokens& history, int64_t count) {
  return ToyContinuation(ToyState::kFixedAndAppend, history, count, {.temperature = 0});
}

inline void Append(Tokens& to, const Tokens& more) {
  to.insert(to.end(), more.begin(), more.end());
}

// One stream. Its calls cannot hang: the context is bounded.
class Talk {
 public:
  explicit Talk(Rig& rig) : stream_(rig.generation->Converse(&context)) {}
  Talk(Rig& rig, const Request& open) : Talk(rig) {
    Send(open);
    Response response;
    if (stream_->Read(&response)) opened = response.opened();
  }
  ~Talk() { context.TryCancel(); }

  void Send(const Request& request) { stream_->Write(request); }
  void Close() { stream_->WritesDone(); }

  // The next message of a turn; empty if there is none.
  v1::GenerateResponse ReadOutput() {
    Response response;
    EXPECT_TRUE(stream_->Read(&response));
    return response.output();
  }

  // Reads exactly `count` tokens.
  Tokens Read(int64_t count) {
    Tokens tokens;
    Response response;
    while (static_cast<int64_t>(tokens.size()) < count && stream_->Read(&response)) {
      EXPECT_TRUE(response.has_output());
      tokens.insert(tokens.end(), response.output().tokens().begin(),
                    response.output().tokens().end());
    }
    EXPECT_EQ(static_cast<int64_t>(tokens.size()), count);
    return tokens;
  }

  // The rest of a turn.
  struct Turn {
    Tokens tokens;
    std::string text;
    int64_t first_index = -1;
    v1::PromptFacts prompt;
    v1::FinishFacts finish;
  };
  Turn Finish() {
    Turn turn;
    Response response;
    while (!turn.finish.finish_reason() && stream_->Read(&response)) {
      const v1::GenerateResponse& output = response.output();
      EXPECT_TRUE(response.has_output());
      if (output.has_prompt()) turn.prompt = output.prompt();
      if (turn.first_index < 0) turn.first_index = output.first_index();
      turn.tokens.insert(turn.tokens.end(), output.tokens().begin(),
                         output.tokens().end());
      turn.text += output.text();
      if (output.has_finish()) turn.finish = output.finish();
    }
    EXPECT_NE(turn.finish.finish_reason(), v1::FinishFacts::FINISH_REASON_UNSPECIFIED);
    return turn;
  }

  // The history's tokens; -1: it was not an answer to an interrupt.
  int64_t AwaitInterrupted(Tokens* before = nullptr) {
    Response response;
    while (stream_->Read(&response) && response.has_output()) {
      if (before == nullptr) continue;
      before->insert(before->end(), response.output().tokens().begin(),
                     response.output().tokens().end());
    }
    return response.has_interrupted() ? response.interrupted().token_count() : -1;
  }

  // The end of the stream, skipping what comes before it.
  absl::Status End() {
    Response response;
    while (stream_->Read(&response)) {
      tokens_at_end += response.output().tokens_size();
      if (response.output().has_finish()) finished_at_end = true;
    }
    return client::FromGrpcStatus(stream_->Finish());
  }

  BoundedContext context;
  Response::Opened opened;
  int64_t tokens_at_end = 0;
  bool finished_at_end = false;

 private:
  const std::unique_ptr<grpc::ClientReaderWriter<Request, Response>> stream_;
};

inline void ExpectError(const absl::Status& status, absl::StatusCode code,
                        const std::string& reason, const std::string& field) {
  EXPECT_EQ(status.code(), code) << status;
  const ErrorDetail detail = GetErrorDetail(status).value_or(ErrorDetail{});
  EXPECT_EQ(detail.reason, reason) << status;
  EXPECT_EQ(detail.field, field) << status;
}

}  // namespace mnemon::converse
