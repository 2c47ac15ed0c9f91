// SPDX-License-Identifier: MIT
// What the engine thread does.
#include <algorithm>
#include <exception>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/engine/engine_core.h"

namespace mnemon {
namespace {

// A clock need not run with the machine's: expiry is looked at this often.
constexpr std::chrono::milliseconds kLongestNap{1000};

const ModelConfig& ConfigOf(const EngineModel& model) {
  return model.decoder ? model.decoder->config() : model.predictor->config();
}

int64_t ContextOf(const EngineModel& model) {
  if (model.predictor) return model.predictor->max_positions();
  const int64_t state = model.decoder->spec().max_positions();
  return std::min(state, model.facts.context_limit.value_or(state));
}

int64_t CapacityOf(const StateArena& arena) {
  const StateSpec& spec = arena.spec();
  const int64_t block_bytes = static_cast<int64_t>(sizeof(float)) *
                              spec.row_elements() * StepBudget{}.block_positions;
  return arena.slots() * spec.bytes_at(0) + arena.blocks() * block_bytes;
}

absl::Status NoFreeBlocks() {
  return MakeError(
      absl::StatusCode::kResourceExhausted,
      "no memory is left for the growing state of sessions",
      {.reason = "NO_FREE_BLOCKS", .retry_after = std::chrono::milliseconds(1000)});
}

}  // namespace

Lane::Lane(size_t its_index, const EngineModel& served,
           std::unique_ptr<StateArena> its_arena)
    : index(its_index),
      model(served),
      vocab(ConfigOf(served).vocab),
      context(ContextOf(served)),
      capacity_bytes(its_arena ? CapacityOf(*its_arena) : 0),
      arena(std::move(its_arena)) {
  if (served.decoder) stepper.emplace(*served.decoder, *arena);
}

ModelStats Lane::StatsLocked() const {
  const auto named = [](const std::vector<std::shared_ptr<Call>>& calls) {
    return std::count_if(calls.begin(), calls.end(),
                         [](const auto& call) { return !call->stateless(); });
  };
  return {.model = model.facts.name,
          .architecture = model.facts.architecture,
          .running = static_cast<int64_t>(starting.size() + running.size()),
          .waiting = static_cast<int64_t>(queue.size() + jobs.size()),
          .sessions_queued = named(starting),
          .sessions_running = named(running) + named(delivering),
          .state_bytes = state_bytes,
          .state_capacity_bytes = capacity_bytes};
}

void EngineCore::Run() {
  bool more = false;
  while (AwaitWork(more)) {
    more = false;
    for (const auto& lane : lanes_) {
      try {
        more |= Round(*lane);
      } catch (const std::exception& e) {
        // Memory ran out in the bookkeeping: these calls end, the engine lives.
        LogEvent(LogLevel::kError, "engine_round_failed", {{"error", e.what()}});
        EndAll(*lane, MakeError(absl::StatusCode::kResourceExhausted,
                                "the engine ran out of resources",
                                {.reason = "OUT_OF_MEMORY"}));
      }
    }
  }
  for (const auto& lane : lanes_) {
    EndAll(*lane, MakeError(absl::StatusCode::kUnavailable, "the server is stopping",
                            {.reason = "DRAINING"}));
  }
}

bool EngineCore::AwaitWork(bool more) {
  std::unique_lock lock(mutex_);
  DropExpiredLocked();
  while (!more && !wake_) {
    in_round_ = false;
    idle_.notify_all();
    const auto due = NextDueLocked();
    if (!due) {
      work_.wait(lock);
    } else if (const auto left = *due - options_.clock->Now(); left.count() > 0) {
      work_.wait_for(lock, std::clamp<std::chrono::nanoseconds>(
                               left, std::chrono::milliseconds(1), kLongestNap));
    } else {
      wake_ = true;
    }
    DropExpiredLocked();
  }
  in_round_ = true;
  wake_ = false;
  return !stopping_;
}

std::optional<std::chrono::steady_clock::time_point> EngineCore::NextDueLocked() const {
  auto due = table_.NextExpiry();
  for (const auto& lane : lanes_) {
    for (const auto& call : lane->running) {
      if (const auto end = call->time_up(); end && (!due || *end < *due)) due = end;
    }
  }
  return due;
}

bool EngineCore::Round(Lane& lane) {
  if (lane.model.predictor) return PredictRound(lane);
  bool told;
  {
    Lock lock(mutex_);
    CollectLocked(lane);
    AdmitLocked(lane);
    TakeInputsLocked(lane);
    PlanLocked(lane);
    lane.state_bytes = lane.arena->bytes_used();
    told = !out_.empty();
  }
  out_.Send();
  if (lane.feeds.empty()) return told;

  // Those that were part of a failed step come last, each in a step of its own.
  const auto together = std::stable_partition(
      lane.feeds.begin(), lane.feeds.end(),
      [](const Feed& feed) { return feed.position >= feed.call->alone_until; });
  const std::span feeds(lane.feeds);
  const size_t count = together - lane.feeds.begin();
  if (count > 0) RunStep(lane, feeds.first(count));
  for (size_t i = count; i < feeds.size(); ++i) RunStep(lane, feeds.subspan(i, 1));
  {
    Lock lock(mutex_);
    steps_ += static_cast<int64_t>(feeds.size() - count + (count > 0));
    CommitLocked(lane);
  }
  out_.Send();
  return true;
}

void EngineCore::RunStep(Lane& lane, std::span<Feed> feeds) {
  if (!options_.observer) return lane.stepper->Run(feeds);
  const auto start = options_.clock->Now();
  lane.stepper->Run(feeds);
  options_.observer->OnStep(lane.index, static_cast<int64_t>(feeds.size()),
                            options_.clock->Now() - start);
}

void EngineCore::CollectLocked(Lane& lane) {
  for (const auto& session : lane.to_release) session->state.Release(*lane.arena);
  lane.to_release.clear();
  for (const auto& session : lane.to_settle) {
    // Deleted meanwhile: it holds no slot any more.
    if (!session->state.held()) continue;
    session->state.Settle(*lane.arena, static_cast<int64_t>(session->history.size()));
    UpdateBytesLocked(lane, *session);
  }
  lane.to_settle.clear();
  for (size_t i = lane.running.size(); i-- > 0;) {
    const std::shared_ptr<Call> call = lane.running[i];
    if (!call->abort.ok()) {
      EndLocked(lane, call, call->abort);
    } else if (call->stream->cancelled()) {
      EndLocked(lane, call, absl::CancelledError("call cancelled"));
    } else if (const auto end = call->time_up(); end && *end <= options_.clock->Now()) {
      EndLocked(lane, call, absl::OkStatus(),
                FinishFacts{.reason = FinishReason::kTimeLimit,
                            .generated_tokens = call->generated});
    }
  }
}

void EngineCore::AdmitLocked(Lane& lane) {
  // Ending one may put another on the list.
  for (size_t i = 0; i < lane.starting.size(); ++i) {
    const std::shared_ptr<Call> call = lane.starting[i];
    TakeUpLocked(lane, call);
    if (!call->abort.ok()) {
      EndLocked(lane, call, call->abort);
      continue;
    }
    if (call->stream->cancelled()) {
      EndLocked(lane, call, absl::CancelledError("call cancelled"));
      continue;
    }
    const absl::Status status =
        call->scoring ? AdmitScoringLocked(lane, *call) : AdmitCallLocked(lane, call);
    if (!status.ok()) {
      EndLocked(lane, call, status);
    } else if (!call->scoring &&
               call->to_feed() <= call->session->state.fed(*lane.arena)) {
      EndLocked(lane, call, absl::OkStatus(), FinishFacts{});
    }
  }
  lane.starting.clear();
}

void EngineCore::TakeUpLocked(Lane& lane, const std::shared_ptr<Call>& call) {
  lane.running.push_back(call);
  call->phase = Call::Phase::kRunning;
  call->prompt_end = static_cast<int64_t>(call->session->history.size());
  call->admission = options_.clock->Now();
}

absl::Status EngineCore::AdmitCallLocked(Lane& lane,
                                         const std::shared_ptr<Call>& call) {
  Session& session = *call->session;
  MNEMON_RETURN_IF_ERROR(session.state.Acquire(*lane.arena));
  const int64_t before = static_cast<int64_t>(session.history.size());
  const int64_t prompt = static_cast<int64_t>(call->prompt.size());
  // A prompt that cannot be fed to its end would only take blocks from those that run.
  int64_t needed =
      BlocksFor(lane, session, before + prompt - session.state.fed(*lane.arena));
  for (const auto& other : lane.running) {
    if (other == call) continue;
    needed += BlocksFor(lane, *other->session,
                        other->to_feed() - other->session->state.fed(*lane.arena));
  }
  if (needed > lane.arena->blocks() - lane.arena->blocks_used()) return NoFreeBlocks();

  session.history.insert(session.history.end(), call->prompt.begin(),
                         call->prompt.end());
  call->prompt = {};
  if (!call->request_id.empty()) {
    session.requests.push_back(call->request_id);
    if (session.requests.size() > Session::kRequests) session.requests.pop_front();
  }
  call->prompt_end = before + prompt;
  out_.Start(call->stream, {.first_index = before,
                            .prompt_tokens = prompt,
                            .seed = call->sampling.seed,
                            .queue_time = call->admission - call->arrival,
                            .resumed_tokens = session.state.fed(*lane.arena)});
  return absl::OkStatus();
}

int64_t EngineCore::BlocksFor(const Lane& lane, const Session& session,
                              int64_t tokens) const {
  const StateArena& arena = *lane.arena;
  const int32_t slot = session.state.slot();
  int64_t blocks = arena.BlocksNeeded(slot, tokens);
  if (arena.spec().growth() == Growth::kRing) {
    // Its oldest blocks come back on the way.
    const StepBudget budget;
    const int64_t oldest =
        arena.length(slot) + tokens - arena.spec().capacity() - budget.chunk;
    blocks -= std::clamp<int64_t>(
        (oldest - arena.first_held(slot)) / budget.block_positions, 0, blocks);
  }
  return blocks;
}

void EngineCore::PlanLocked(Lane& lane) {
  StateArena& arena = *lane.arena;
  for (const auto& call : lane.running) {
    call->session->state.LetGo(arena, call->kept());
  }
  StepBudget budget{.tokens = options_.step_tokens,
                    .blocks = arena.blocks() - arena.blocks_used()};
  lane.candidates.clear();
  lane.feeds.clear();
  for (const auto& call : lane.running) {
    const SlotState& state = call->session->state;
    Candidate candidate;
    candidate.unfed = state.Feedable(arena, call->to_feed(), call->kept());
    if (call->scoring) {
      candidate.unfed = std::min<int64_t>(candidate.unfed, call->stream->space());
    }
    candidate.paused = candidate.unfed <= 0 || call->stream->space() == 0;
    if (arena.spec().growing()) {
      candidate.free_in_block =
          arena.BlocksNeeded(state.slot(), 1) > 0
              ? 0
              : budget.block_positions - state.fed(arena) % budget.block_positions;
    }
    lane.candidates.push_back(candidate);
  }
  const std::vector<Planned> plan = PlanStep(lane.candidates, lane.last_served, budget);
  std::vector<std::shared_ptr<Call>> starved;
  for (const Planned& planned : plan) {
    const std::shared_ptr<Call>& call = lane.running[planned.candidate];
    if (planned.tokens == 0) {
      starved.push_back(call);
      continue;
    }
    if (planned.tokens > 1) lane.last_served = planned.candidate;
    lane.feeds.push_back({.call = call,
                          .position = call->session->state.fed(arena),
                          .count = planned.tokens,
                          .kept = call->kept()});
  }
  for (const auto& call : starved) EndLocked(lane, call, NoFreeBlocks());
}

void EngineCore::CommitLocked(Lane& lane) {
  for (const Feed& feed : lane.feeds) CommitFeedLocked(lane, feed);
  lane.feeds.clear();
  lane.state_bytes = lane.arena->bytes_used();
}

void EngineCore::CommitFeedLocked(Lane& lane, const Feed& feed) {
  const std::shared_ptr<Call>& call = feed.call;
  Session& session = *call->session;
  if (feed.fed) tokens_fed_ += feed.count;
  UpdateBytesLocked(lane, session);
  if (!feed.status.ok()) {
    EndLocked(lane, call, feed.status);
    return;
  }
  if (call->scoring) {
    CommitJudgedLocked(feed);
    return;
  }
  if (call->max_tokens == 0) {
    if (session.state.fed(*lane.arena) >= call->to_feed()) {
      EndLocked(lane, call, absl::OkStatus(), FinishFacts{});
    }
    return;
  }
  if (!feed.token) return;
  if (!call->prompt_done) call->prompt_done = options_.clock->Now();

  const int32_t token = *feed.token;
  const int64_t index = static_cast<int64_t>(session.history.size());
  session.history.push_back(token);
  ++call->generated;
  ++tokens_generated_;
  out_.Push(call->stream, index, token, feed.logprobs);
  FinishFacts facts{.generated_tokens = call->generated};
  if (std::binary_search(call->stop_tokens.begin(), call->stop_tokens.end(), token)) {
    facts.reason = FinishReason::kStopToken;
    facts.stop_token = token;
  } else if (call->stop_watch && (facts.stop_string = call->stop_watch->Push(token))) {
    facts.reason = FinishReason::kStopString;
  } else if (call->generated >= call->max_tokens) {
    facts.reason = FinishReason::kMaxTokens;
  } else if (index >= lane.context) {
    facts.reason = FinishReason::kContextLimit;
  } else {
    return;
  }
  EndLocked(lane, call, absl::OkStatus(), facts);
}

std::optional<FinishFacts> EngineCore::Timed(const Call& call,
                                             std::optional<FinishFacts> facts) const {
  if (!facts) return facts;
  const auto now = options_.clock->Now();
  const auto prompt_done = call.prompt_done.value_or(now);
  facts->prompt_time = prompt_done - call.admission;
  facts->generation_time = now - prompt_done;
  return facts;
}

void EngineCore::EndLocked(Lane& lane, std::shared_ptr<Call> call, absl::Status status,
                           const std::optional<FinishFacts>& facts) {
  const std::shared_ptr<Session> session = call->session;
  // Whether it was cancelled is seen here or, in a later phase, by OnStreamEvent.
  const bool cancelled = call->stream->cancelled();
  if (cancelled) CutHistoryLocked(*call);
  std::erase(lane.running, call);
  out_.Finish(call->stream, std::move(status), Timed(*call, facts));
  if (call->stateless() || session->deleted) {
    session->state.Release(*lane.arena);
    session->call = nullptr;
    call->phase = Call::Phase::kOver;
    if (call->stateless()) {
      --lane.stateless;
      FreePlaceLocked(lane);
    }
    return;
  }
  session->state.CutBack(*lane.arena, static_cast<int64_t>(session->history.size()));
  UpdateBytesLocked(lane, *session);
  if (cancelled) {
    ReleaseSessionLocked(lane, *call);
  } else {
    call->phase = Call::Phase::kDelivering;
    lane.delivering.push_back(std::move(call));
  }
}

void EngineCore::EndAll(Lane& lane, const absl::Status& status) {
  {
    Lock lock(mutex_);
    lane.feeds.clear();
    while (!lane.queue.empty()) {
      lane.queue.front()->phase = Call::Phase::kOver;
      out_.Finish(lane.queue.front()->stream, status);
      lane.queue.pop_front();
      --queued_;
    }
    for (const auto& call : lane.starting) {
      if (call->phase == Call::Phase::kStarting) TakeUpLocked(lane, call);
    }
    lane.starting.clear();
    while (!lane.running.empty()) EndLocked(lane, lane.running.back(), status);
  }
  out_.Send();
  while (const auto job = NextJob(lane)) job->on_done(status);
}

void EngineCore::UpdateBytesLocked(Lane& lane, Session& session) {
  session.state_bytes = session.state.bytes(*lane.arena);
}

}  // namespace mnemon
