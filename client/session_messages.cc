// SPDX-License-Identifier: MIT
#include "client/session_messages.h"

#include <bit>

#include "client/messages.h"

namespace mnemon::client {
namespace {

using std::chrono::duration_cast;
using std::chrono::microseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

// Times from an untrusted server beyond these, in the years 1684 and 2255, are ignored:
// a SystemTime cannot hold much more.
constexpr int64_t kMostSeconds = 9'000'000'000;

std::optional<SystemTime> ToTime(bool there, const google::protobuf::Timestamp& time) {
  if (!there || time.seconds() < -kMostSeconds || time.seconds() > kMostSeconds) {
    return std::nullopt;
  }
  return SystemTime(duration_cast<SystemTime::duration>(seconds(time.seconds()) +
                                                        nanoseconds(time.nanos())));
}

void SetTime(SystemTime time, google::protobuf::Timestamp& out) {
  const auto whole = std::chrono::floor<seconds>(time);
  out.set_seconds(whole.time_since_epoch().count());
  out.set_nanos(static_cast<int32_t>(duration_cast<nanoseconds>(time - whole).count()));
}

v1::Session::Durability ToMessage(Durability durability) {
  switch (durability) {
    case Durability::kServerDefault:
      break;
    case Durability::kNone:
      return v1::Session::NONE;
    case Durability::kTurn:
      return v1::Session::TURN;
    case Durability::kAlways:
      return v1::Session::ALWAYS;
  }
  return v1::Session::DURABILITY_UNSPECIFIED;
}

// Fields of all calls that create or change a session.
template <class Options>
void SetChoices(const Options& options, v1::Session& session) {
  if (options.expire_time) {
    SetTime(*options.expire_time, *session.mutable_expire_time());
  } else if (options.ttl) {
    SetDuration(*options.ttl, *session.mutable_ttl());
  }
  if (options.durability) session.set_durability(ToMessage(*options.durability));
  if (options.sampling) SetSampling(*options.sampling, *session.mutable_sampling());
}

// "IDLE"; empty if unknown to this client, or unspecified.
std::string NameOf(const std::string& name, int value) {
  return value == 0 ? "" : name;
}

SamplingOptions FromMessage(const v1::Sampling& message) {
  SamplingOptions sampling;
  const auto take = [](bool there, auto value, auto& field) {
    if (there) field = value;
  };
  take(message.has_temperature(), message.temperature(), sampling.temperature);
  take(message.has_top_k(), message.top_k(), sampling.top_k);
  take(message.has_top_p(), message.top_p(), sampling.top_p);
  take(message.has_min_p(), message.min_p(), sampling.min_p);
  take(message.has_typical_p(), message.typical_p(), sampling.typical_p);
  take(message.has_repetition_penalty(), message.repetition_penalty(),
       sampling.repetition_penalty);
  take(message.has_frequency_penalty(), message.frequency_penalty(),
       sampling.frequency_penalty);
  take(message.has_presence_penalty(), message.presence_penalty(),
       sampling.presence_penalty);
  take(message.has_penalty_window_tokens(), message.penalty_window_tokens(),
       sampling.penalty_window_tokens);
  for (const v1::LogitBias& one : message.logit_bias()) {
    sampling.logit_bias.push_back({.token = one.token_id(), .bias = one.bias()});
  }
  take(message.has_seed(), std::bit_cast<uint64_t>(message.seed()), sampling.seed);
  return sampling;
}

}  // namespace

v1::CreateSessionRequest ToMessage(const CreateSessionOptions& options) {
  v1::CreateSessionRequest request;
  request.set_session_id(LastPart(options.id));
  request.set_request_id(options.request_id);
  v1::Session& session = *request.mutable_session();
  session.set_model(ModelResource(options.model));
  session.set_paused(options.paused);
  SetChoices(options, session);
  return request;
}

v1::UpdateSessionRequest ToMessage(const UpdateSessionOptions& options) {
  v1::UpdateSessionRequest request;
  v1::Session& session = *request.mutable_session();
  session.set_name(SessionResource(options.id));
  session.set_etag(options.etag);
  if (options.paused) session.set_paused(*options.paused);
  SetChoices(options, session);
  for (const std::string& field : options.fields) {
    request.mutable_update_mask()->add_paths(field);
  }
  return request;
}

v1::ForkSessionRequest ToMessage(const ForkSessionOptions& options) {
  v1::ForkSessionRequest request;
  request.set_name(SessionResource(options.parent));
  request.set_session_id(LastPart(options.id));
  request.set_request_id(options.request_id);
  if (options.position) request.set_token_count(*options.position);
  SetChoices(options, *request.mutable_session());
  return request;
}

v1::RewindSessionRequest ToMessage(const RewindSessionOptions& options) {
  v1::RewindSessionRequest request;
  request.set_name(SessionResource(options.id));
  request.set_etag(options.etag);
  if (options.position) {
    request.set_token_count(*options.position);
  } else {
    request.set_checkpoint_id(options.checkpoint);
  }
  return request;
}

v1::ImportSessionRequest ToMessage(const ImportSessionOptions& options) {
  v1::ImportSessionRequest request;
  v1::ImportSessionRequest::Open& open = *request.mutable_open();
  open.set_session_id(LastPart(options.id));
  open.set_request_id(options.request_id);
  open.set_size_bytes(options.size_bytes);
  open.mutable_session()->set_model(ModelResource(options.model));
  SetChoices(options, *open.mutable_session());
  return request;
}

Session FromMessage(const v1::Session& message) {
  Session session{
      .id = LastPart(message.name()),
      .model = LastPart(message.model()),
      .state = NameOf(v1::Session::State_Name(message.state()), message.state()),
      .position = message.token_count(),
      .state_size_bytes = message.state_size_bytes(),
      .create_time = ToTime(message.has_create_time(), message.create_time()),
      .last_use_time = ToTime(message.has_last_use_time(), message.last_use_time()),
      .expire_time = ToTime(message.has_expire_time(), message.expire_time()),
      .etag = message.etag(),
      .parent = LastPart(message.parent()),
      .rebuilt = message.rebuilt(),
      .durability = NameOf(v1::Session::Durability_Name(message.durability()),
                           message.durability()),
      .sampling = FromMessage(message.sampling()),
      .paused = message.paused(),
      .tier = NameOf(v1::Session::Tier_Name(message.tier()), message.tier()),
      .model_id = message.model_id(),
      .numerics_id = message.numerics_id(),
      .checkpoints = {}};
  for (const v1::Checkpoint& one : message.checkpoints()) {
    session.checkpoints.push_back(FromMessage(one));
  }
  return session;
}

SessionCheckpoint FromMessage(const v1::Checkpoint& message) {
  return {.id = message.checkpoint_id(),
          .position = message.token_count(),
          .size_bytes = message.size_bytes(),
          .create_time = ToTime(message.has_create_time(), message.create_time())};
}

Verification FromMessage(const v1::VerifySessionResponse& message) {
  Verification result{.stored_form_valid = message.stored_form_valid(),
                      .replay_equal = std::nullopt,
                      .position = message.token_count(),
                      .state_size_bytes = message.state_size_bytes(),
                      .first_difference = message.first_difference()};
  if (message.has_replay_equal()) result.replay_equal = message.replay_equal();
  return result;
}

}  // namespace mnemon::client
