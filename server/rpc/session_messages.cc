// SPDX-License-Identifier: MIT
#include <chrono>

#include "base/error.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/rpc/messages.h"
#include "server/rpc/resource_name.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;

// The range of google.protobuf.Duration.
constexpr int64_t kMaxSeconds = 315'576'000'000;

void SetTime(std::chrono::system_clock::time_point time,
             google::protobuf::Timestamp& out) {
  const int64_t nanos =
      std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch())
          .count();
  out.set_seconds(nanos / 1000000000);
  out.set_nanos(static_cast<int32_t>(nanos % 1000000000));
}

v1::Session::State ToState(SessionState state) {
  switch (state) {
    case SessionState::kIdle:
      return v1::Session::IDLE;
    case SessionState::kQueued:
      return v1::Session::QUEUED;
    case SessionState::kPaused:
      return v1::Session::PAUSED;
    case SessionState::kRunning:
      break;
  }
  return v1::Session::RUNNING;
}

v1::Session::Durability ToDurability(Durability durability) {
  switch (durability) {
    case Durability::kNone:
      return v1::Session::NONE;
    case Durability::kTurn:
      return v1::Session::TURN;
    case Durability::kAlways:
      break;
  }
  return v1::Session::ALWAYS;
}

v1::Session::Tier ToTier(SessionTier tier) {
  switch (tier) {
    case SessionTier::kDevice:
      return v1::Session::DEVICE;
    case SessionTier::kHost:
      return v1::Session::HOST;
    case SessionTier::kDisk:
      return v1::Session::DISK;
    case SessionTier::kShared:
      break;
  }
  return v1::Session::SHARED;
}

absl::Status CheckDurability(const v1::Session& session) {
  switch (session.durability()) {
    case v1::Session::DURABILITY_UNSPECIFIED:
    case v1::Session::NONE:
      return absl::OkStatus();
    case v1::Session::TURN:
    case v1::Session::ALWAYS:
      return FieldNotAvailable("session.durability");
    default:
      return InvalidField("session.durability",
                          StrCat("session.durability has no value ",
                                 static_cast<int>(session.durability())));
  }
}

// Of a session that is made, what is not available yet.
absl::Status RefuseLaterFields(const v1::Session& session) {
  if (session.has_expire_time()) return FieldNotAvailable("session.expire_time");
  if (session.has_sampling()) return FieldNotAvailable("session.sampling");
  if (session.paused()) return FieldNotAvailable("session.paused");
  return CheckDurability(session);
}

}  // namespace

absl::StatusOr<milliseconds> FromDuration(const google::protobuf::Duration& duration,
                                          std::string_view field) {
  if (duration.seconds() < -kMaxSeconds || duration.seconds() > kMaxSeconds ||
      duration.nanos() <= -1'000'000'000 || duration.nanos() >= 1'000'000'000) {
    return InvalidField(std::string(field), StrCat(field, " is not a valid Duration"));
  }
  return milliseconds(duration.seconds() * 1000 + duration.nanos() / 1'000'000);
}

RequestScope ScopeOf(const v1::CreateSessionRequest& r) {
  return {.session = SessionResource(r.session_id()),
          .model = r.session().model(),
          .paths = {{"session_id", "session_id"},
                    {"model", "session.model"},
                    {"ttl", "session.ttl"}}};
}

absl::StatusOr<CreateSessionRequest> FromMessage(const v1::CreateSessionRequest& r) {
  const v1::Session& session = r.session();
  MNEMON_RETURN_IF_ERROR(RefuseLaterFields(session));
  CreateSessionRequest request;
  request.id = r.session_id();
  request.request_id = r.request_id();
  MNEMON_ASSIGN_OR_RETURN(request.model,
                          ParseOptionalModel(session.model(), "session.model"));
  if (session.has_ttl()) {
    MNEMON_ASSIGN_OR_RETURN(request.ttl, FromDuration(session.ttl(), "session.ttl"));
  }
  return request;
}

ListSessionsRequest FromMessage(const v1::ListSessionsRequest& r) {
  return {.page_size = r.page_size(),
          .page_token = r.page_token(),
          .filter = r.filter(),
          .order_by = r.order_by()};
}

RequestScope ScopeOf(const v1::ForkSessionRequest& r) {
  return {.session = r.name(),
          .model = {},
          .paths = {{"session_id", "session_id"}, {"ttl", "session.ttl"}}};
}

absl::StatusOr<ForkSessionRequest> FromMessage(const v1::ForkSessionRequest& r) {
  MNEMON_RETURN_IF_ERROR(RefuseLaterFields(r.session()));
  ForkSessionRequest request{.id = r.session_id(), .request_id = r.request_id()};
  MNEMON_ASSIGN_OR_RETURN(request.session, ParseSessionResource(r.name(), "name"));
  if (r.has_token_count()) request.position = r.token_count();
  if (r.session().has_ttl()) {
    MNEMON_ASSIGN_OR_RETURN(request.ttl,
                            FromDuration(r.session().ttl(), "session.ttl"));
  }
  return request;
}

RequestScope ScopeOf(const v1::ImportSessionRequest::Open& r) {
  return {.session = SessionResource(r.session_id()),
          .model = r.session().model(),
          .paths = {{"session_id", "open.session_id"},
                    {"model", "open.session.model"},
                    {"ttl", "open.session.ttl"},
                    {"request_id", "open.request_id"}}};
}

absl::StatusOr<ImportSessionRequest> FromMessage(
    const v1::ImportSessionRequest::Open& r) {
  MNEMON_RETURN_IF_ERROR(RefuseLaterFields(r.session()));
  ImportSessionRequest request{.id = r.session_id(), .request_id = r.request_id()};
  MNEMON_ASSIGN_OR_RETURN(
      request.model, ParseOptionalModel(r.session().model(), "open.session.model"));
  if (r.session().has_ttl()) {
    MNEMON_ASSIGN_OR_RETURN(request.ttl,
                            FromDuration(r.session().ttl(), "open.session.ttl"));
  }
  return request;
}

void ToMessage(const VerifiedSession& verified, v1::VerifySessionResponse& out) {
  out.set_stored_form_valid(verified.stored_form_valid);
  if (verified.replay_equal) out.set_replay_equal(*verified.replay_equal);
  out.set_token_count(verified.position);
  out.set_state_size_bytes(verified.state_size_bytes);
  out.set_first_difference(verified.first_difference);
}

absl::StatusOr<RewindSessionRequest> FromMessage(const v1::RewindSessionRequest& r) {
  RewindSessionRequest request{.session = {}, .target = int64_t{0}, .etag = r.etag()};
  MNEMON_ASSIGN_OR_RETURN(request.session, ParseSessionResource(r.name(), "name"));
  switch (r.target_case()) {
    case v1::RewindSessionRequest::kCheckpointId:
      request.target = r.checkpoint_id();
      return request;
    case v1::RewindSessionRequest::kTokenCount:
      request.target = r.token_count();
      return request;
    case v1::RewindSessionRequest::TARGET_NOT_SET:
      break;
  }
  return InvalidField("token_count", "name a checkpoint_id or a token_count");
}

void ToMessage(const CheckpointFacts& facts, v1::Checkpoint& out) {
  out.set_checkpoint_id(facts.id);
  out.set_token_count(facts.position);
  SetTime(facts.create_time, *out.mutable_create_time());
  out.set_size_bytes(facts.size_bytes);
  out.set_automatic(facts.automatic);
}

void ToMessage(const SessionFacts& facts, v1::Session& out) {
  out.set_name(SessionResource(facts.id));
  out.set_model(ModelResource(facts.model));
  out.set_state(ToState(facts.state));
  out.set_token_count(facts.position);
  out.set_state_size_bytes(facts.state_size_bytes);
  SetTime(facts.create_time, *out.mutable_create_time());
  SetTime(facts.last_use_time, *out.mutable_last_use_time());
  if (facts.expire_time) SetTime(*facts.expire_time, *out.mutable_expire_time());
  out.set_etag(facts.etag);
  if (!facts.parent.empty()) out.set_parent(SessionResource(facts.parent));
  out.set_rebuilt(facts.rebuilt);
  out.set_paused(facts.paused);
  out.set_durability(ToDurability(facts.durability));
  out.set_tier(ToTier(facts.tier));
  out.set_model_id(facts.model_id);
  out.set_numerics_id(facts.numerics_id);
  ReserveMore(facts.checkpoints.size(), *out.mutable_checkpoints());
  for (const CheckpointFacts& checkpoint : facts.checkpoints) {
    ToMessage(checkpoint, *out.add_checkpoints());
  }
}

void ToMessage(const ModelFacts& facts, v1::Model& out) {
  out.set_name(ModelResource(facts.name));
  out.set_model_id(facts.model_id);
  out.set_numerics_id(facts.numerics_id);
  out.set_architecture(facts.architecture);
  out.set_config_json(facts.config_json);
  out.set_vocab_size(facts.vocab);
  if (facts.context_limit) out.set_context_limit(*facts.context_limit);
  out.set_has_tokenizer(facts.has_tokenizer);
  out.set_parameter_count(facts.parameters);
  out.set_session_state_size_bytes(facts.state_bytes_per_session);
  out.set_precision(facts.precision);
}

}  // namespace mnemon
