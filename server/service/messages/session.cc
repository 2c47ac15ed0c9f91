// SPDX-License-Identifier: MIT
#include <algorithm>
#include <chrono>
#include <iterator>
#include <string_view>

#include <google/protobuf/util/time_util.h>

#include "base/error.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/service/messages/messages.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;
using std::chrono::system_clock;

// The range of google.protobuf.Duration.
constexpr int64_t kMaxSeconds = 315'576'000'000;

google::protobuf::Timestamp ToTimestamp(system_clock::time_point time) {
  return google::protobuf::util::TimeUtil::NanosecondsToTimestamp(
      std::chrono::nanoseconds(time.time_since_epoch()).count());
}

v1::Session::State ToState(SessionState state) {
  switch (state) {
    case SessionState::kIdle:
      return v1::Session::IDLE;
    case SessionState::kQueued:
      return v1::Session::QUEUED;
    case SessionState::kPaused:
      return v1::Session::PAUSED;
    case SessionState::kDetached:
      return v1::Session::DETACHED;
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
      break;
  }
  return v1::Session::DISK;
}

absl::StatusOr<std::optional<Durability>> FromDurability(const v1::Session& session,
                                                         const std::string& path) {
  switch (session.durability()) {
    case v1::Session::DURABILITY_UNSPECIFIED:
      return std::nullopt;
    case v1::Session::NONE:
      return Durability::kNone;
    case v1::Session::TURN:
      return Durability::kTurn;
    case v1::Session::ALWAYS:
      return Durability::kAlways;
    default:
      return NoSuchValue(path, session.durability());
  }
}

absl::StatusOr<system_clock::time_point> FromTimestamp(
    const google::protobuf::Timestamp& time, std::string_view field) {
  // Years 1 to 9999, as Timestamp says; the engine has narrower limits.
  constexpr int64_t kLeast = -62'135'596'800, kMost = 253'402'300'799;
  if (time.seconds() < kLeast || time.seconds() > kMost || time.nanos() < 0 ||
      time.nanos() >= 1'000'000'000) {
    return InvalidField(std::string(field), StrCat(field, " is not a valid Timestamp"));
  }
  // Beyond what the clock holds is beyond what a session may live.
  const int64_t seconds =
      std::clamp(time.seconds(), int64_t{-9'000'000'000}, int64_t{9'000'000'000});
  return system_clock::time_point(std::chrono::duration_cast<system_clock::duration>(
      std::chrono::seconds(seconds) + std::chrono::nanoseconds(time.nanos())));
}

// The settings that `wants` names, of those that the message has.
template <class Wants>
absl::StatusOr<SessionSettings> SettingsOf(const v1::Session& session,
                                           const std::string& path,
                                           const Wants& wants) {
  SessionSettings settings;
  if (wants("durability")) {
    MNEMON_ASSIGN_OR_RETURN(settings.durability,
                            FromDurability(session, path + ".durability"));
  }
  if (wants("ttl") && session.has_ttl()) {
    MNEMON_ASSIGN_OR_RETURN(settings.ttl, FromDuration(session.ttl(), path + ".ttl"));
  }
  if (wants("expire_time") && session.has_expire_time()) {
    MNEMON_ASSIGN_OR_RETURN(settings.expire_time, FromTimestamp(session.expire_time(),
                                                                path + ".expire_time"));
  }
  if (wants("sampling") && session.has_sampling()) {
    MNEMON_ASSIGN_OR_RETURN(settings.sampling,
                            FromMessage(session.sampling(), path + ".sampling"));
  }
  if (wants("paused") && session.paused()) settings.paused = true;
  return settings;
}

absl::StatusOr<SessionSettings> SettingsOf(const v1::Session& session,
                                           const std::string& path) {
  return SettingsOf(session, path, [](std::string_view) { return true; });
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
          .paths = {{"model", "session.model"}},
          .sampling = "session.sampling",
          .settings = "session"};
}

absl::StatusOr<CreateSessionRequest> FromMessage(const v1::CreateSessionRequest& r) {
  const v1::Session& session = r.session();
  CreateSessionRequest request;
  request.id = r.session_id();
  request.request_id = r.request_id();
  MNEMON_ASSIGN_OR_RETURN(request.model,
                          ParseOptionalModel(session.model(), "session.model"));
  MNEMON_ASSIGN_OR_RETURN(request.settings, SettingsOf(session, "session"));
  return request;
}

ListSessionsRequest FromMessage(const v1::ListSessionsRequest& r) {
  return {.page_size = r.page_size(),
          .page_token = r.page_token(),
          .filter = r.filter(),
          .order_by = r.order_by()};
}

RequestScope ScopeOf(const v1::ForkSessionRequest& r) {
  return {.session = r.name(), .sampling = "session.sampling", .settings = "session"};
}

RequestScope ScopeOf(const v1::UpdateSessionRequest& r) {
  return {.session = r.session().name(),
          .paths = {{"name", "session.name"}},
          .sampling = "session.sampling",
          .settings = "session"};
}

absl::StatusOr<UpdateSessionRequest> FromMessage(const v1::UpdateSessionRequest& r) {
  constexpr std::string_view kFields[] = {"expire_time", "ttl",    "durability",
                                          "sampling",    "paused", "*"};
  const auto& mask = r.update_mask().paths();
  for (const std::string& path : mask) {
    if (std::find(std::begin(kFields), std::end(kFields), path) == std::end(kFields)) {
      return InvalidField("update_mask",
                          StrCat("update_mask names ", Quoted(path),
                                 ", which is none of ", StrJoin(kFields, ", ")));
    }
  }
  const auto named = [&](std::string_view field) {
    return std::any_of(mask.begin(), mask.end(), [&](const std::string& path) {
      return path == field || path == "*";
    });
  };
  const bool all = mask.empty();
  const v1::Session& session = r.session();
  UpdateSessionRequest request{.etag = session.etag()};
  MNEMON_ASSIGN_OR_RETURN(request.session,
                          ParseSessionResource(session.name(), "session.name"));
  MNEMON_ASSIGN_OR_RETURN(request.settings,
                          SettingsOf(session, "session", [&](std::string_view field) {
                            return all || named(field);
                          }));
  SessionSettings& settings = request.settings;
  // What the mask names and the message leaves out goes back to its default.
  request.clear_expiration =
      (named("ttl") || named("expire_time")) && !settings.ttl && !settings.expire_time;
  request.clear_sampling = named("sampling") && !settings.sampling;
  request.clear_durability = named("durability") && !settings.durability;
  if (named("paused")) settings.paused = session.paused();
  return request;
}

absl::StatusOr<ForkSessionRequest> FromMessage(const v1::ForkSessionRequest& r) {
  ForkSessionRequest request{.id = r.session_id(), .request_id = r.request_id()};
  MNEMON_ASSIGN_OR_RETURN(request.session, ParseSessionResource(r.name(), "name"));
  if (r.has_token_count()) request.position = r.token_count();
  MNEMON_ASSIGN_OR_RETURN(request.settings, SettingsOf(r.session(), "session"));
  return request;
}

RequestScope ScopeOf(const v1::ImportSessionRequest::Open& r) {
  return {.session = SessionResource(r.session_id()),
          .model = r.session().model(),
          .paths = {{"session_id", "open.session_id"},
                    {"model", "open.session.model"},
                    {"request_id", "open.request_id"}},
          .sampling = "open.session.sampling",
          .settings = "open.session"};
}

absl::StatusOr<ImportSessionRequest> FromMessage(
    const v1::ImportSessionRequest::Open& r) {
  ImportSessionRequest request{.id = r.session_id(), .request_id = r.request_id()};
  MNEMON_ASSIGN_OR_RETURN(
      request.model, ParseOptionalModel(r.session().model(), "open.session.model"));
  MNEMON_ASSIGN_OR_RETURN(request.settings, SettingsOf(r.session(), "open.session"));
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

absl::StatusOr<CheckpointSessionRequest> FromMessage(
    const v1::CheckpointSessionRequest& r) {
  CheckpointSessionRequest request{.id = r.checkpoint_id(),
                                   .request_id = r.request_id()};
  MNEMON_ASSIGN_OR_RETURN(request.session, ParseSessionResource(r.name(), "name"));
  return request;
}

absl::StatusOr<VerifySessionRequest> FromMessage(const v1::VerifySessionRequest& r) {
  VerifySessionRequest request{.session = {}, .replay = r.replay()};
  MNEMON_ASSIGN_OR_RETURN(request.session, ParseSessionResource(r.name(), "name"));
  return request;
}

void ToMessage(const CheckpointFacts& facts, v1::Checkpoint& out) {
  out.set_checkpoint_id(facts.id);
  out.set_token_count(facts.position);
  *out.mutable_create_time() = ToTimestamp(facts.create_time);
  out.set_size_bytes(facts.size_bytes);
}

void ToMessage(const HistoryPart& part, v1::SessionHistory& out) {
  out.set_first_index(part.first);
  out.mutable_tokens()->Add(part.tokens.begin(), part.tokens.end());
  out.set_text(part.text);
  out.mutable_byte_offsets()->Add(part.byte_offsets.begin(), part.byte_offsets.end());
  out.set_token_count(part.size);
}

void ToMessage(const SessionFacts& facts, v1::Session& out) {
  out.set_name(SessionResource(facts.id));
  out.set_model(ModelResource(facts.model));
  out.set_state(ToState(facts.state));
  out.set_token_count(facts.position);
  out.set_state_size_bytes(facts.state_size_bytes);
  *out.mutable_create_time() = ToTimestamp(facts.create_time);
  *out.mutable_last_use_time() = ToTimestamp(facts.last_use_time);
  if (facts.expire_time) *out.mutable_expire_time() = ToTimestamp(*facts.expire_time);
  out.set_etag(facts.etag);
  if (!facts.parent.empty()) out.set_parent(SessionResource(facts.parent));
  out.set_rebuilt(facts.rebuilt);
  out.set_paused(facts.paused);
  if (facts.sampling) ToMessage(*facts.sampling, *out.mutable_sampling());
  out.set_durability(ToDurability(facts.durability));
  out.set_tier(ToTier(facts.tier));
  out.set_model_id(facts.model_id);
  out.set_numerics_id(facts.numerics_id);
  ReserveMore(facts.checkpoints.size(), *out.mutable_checkpoints());
  for (const CheckpointFacts& checkpoint : facts.checkpoints) {
    ToMessage(checkpoint, *out.add_checkpoints());
  }
}

}  // namespace mnemon
