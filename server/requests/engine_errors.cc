// SPDX-License-Identifier: MIT
#include "server/requests/engine_errors.h"

#include <algorithm>
#include <new>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/quote.h"
#include "base/strings.h"

namespace mnemon::engine_errors {
namespace {

using enum absl::StatusCode;

constexpr std::chrono::milliseconds kRetry{1000};

std::chrono::milliseconds RetryAfter(Wait wait) {
  if (wait.count() <= 0) return kRetry;
  const auto ms = static_cast<int64_t>(std::min(wait.count(), 3600.0) * 1000);
  return std::chrono::milliseconds(std::clamp<int64_t>(ms, 20, 60000));
}

bool HasReason(const std::optional<ErrorDetail>& detail, std::string_view reason) {
  return detail && detail->reason == reason;
}

std::string Named(const std::string& session) {
  return StrCat("session ", Quoted(session));
}

}  // namespace

absl::Status NotFound(const std::string& id) {
  return MakeError(kNotFound, StrCat(Named(id), " not found"),
                   {.reason = "SESSION_NOT_FOUND"});
}

absl::Status Draining() {
  return MakeError(kUnavailable, "the server drains and takes no more work",
                   {.reason = "DRAINING", .retry_after = kRetry});
}

absl::Status GraceOver() {
  return MakeError(kUnavailable,
                   "the server drains, and the grace that calls have is over",
                   {.reason = "DRAINING", .retry_after = kRetry});
}

absl::Status NoAnswer() {
  return MakeError(kUnavailable,
                   "no answer has come in time: what was asked for may still be done",
                   {.reason = "NO_ANSWER", .retry_after = kRetry});
}

bool IsNoAnswer(const absl::Status& status) {
  return HasReason(GetErrorDetail(status), "NO_ANSWER");
}

absl::Status Cancelled() noexcept try {
  return absl::CancelledError("call cancelled");
} catch (const std::bad_alloc&) {
  return absl::Status(kCancelled, "");
}

absl::Status SessionLimit(int32_t sessions, Wait wait) {
  return MakeError(kResourceExhausted,
                   StrCat("all ", sessions, " sessions of the model are in use"),
                   {.reason = "SESSION_LIMIT", .retry_after = RetryAfter(wait)});
}

absl::Status NoStore() {
  return MakeError(
      kFailedPrecondition,
      "the server keeps sessions in memory alone: it has no data directory",
      {.reason = "NO_STORE", .field = "durability"});
}

absl::Status SessionDamaged(const std::string& session, int64_t whole_tokens) {
  return MakeError(
      kDataLoss,
      StrCat("what is stored of session ", Quoted(session), " is damaged: its first ",
             whole_tokens,
             " tokens are whole; delete it, or cut it there by "
             "mnemon-server --repair"),
      {.reason = "SESSION_DAMAGED",
       .metadata = {{"session", session}, {"whole_tokens", StrCat(whole_tokens)}}});
}

absl::Status CheckpointDamaged(const std::string& session, const std::string& id) {
  return MakeError(kDataLoss,
                   StrCat("what is stored of checkpoint ", Quoted(id), " of session ",
                          Quoted(session), " is damaged"),
                   {.reason = "CHECKPOINT_DAMAGED",
                    .metadata = {{"session", session}, {"checkpoint", id}}});
}

absl::Status SessionOfOtherModel(const std::string& session, const std::string& model) {
  return MakeError(kFailedPrecondition,
                   StrCat(Named(session), " belongs to model ", Quoted(model),
                          ", which is not loaded as it was"),
                   {.reason = "MODEL_FINGERPRINT", .metadata = {{"model", model}}});
}

absl::Status SessionExpired(const std::string& session) {
  return MakeError(kNotFound, StrCat(Named(session), " has expired"),
                   {.reason = "SESSION_EXPIRED"});
}

absl::Status SessionExists(const std::string& session) {
  return MakeError(kAlreadyExists, StrCat(Named(session), " exists"),
                   {.reason = "SESSION_EXISTS"});
}

absl::Status RequestIdReused(const std::string& session) {
  return MakeError(
      kAlreadyExists,
      StrCat("request_id has made session ", Quoted(session), " from another request"),
      {.reason = "REQUEST_ID_REUSED",
       .field = "request_id",
       .metadata = {{"session", session}}});
}

absl::Status RequestRepeated(const std::string& session) {
  return MakeError(kAlreadyExists, StrCat(Named(session), " has taken this request_id"),
                   {.reason = "REQUEST_REPEATED", .field = "request_id"});
}

absl::Status RequestDiffers(const std::string& session) {
  return MakeError(kAlreadyExists,
                   StrCat("session ", Quoted(session),
                          " has taken this request_id with another request"),
                   {.reason = "REQUEST_ID_REUSED", .field = "request_id"});
}

absl::Status RequestUnknown(const std::string& session) {
  return MakeError(kNotFound, StrCat(Named(session), " knows no such request_id"),
                   {.reason = "REQUEST_UNKNOWN", .field = "request_id"});
}

absl::Status StreamResumed() {
  return MakeError(kAborted, "another stream has resumed the call",
                   {.reason = "STREAM_RESUMED"});
}

absl::Status IndexOutOfRange(int64_t after, int64_t first, int64_t last) {
  return MakeError(kOutOfRange,
                   StrCat("resume_after_index must be -1 or from ", first, " to ", last,
                          ", got ", after),
                   {.reason = "INDEX_OUT_OF_RANGE",
                    .field = "resume_after_index",
                    .metadata = {{"first", StrCat(first)}, {"last", StrCat(last)}}});
}

absl::Status TokenCountMismatch(const std::string& session, int64_t expected,
                                int64_t tokens) {
  return MakeError(
      kAborted,
      StrCat(Named(session), " has ", tokens, " tokens, not the expected ", expected),
      {.reason = "TOKEN_COUNT_MISMATCH",
       .field = "expected_token_count",
       .metadata = {{"token_count", StrCat(tokens)}}});
}

absl::Status EtagMismatch(const std::string& session) {
  return MakeError(kAborted, StrCat(Named(session), " has another etag: read it again"),
                   {.reason = "ETAG_MISMATCH", .field = "etag"});
}

absl::Status SessionPaused(const std::string& session) {
  return MakeError(kFailedPrecondition, StrCat(Named(session), " is paused"),
                   {.reason = "SESSION_PAUSED"});
}

absl::Status CheckpointExists(const std::string& session, const std::string& id) {
  return MakeError(kAlreadyExists,
                   StrCat(Named(session), " has a checkpoint ", Quoted(id)),
                   {.reason = "CHECKPOINT_EXISTS", .field = "checkpoint_id"});
}

absl::Status CheckpointNotFound(const std::string& session, const std::string& id) {
  return MakeError(kNotFound, StrCat(Named(session), " has no checkpoint ", Quoted(id)),
                   {.reason = "CHECKPOINT_NOT_FOUND", .field = "checkpoint_id"});
}

absl::Status CheckpointLimit(const std::string& session, size_t most) {
  return MakeError(
      kResourceExhausted,
      StrCat(Named(session), " has ", most, " checkpoints, the most that one can have"),
      {.reason = "CHECKPOINT_LIMIT"});
}

absl::Status TransferLimit(int32_t transfers) {
  return MakeError(
      kResourceExhausted,
      StrCat(transfers, " exports, imports and verifications are under way, the most"),
      {.reason = "TRANSFER_LIMIT", .retry_after = kRetry});
}

absl::Status BeyondHistory(int64_t position, int64_t tokens, const char* field) {
  return MakeError(
      kOutOfRange,
      StrCat(field, " ", position, " is not within the history of ", tokens, " tokens"),
      {.reason = "BEYOND_HISTORY",
       .field = field,
       .metadata = {{"token_count", StrCat(tokens)}}});
}

absl::Status SessionBusy(const std::string& session, Wait wait) {
  return MakeError(kAborted, StrCat("another call runs on session ", Quoted(session)),
                   {.reason = "SESSION_BUSY", .retry_after = RetryAfter(wait)});
}

absl::Status WrongKind(const std::string& model, const std::string& does) {
  return MakeError(kUnimplemented, StrCat("model ", Quoted(model), " ", does),
                   {.reason = "MODEL_KIND", .field = "model"});
}

absl::Status SessionDeleted() {
  return MakeError(kAborted, "the session was deleted", {.reason = "SESSION_DELETED"});
}

absl::Status QueueFull(int64_t queued, Wait wait) {
  return MakeError(kResourceExhausted,
                   StrCat(queued, " calls are waiting, no more are taken"),
                   {.reason = "QUEUE_FULL", .retry_after = RetryAfter(wait)});
}

absl::Status DeadlineUnreachable(Wait wait) {
  return MakeError(kResourceExhausted,
                   "at the present load the call would not end before its deadline",
                   {.reason = "DEADLINE_UNREACHABLE", .retry_after = RetryAfter(wait)});
}

absl::Status NoFreeBlocks(std::optional<Wait> wait) {
  ErrorDetail detail{.reason = "NO_FREE_BLOCKS"};
  if (wait) detail.retry_after = RetryAfter(*wait);
  return MakeError(kResourceExhausted,
                   "no memory is left for the growing state of sessions",
                   std::move(detail));
}

bool IsNoFreeBlocks(const absl::Status& status) {
  return HasReason(GetErrorDetail(status), "NO_FREE_BLOCKS");
}

bool IsRetryableNoFreeBlocks(const absl::Status& status) {
  const auto detail = GetErrorDetail(status);
  return HasReason(detail, "NO_FREE_BLOCKS") && detail->retry_after;
}

absl::Status WithPromptTaken(const absl::Status& error, bool taken, bool resumes) {
  ErrorDetail detail = GetErrorDetail(error).value_or(ErrorDetail{});
  detail.metadata.emplace("prompt_taken", taken ? "true" : "false");
  if (taken && !resumes) detail.retry_after.reset();
  return MakeError(error.code(), std::string(error.message()), std::move(detail));
}

absl::Status MemoryLimit() {
  return MakeError(kResourceExhausted, "all memory that the server may take is in use",
                   {.reason = "MEMORY_LIMIT", .retry_after = kRetry});
}

absl::Status SessionMemory(int64_t bytes) {
  return MakeError(
      kResourceExhausted,
      StrCat("sessions and checkpoints take all of the ", bytes,
             " bytes that the server has for them: delete some, or give it more "
             "--memory"),
      {.reason = "MEMORY_LIMIT", .retry_after = kRetry});
}

absl::Status CallerIdle(std::chrono::milliseconds idle) {
  return MakeError(kAborted,
                   StrCat("the caller neither read nor sent for ", idle.count(), " ms"),
                   {.reason = "CALLER_IDLE"});
}

absl::Status NonFiniteState(const absl::Status& error, const std::string& session) {
  if (session.empty()) return error;
  ErrorDetail detail = GetErrorDetail(error).value_or(ErrorDetail{});
  detail.metadata.emplace("session", session);
  return MakeError(
      error.code(),
      StrCat(error.message(), ", so session ", Quoted(session), " does not keep it"),
      std::move(detail));
}

absl::Status ContextLimit(int64_t tokens, int64_t prompt, int64_t context) {
  return MakeError(kFailedPrecondition,
                   StrCat("a history of ", tokens, " tokens and a prompt of ", prompt,
                          " exceed the context of ", context),
                   {.reason = "CONTEXT_LIMIT", .field = "prompt"});
}

}  // namespace mnemon::engine_errors
