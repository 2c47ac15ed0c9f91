// SPDX-License-Identifier: MIT
// Bytes of a message as a client may send them, up to the point where the engine would
// take the request: refused with a status that can be sent, or within all limits. The
// first byte picks the message.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "server/engine/request_check.h"
#include "server/rpc/library_logs.h"
#include "server/rpc/messages.h"

namespace mnemon {
namespace {

constexpr CallLimits kLimits = {
    .vocab = 256, .max_tokens = 1000, .max_prompt_tokens = 1000};

// What goes back to the client: bounded, with a text, and never without a code.
template <class Message>
void Refuse(const absl::Status& status, const Message& message) {
  const grpc::Status sent = ToGrpcStatus(status, ScopeOf(message), nullptr);
  MNEMON_CHECK(!sent.ok() && !sent.error_message().empty());
  MNEMON_CHECK(sent.error_message().size() < 4096);
  MNEMON_CHECK(sent.error_details().size() < 16384);
}

void Create(const v1::CreateSessionRequest& message) {
  const auto request = FromMessage(message);
  if (!request.ok()) return Refuse(request.status(), message);
  const absl::Status id =
      request->id.empty() ? absl::OkStatus() : CheckSessionId(request->id, "id");
  if (!id.ok()) return Refuse(id, message);
  const absl::Status ttl = CheckTtl(request->ttl);
  if (!ttl.ok()) return Refuse(ttl, message);
}

void Generate(const v1::GenerateRequest& message) {
  static const std::unique_ptr<Tokenizer> tokenizer = MakeByteTokenizer();
  const auto request = FromMessage(message);
  if (!request.ok()) return Refuse(request.status(), message);
  const absl::Status call = CheckCall(*request, kLimits);
  if (!call.ok()) return Refuse(call, message);
  MNEMON_CHECK(request->max_tokens.value_or(0) >= 0);
  MNEMON_CHECK(request->sampling.temperature >= 0);
  const auto tokens = PromptTokens(request->prompt, tokenizer.get(), kLimits);
  if (!tokens.ok()) return Refuse(tokens.status(), message);
  MNEMON_CHECK(tokens->size() <= static_cast<size_t>(kLimits.max_prompt_tokens));
  for (const int32_t token : *tokens) MNEMON_CHECK(token >= 0 && token < kLimits.vocab);
}

void Score(const v1::ScoreRequest& message) {
  if (message.has_part()) {
    (void)FromMessage(message.part());
    return;
  }
  const auto request = FromMessage(message.open());
  if (!request.ok()) return Refuse(request.status(), message.open());
  const absl::Status candidates = CheckCandidates(request->candidates, kLimits.vocab);
  if (!candidates.ok()) Refuse(candidates, message.open());
}

void Predict(const v1::PredictRequest& message) {
  constexpr int64_t kPositions = 64;
  const ModelConfig config = {
      .architecture = "encoder", .vocab = kLimits.vocab, .positions = kPositions};
  const auto request = FromMessage(message);
  if (!request.ok()) return Refuse(request.status(), message);
  const absl::Status input = CheckPredict({.tokens = request->tokens,
                                           .batch = request->batch,
                                           .mask = request->mask,
                                           .explicit_mask = request->explicit_mask,
                                           .maps = request->maps},
                                          config, kPositions);
  if (!input.ok()) return Refuse(input, message);
  for (const int32_t token : request->tokens) {
    MNEMON_CHECK(token >= 0 && token < kLimits.vocab);
  }
}

template <class Message>
void Parse(const void* bytes, int length, void (*use)(const Message&)) {
  Message message;
  if (message.ParseFromArray(bytes, length)) use(message);
}

}  // namespace
}  // namespace mnemon

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const bool silent = (mnemon::InstallLibraryLogs(), true);
  (void)silent;
  if (size == 0) return 0;
  const void* bytes = data + 1;
  const int length = static_cast<int>(size) - 1;
  switch (data[0] % 4) {
    case 0:
      mnemon::Parse(bytes, length, &mnemon::Generate);
      break;
    case 1:
      mnemon::Parse(bytes, length, &mnemon::Create);
      break;
    case 2:
      mnemon::Parse(bytes, length, &mnemon::Score);
      break;
    default:
      mnemon::Parse(bytes, length, &mnemon::Predict);
  }
  return 0;
}
