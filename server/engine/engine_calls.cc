// SPDX-License-Identifier: MIT
// What any thread may ask of the engine.
#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include <sys/random.h>

#include "base/check.h"
#include "base/error.h"
#include "base/quote.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/engine/engine_core.h"
#include "server/engine/engine_errors.h"
#include "server/engine/request_check.h"
#include "server/engine/text_calls.h"

namespace mnemon {
namespace {

using engine_errors::ContextLimit;
using engine_errors::Draining;
using engine_errors::NotFound;
using engine_errors::OutOfMemory;
using engine_errors::QueueFull;
using engine_errors::RequestIdReused;
using engine_errors::RequestRepeated;
using engine_errors::SessionBusy;
using engine_errors::SessionExists;
using engine_errors::SessionExpired;
using engine_errors::SessionLimit;
using engine_errors::WrongKind;

constexpr int32_t kPageSize = 100;
constexpr int32_t kMaxPageSize = 1000;
// A page token is this and the last id of the page before.
constexpr std::string_view kPageTokenPrefix = "after.";

void FillRandom(void* bytes, size_t size) {
  ssize_t got;
  do {
    got = getrandom(bytes, size, 0);
  } while (got < 0 && errno == EINTR);
  MNEMON_CHECK(got == static_cast<ssize_t>(size));
}

uint64_t SeedFor(const std::string& request_id) {
  uint64_t seed;
  if (!request_id.empty()) {
    return std::stoull(Sha256Hex(request_id).substr(0, 16), nullptr, 16);
  }
  FillRandom(&seed, sizeof(seed));
  return seed;
}

std::string RandomId() {
  unsigned char bytes[16];
  FillRandom(bytes, sizeof(bytes));
  std::string id;
  for (unsigned char byte : bytes) {
    id += "0123456789abcdef"[byte >> 4];
    id += "0123456789abcdef"[byte & 15];
  }
  return id;
}

}  // namespace

EngineCore::EngineCore(std::vector<std::unique_ptr<Lane>> lanes,
                       const Engine::Options& options)
    : options_(options), lanes_(std::move(lanes)) {}

std::vector<ModelFacts> EngineCore::ListModels() const {
  std::vector<ModelFacts> facts;
  for (const auto& lane : lanes_) facts.push_back(lane->model.facts);
  return facts;
}

absl::StatusOr<ModelFacts> EngineCore::GetModel(const std::string& name) const {
  MNEMON_ASSIGN_OR_RETURN(const size_t lane, LaneIndex(name));
  return lanes_[lane]->model.facts;
}

absl::StatusOr<size_t> EngineCore::LaneIndex(const std::string& name) const {
  std::vector<std::string> names;
  for (size_t i = 0; i < lanes_.size(); ++i) {
    names.push_back(lanes_[i]->model.facts.name);
    if (names.back() == name || (name.empty() && lanes_.size() == 1)) return i;
  }
  if (name.empty()) {
    return InvalidField("model", StrCat("several models are loaded, name one of ",
                                        StrJoin(names, ", ")));
  }
  return MakeError(
      absl::StatusCode::kNotFound,
      StrCat("model ", Quoted(name), " is not loaded; there is ", StrJoin(names, ", ")),
      {.reason = "MODEL_NOT_FOUND", .field = "model"});
}

absl::StatusOr<size_t> EngineCore::DecoderLane(const std::string& name) const {
  MNEMON_ASSIGN_OR_RETURN(const size_t index, LaneIndex(name));
  const EngineModel& model = lanes_[index]->model;
  if (model.decoder) return index;
  return WrongKind(model.facts.name, "takes whole sequences: use Predict");
}

absl::StatusOr<SessionFacts> EngineCore::CreateSession(
    const CreateSessionRequest& request) try {
  if (!request.id.empty()) {
    MNEMON_RETURN_IF_ERROR(CheckSessionId(request.id, "session_id"));
  }
  MNEMON_RETURN_IF_ERROR(CheckRequestId(request.request_id));
  MNEMON_RETURN_IF_ERROR(CheckTtl(request.ttl));
  MNEMON_ASSIGN_OR_RETURN(const size_t index, DecoderLane(request.model));
  auto session = std::make_shared<Session>();
  session->id = request.id.empty() ? RandomId() : request.id;
  session->lane = index;
  session->ttl = request.ttl;
  session->request_id = request.request_id;

  Lock lock(mutex_);
  if (draining_) return Draining();
  DropExpiredLocked();
  if (const auto made = table_.FindRequest(request.request_id)) {
    const bool same = (request.id.empty() || request.id == made->id) &&
                      made->lane == index && made->ttl == request.ttl;
    if (!same) return RequestIdReused(made->id);
    return FactsLocked(*made);
  }
  if (table_.Find(session->id)) return SessionExists(session->id);
  Lane& lane = *lanes_[index];
  if (lane.places >= options_.sessions) return SessionLimit(options_.sessions);
  session->create_time = session->last_use_time = options_.clock->WallNow();
  table_.Insert(session);
  table_.Rest(*session, options_.clock->Now());
  ++lane.places;
  ++sessions_created_;
  // The engine thread's nap may have to end sooner now.
  if (session->expiry) WakeLocked();
  return FactsLocked(*session);
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

absl::StatusOr<SessionFacts> EngineCore::GetSession(const std::string& id) {
  MNEMON_RETURN_IF_ERROR(CheckSessionId(id, "name"));
  Lock lock(mutex_);
  MNEMON_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, FindLocked(id));
  return FactsLocked(*session);
}

absl::StatusOr<SessionPage> EngineCore::ListSessions(int32_t page_size,
                                                     const std::string& page_token) {
  if (page_size < 0) {
    return InvalidField("page_size",
                        StrCat("page_size must not be negative, got ", page_size));
  }
  std::string after;
  if (!page_token.empty()) {
    if (page_token.rfind(kPageTokenPrefix, 0) == 0) {
      after = page_token.substr(kPageTokenPrefix.size());
    }
    if (!CheckSessionId(after, "page_token").ok()) {
      return InvalidField("page_token",
                          StrCat("not a page token: ", Quoted(page_token)));
    }
  }
  const size_t count = std::min(page_size == 0 ? kPageSize : page_size, kMaxPageSize);
  Lock lock(mutex_);
  DropExpiredLocked();
  auto found = table_.After(after, count + 1);
  SessionPage page;
  if (found.size() > count) {
    found.pop_back();
    page.next_page_token = StrCat(kPageTokenPrefix, found.back()->id);
  }
  for (const auto& session : found) page.sessions.push_back(FactsLocked(*session));
  return page;
}

absl::Status EngineCore::DeleteSession(const std::string& id) {
  MNEMON_RETURN_IF_ERROR(CheckSessionId(id, "name"));
  Lock lock(mutex_);
  MNEMON_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, FindLocked(id));
  table_.Erase(*session);
  DropLocked(session);
  return absl::OkStatus();
}

absl::StatusOr<TokenizedText> EngineCore::Tokenize(const std::string& model,
                                                   const std::string& text) const {
  MNEMON_ASSIGN_OR_RETURN(const size_t lane, LaneIndex(model));
  return mnemon::Tokenize(lanes_[lane]->model.tokenizer, text);
}

absl::StatusOr<DetokenizedText> EngineCore::Detokenize(
    const std::string& model, const std::vector<int32_t>& tokens) const {
  MNEMON_ASSIGN_OR_RETURN(const size_t lane, LaneIndex(model));
  return mnemon::Detokenize(lanes_[lane]->model.tokenizer, tokens);
}

absl::StatusOr<std::shared_ptr<TokenStream>> EngineCore::Generate(
    const GenerateRequest& request, std::function<void()> on_ready) try {
  MNEMON_ASSIGN_OR_RETURN(std::shared_ptr<Session> session,
                          SessionFor(request.session, request.model));
  const Lane& lane = *lanes_[session->lane];
  const CallLimits limits = {.vocab = lane.vocab,
                             .max_tokens = options_.max_tokens,
                             .max_prompt_tokens = options_.max_prompt_tokens};
  MNEMON_RETURN_IF_ERROR(CheckCall(request, limits));
  const Tokenizer* const tokenizer = lane.model.tokenizer;
  if (!request.stop_strings.empty() && !tokenizer)
    return NeedsTokenizer("stop_strings");

  auto call = std::make_shared<Call>();
  MNEMON_ASSIGN_OR_RETURN(call->prompt,
                          PromptTokens(request.prompt, tokenizer, limits));
  call->session = std::move(session);
  call->sampling = request.sampling;
  call->sampling.seed = request.seed ? *request.seed : SeedFor(request.request_id);
  call->max_tokens = request.max_tokens.value_or(options_.max_tokens);
  call->stop_tokens = request.stop_tokens;
  std::sort(call->stop_tokens.begin(), call->stop_tokens.end());
  if (!request.stop_strings.empty()) {
    call->stop_watch.emplace(*tokenizer, request.stop_strings);
  }
  call->time_limit = request.time_limit;
  call->logprobs = request.logprobs;
  call->request_id = request.request_id;
  OpenStream(call, tokenizer, std::move(on_ready), request.stop_strings);

  Lock lock(mutex_);
  MNEMON_RETURN_IF_ERROR(EnqueueLocked(call));
  return call->stream;
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

void EngineCore::TellRefused(const GenerateRequest& request,
                             const absl::Status& status) {
  if (!options_.observer) return;
  absl::StatusOr<size_t> lane = LaneIndex(request.model);
  if (!lane.ok()) {
    Lock lock(mutex_);
    const auto session = table_.Find(request.session);
    if (session) lane = session->lane;
  }
  options_.observer->OnRefused(lane.ok() ? std::optional(*lane) : std::nullopt, status);
}

absl::StatusOr<std::shared_ptr<Session>> EngineCore::SessionFor(
    const std::string& id, const std::string& model) {
  // Refused at once rather than after the work of encoding a prompt.
  {
    Lock lock(mutex_);
    if (draining_) return Draining();
  }
  if (id.empty()) {
    MNEMON_ASSIGN_OR_RETURN(const size_t lane, DecoderLane(model));
    auto session = std::make_shared<Session>();
    session->lane = lane;
    return session;
  }
  MNEMON_RETURN_IF_ERROR(CheckSessionId(id, "session"));
  std::shared_ptr<Session> session;
  {
    Lock lock(mutex_);
    MNEMON_ASSIGN_OR_RETURN(session, FindLocked(id));
  }
  if (model.empty()) return session;
  MNEMON_ASSIGN_OR_RETURN(const size_t lane, LaneIndex(model));
  if (lane != session->lane) {
    return MakeError(absl::StatusCode::kFailedPrecondition,
                     StrCat("session ", Quoted(id), " belongs to model ",
                            Quoted(lanes_[session->lane]->model.facts.name)),
                     {.reason = "MODEL_MISMATCH", .field = "model"});
  }
  return session;
}

absl::Status EngineCore::CheckAtRestLocked(const Session& session) const {
  if (session.deleted) return NotFound(session.id);
  if (session.call) return SessionBusy(session.id);
  return absl::OkStatus();
}

void EngineCore::OpenStream(const std::shared_ptr<Call>& call,
                            const Tokenizer* tokenizer, std::function<void()> on_ready,
                            const std::vector<std::string>& stop_strings) {
  call->arrival = options_.clock->Now();
  call->stream = std::make_shared<TokenStream>(
      tokenizer, std::move(on_ready),
      [core = weak_from_this(), weak_call = std::weak_ptr(call)] {
        const auto engine = core.lock();
        const auto event_of = weak_call.lock();
        if (engine && event_of) engine->OnStreamEvent(event_of);
      },
      stop_strings,
      // A call that judges generates nothing.
      call->scoring
          ? CallMeter()
          : CallMeter(options_.observer, *options_.clock, call->session->lane));
}

absl::Status EngineCore::EnqueueLocked(const std::shared_ptr<Call>& call) {
  Session& session = *call->session;
  Lane& lane = *lanes_[session.lane];
  if (draining_) return Draining();
  DropExpiredLocked();
  if (!call->request_id.empty() &&
      std::find(session.requests.begin(), session.requests.end(), call->request_id) !=
          session.requests.end()) {
    return RequestRepeated(session.id);
  }
  MNEMON_RETURN_IF_ERROR(CheckAtRestLocked(session));
  const int64_t tokens = static_cast<int64_t>(session.history.size());
  const int64_t prompt = static_cast<int64_t>(call->prompt.size());
  if (!call->scoring && tokens + prompt == 0) {
    return InvalidField("prompt", "a new session needs at least one token");
  }
  if (prompt > lane.context - tokens) {
    return ContextLimit(tokens, prompt, lane.context);
  }
  if (call->stateless()) {
    if (lane.places < options_.sessions) {
      lane.starting.push_back(call);
      ++lane.places;
      ++lane.stateless;
    } else if (lane.stateless == 0) {
      return SessionLimit(options_.sessions);
    } else if (queued_ >= options_.max_queue) {
      return QueueFull(queued_);
    } else {
      lane.queue.push_back(call);
      call->phase = Call::Phase::kQueued;
      ++queued_;
      return absl::OkStatus();
    }
  } else {
    lane.starting.push_back(call);
    table_.Use(session);
    session.last_use_time = options_.clock->WallNow();
  }
  session.call = call.get();
  WakeLocked();
  return absl::OkStatus();
}

void EngineCore::OnStreamEvent(const std::shared_ptr<Call>& call) {
  Outbox out;
  {
    Lock lock(mutex_);
    Lane& lane = *lanes_[call->session->lane];
    const bool cancelled = call->stream->cancelled();
    switch (call->phase) {
      case Call::Phase::kQueued:
        if (!cancelled) break;
        std::erase(lane.queue, call);
        --queued_;
        call->phase = Call::Phase::kOver;
        out.Finish(call->stream, absl::CancelledError("call cancelled"));
        break;
      case Call::Phase::kStarting:
      case Call::Phase::kRunning:
        WakeLocked();
        break;
      case Call::Phase::kDelivering:
        if (!cancelled && !call->stream->done()) break;
        if (cancelled) CutHistoryLocked(*call);
        ReleaseSessionLocked(lane, *call);
        std::erase(lane.delivering, call);
        break;
      case Call::Phase::kOver:
        break;
    }
  }
  out.Send();
}

void EngineCore::CutHistoryLocked(Call& call) {
  std::vector<int32_t>& history = call.session->history;
  history.resize(std::min<size_t>(history.size(), call.kept()));
}

void EngineCore::ReleaseSessionLocked(Lane& lane, Call& call) {
  const std::shared_ptr<Session>& session = call.session;
  call.phase = Call::Phase::kOver;
  session->call = nullptr;
  if (session->deleted) return;
  session->last_use_time = options_.clock->WallNow();
  table_.Rest(*session, options_.clock->Now());
  lane.to_settle.push_back(session);
  WakeLocked();
}

void EngineCore::DropLocked(const std::shared_ptr<Session>& session) {
  Lane& lane = *lanes_[session->lane];
  session->deleted = true;
  FreePlaceLocked(lane);
  Call* call = session->call;
  if (call && call->phase == Call::Phase::kDelivering) {
    call->phase = Call::Phase::kOver;
    session->call = nullptr;
    std::erase_if(lane.delivering, [&](const auto& c) { return c.get() == call; });
    call = nullptr;
  }
  if (call) {
    call->abort = MakeError(absl::StatusCode::kAborted, "the session was deleted",
                            {.reason = "SESSION_DELETED"});
  } else {
    lane.to_release.push_back(session);
  }
  WakeLocked();
}

void EngineCore::FreePlaceLocked(Lane& lane) {
  --lane.places;
  if (lane.queue.empty()) return;
  const std::shared_ptr<Call> next = std::move(lane.queue.front());
  lane.queue.pop_front();
  --queued_;
  ++lane.places;
  ++lane.stateless;
  next->phase = Call::Phase::kStarting;
  next->session->call = next.get();
  lane.starting.push_back(next);
  WakeLocked();
}

absl::StatusOr<std::shared_ptr<Session>> EngineCore::FindLocked(const std::string& id) {
  DropExpiredLocked();
  if (auto session = table_.Find(id)) return session;
  return table_.Expired(id) ? SessionExpired(id) : NotFound(id);
}

void EngineCore::DropExpiredLocked() {
  for (const auto& session : table_.TakeExpired(options_.clock->Now())) {
    DropLocked(session);
    ++sessions_expired_;
  }
}

SessionFacts EngineCore::FactsLocked(const Session& session) const {
  SessionFacts facts;
  facts.id = session.id;
  facts.model = lanes_[session.lane]->model.facts.name;
  if (session.call) {
    facts.state = session.call->phase == Call::Phase::kStarting
                      ? SessionState::kQueued
                      : SessionState::kRunning;
  }
  facts.position = static_cast<int64_t>(session.history.size());
  facts.state_size_bytes = session.state_bytes;
  facts.create_time = session.create_time;
  facts.last_use_time = session.last_use_time;
  if (session.expiry) {
    // From what is left, so that a jump of the wall clock moves nothing but its
    // reading.
    facts.expire_time = options_.clock->WallNow() +
                        std::chrono::duration_cast<std::chrono::milliseconds>(
                            *session.expiry - options_.clock->Now());
  }
  return facts;
}

void EngineCore::Drain() {
  Lock lock(mutex_);
  draining_ = true;
}

bool EngineCore::WaitIdle(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  return idle_.wait_for(lock, timeout, [&] { return IdleLocked(); });
}

EngineStats EngineCore::Stats() {
  Lock lock(mutex_);
  EngineStats stats;
  stats.queued = queued_;
  stats.sessions = table_.size();
  stats.max_queued = options_.max_queue;
  stats.draining = draining_;
  for (const auto& lane : lanes_) {
    stats.models.push_back(lane->StatsLocked());
    stats.running += stats.models.back().running;
    stats.state_bytes += lane->state_bytes;
  }
  stats.steps = steps_;
  stats.tokens_fed = tokens_fed_;
  stats.tokens_generated = tokens_generated_;
  stats.sessions_created = sessions_created_;
  stats.sessions_expired = sessions_expired_;
  return stats;
}

void EngineCore::Stop() {
  Lock lock(mutex_);
  draining_ = true;
  stopping_ = true;
  WakeLocked();
}

void EngineCore::WakeLocked() {
  wake_ = true;
  work_.notify_one();
}

bool EngineCore::IdleLocked() const {
  if (in_round_ || wake_) return false;
  return std::all_of(lanes_.begin(), lanes_.end(), [](const auto& lane) {
    return lane->queue.empty() && lane->starting.empty() && lane->running.empty() &&
           lane->jobs.empty();
  });
}

}  // namespace mnemon
