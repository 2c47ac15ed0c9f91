// SPDX-License-Identifier: MIT
// Making and ending an engine, and the calls that run a model.
#include "server/engine/engine.h"

#include <algorithm>
#include <limits>
#include <new>
#include <set>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/out_of_memory.h"
#include "base/quote.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/engine/conversation_prompt.h"
#include "server/engine/engine_errors.h"
#include "server/engine/introspection_limits.h"
#include "server/engine/random.h"
#include "server/engine/request_check.h"

namespace mnemon {
namespace {

// What one answer of Predict may hold: a client takes messages of 4 MiB unless it was
// made otherwise.
constexpr int64_t kMaxFloats = (int64_t{4} << 20) / sizeof(float) - 1024;

// Tokens that a call generates without its history's memory growing.
constexpr int64_t kMostReserved = 512;

// Tokens of a prompt for which there is always memory, unless that is really gone.
constexpr int64_t kShortPrompt = 512;

uint64_t SeedFor(const std::string& request_id) {
  if (request_id.empty()) return RandomNumber();
  return std::stoull(Sha256Hex(request_id).substr(0, 16), nullptr, 16);
}

absl::Status AtLeast(int64_t least, int64_t value, const std::string& option) {
  if (value >= least) return absl::OkStatus();
  return InvalidField(option,
                      StrCat(option, " must be at least ", least, ", got ", value));
}

absl::Status CheckOptions(const Engine::Options& options) {
  MNEMON_RETURN_IF_ERROR(AtLeast(1, options.sessions, "sessions"));
  MNEMON_RETURN_IF_ERROR(AtLeast(1, options.running, "running"));
  MNEMON_RETURN_IF_ERROR(AtLeast(0, options.max_queue, "max_queue"));
  MNEMON_RETURN_IF_ERROR(AtLeast(1, options.queue_bytes, "queue_bytes"));
  MNEMON_RETURN_IF_ERROR(AtLeast(1, options.max_wait.count(), "max_wait"));
  MNEMON_RETURN_IF_ERROR(AtLeast(1, options.max_tokens, "max_tokens"));
  MNEMON_RETURN_IF_ERROR(AtLeast(1, options.max_prompt_tokens, "max_prompt_tokens"));
  MNEMON_RETURN_IF_ERROR(AtLeast(1, options.idle_timeout.count(), "idle_timeout"));
  MNEMON_RETURN_IF_ERROR(AtLeast(1, options.state_bytes, "state_bytes"));
  MNEMON_RETURN_IF_ERROR(AtLeast(1, options.memory_bytes, "memory_bytes"));
  MNEMON_RETURN_IF_ERROR(AtLeast(1, options.step_tokens, "step_tokens"));
  MNEMON_RETURN_IF_ERROR(AtLeast(1, options.callback_threads, "callback_threads"));
  MNEMON_RETURN_IF_ERROR(CheckTtl(options.session_ttl));
  MNEMON_RETURN_IF_ERROR(CheckTtl(options.max_session_ttl));
  if (options.session_ttl && options.max_session_ttl &&
      *options.session_ttl > *options.max_session_ttl) {
    return InvalidField("session_ttl", "session_ttl is above max_session_ttl");
  }
  if (!options.clock) return InvalidField("clock", "the engine needs a clock");
  return absl::OkStatus();
}

absl::Status CheckModels(const std::vector<EngineModel>& models) {
  if (models.empty()) return InvalidField("models", "the engine needs a model");
  std::set<std::string> names;
  for (const EngineModel& model : models) {
    if (!names.insert(model.facts.name).second) {
      return InvalidField("models",
                          StrCat("two models have the name '", model.facts.name, "'"));
    }
    if ((model.decoder == nullptr) == (model.predictor == nullptr)) {
      return InvalidField("models", StrCat("model '", model.facts.name,
                                           "' needs a decoder or a predictor"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckCost(const PredictCost& cost, const Engine::Options& options) {
  if (cost.multiply_adds <= options.max_predict_multiply_adds &&
      cost.peak_bytes <= options.max_predict_bytes) {
    return absl::OkStatus();
  }
  return InvalidField(
      "tokens",
      StrCat("the prediction takes ", cost.multiply_adds, " multiply-adds and ",
             cost.peak_bytes, " bytes, at most ", options.max_predict_multiply_adds,
             " and ", options.max_predict_bytes, ": send fewer or shorter sequences"));
}

// Of all blocks of attention.
int64_t HeadsOf(const ModelDescription& model) {
  int64_t heads = 0;
  for (const std::vector<SubLayer>& layer : model.layers) {
    for (const SubLayer& sub : layer) {
      if (const auto* found = std::get_if<Attention>(&sub.block)) heads += found->heads;
    }
  }
  return heads;
}

absl::Status CheckAnswer(int64_t tokens, const Predictor::Input& input,
                         const ModelDescription& model) {
  const int64_t time = tokens / input.batch;
  // Each factor was checked before, so no product overflows.
  int64_t floats = tokens * model.vocab;
  if (input.maps != AttentionMaps::kNone) floats += HeadsOf(model) * tokens * time;
  if (floats <= kMaxFloats) return absl::OkStatus();
  return InvalidField(
      "tokens", StrCat("the answer would hold ", floats, " numbers, at most ",
                       kMaxFloats, " fit into one message: send fewer sequences"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(std::vector<EngineModel> models,
                                                       const Options& options) {
  MNEMON_RETURN_IF_ERROR(CheckOptions(options));
  MNEMON_RETURN_IF_ERROR(CheckModels(models));
  try {
    std::vector<int64_t> vocabs;
    for (const EngineModel& model : models) {
      vocabs.push_back(model.decoder ? model.decoder->model().vocab : 0);
    }
    std::unique_ptr<Engine> engine(new Engine(options, vocabs));
    if (options.store != nullptr) {
      engine->persistence_ = std::make_shared<SessionPersistence>(
          *engine->context_, *options.store, models);
      engine->context_->persistence = engine->persistence_.get();
    }
    MNEMON_RETURN_IF_ERROR(engine->StartRunners(models));
    return engine;
  } catch (const std::system_error&) {
    return absl::ResourceExhaustedError("the threads of the engine cannot be started");
  }
}

Engine::Engine(const Options& options, const std::vector<int64_t>& vocabs)
    : context_(std::make_shared<EngineContext>(options, vocabs)) {}

absl::Status Engine::StartRunners(const std::vector<EngineModel>& models) {
  for (size_t i = 0; i < models.size(); ++i) {
    Runner runner;
    if (models[i].decoder) {
      MNEMON_ASSIGN_OR_RETURN(runner.decoder,
                              ModelRunner::Start(i, models[i], context_));
    } else {
      MNEMON_ASSIGN_OR_RETURN(runner.predictor,
                              PredictRunner::Start(i, models[i], context_));
    }
    runners_.push_back(std::move(runner));
  }
  std::vector<MemoryGivers::Giver> givers;
  for (const Runner& runner : runners_) {
    givers.emplace_back();
    if (!runner.decoder) continue;
    givers.back() = [weak = std::weak_ptr(runner.decoder)](int64_t bytes) {
      const auto decoder = weak.lock();
      return decoder && decoder->GiveUp(bytes);
    };
  }
  if (persistence_) {
    givers.push_back(
        [weak = std::weak_ptr<SessionPersistence>(persistence_)](int64_t bytes) {
          const auto persistence = weak.lock();
          return persistence && persistence->GiveUpHistories(bytes);
        });
  }
  context_->givers.Set(std::move(givers));
  if (persistence_) {
    std::vector<std::shared_ptr<ModelRunner>> decoders;
    for (const Runner& runner : runners_) decoders.push_back(runner.decoder);
    persistence_->SetRunners(std::move(decoders));
    MNEMON_ASSIGN_OR_RETURN(recovery_, persistence_->Recover());
  }
  overdue_ = std::thread([this] { EndOverdue(); });
  expiry_ = std::thread([this] { ExpireSessions(); });
  return absl::OkStatus();
}

Engine::~Engine() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  // First: then nobody waits for what is read.
  if (persistence_) persistence_->Stop();
  if (expiry_.joinable()) expiry_.join();
  context_->restores.Stop();
  context_->snapshots.Stop();
  for (const Runner& runner : runners_) {
    if (runner.decoder) runner.decoder->Stop();
    if (runner.predictor) runner.predictor->Stop();
  }
  // They ask the runners.
  context_->sweeps.Stop();
  if (persistence_) persistence_->StopWriting();
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  all_stopped_.notify_all();
  // Last: whoever waits for what hangs until here is told within his bound.
  if (overdue_.joinable()) overdue_.join();
  context_->waiters.EndAll(CatchOutOfMemory({}, engine_errors::Draining));
  context_->callbacks.Stop();
}

std::vector<ModelFacts> Engine::ListModels() const {
  std::vector<ModelFacts> facts;
  for (const Runner& runner : runners_) facts.push_back(runner.model().facts);
  return facts;
}

absl::StatusOr<ModelFacts> Engine::GetModel(const std::string& name) const {
  MNEMON_ASSIGN_OR_RETURN(const size_t index, FindModel(name));
  return runners_[index].model().facts;
}

RequestedSampling Engine::DefaultSampling(const std::string& name) const {
  const absl::StatusOr<size_t> index = FindModel(name);
  return index.ok() ? runners_[*index].model().facts.generation.sampling
                    : RequestedSampling{};
}

absl::StatusOr<size_t> Engine::FindModel(const std::string& name) const {
  std::vector<std::string> names;
  for (size_t i = 0; i < runners_.size(); ++i) {
    const std::string& known = runners_[i].model().facts.name;
    const bool is_default = runners_.size() == 1 || known == kDefaultModel;
    if (known == name || (name.empty() && is_default)) return i;
    names.push_back(known);
  }
  if (name.empty()) {
    return InvalidField(
        "model", StrCat("several models are loaded, and none is called ", kDefaultModel,
                        ": name one of ", StrJoin(names, ", ")));
  }
  return MakeError(absl::StatusCode::kNotFound,
                   StrCat("model ", Quoted(name),
                          " is not loaded; loaded models: ", StrJoin(names, ", ")),
                   {.reason = "MODEL_NOT_FOUND", .field = "model"});
}

absl::StatusOr<size_t> Engine::FindDecoder(const std::string& name) const {
  MNEMON_ASSIGN_OR_RETURN(const size_t index, FindModel(name));
  if (runners_[index].decoder) return index;
  return engine_errors::WrongKind(runners_[index].model().facts.name,
                                  "takes whole sequences: use Predict");
}

bool Engine::MakeRoom(int64_t bytes, std::optional<SessionPersistence::Short> of,
                      const std::function<bool()>& fits) const {
  if (persistence_ && of) return persistence_->MakeRoom(bytes, *of, fits);
  if (fits()) return true;
  if (of != SessionPersistence::Short::kSessions) context_->AskForMemory(bytes);
  return false;
}

absl::Status Engine::ChargeNew(Session& session, int64_t bytes) const {
  using Short = SessionPersistence::Short;
  const EngineMemory& memory = *context_->memory;
  if (!MakeRoom(bytes, Short::kSessions, [&] {
        return memory.sessions.bytes() <= memory.shares.new_sessions - bytes;
      })) {
    return engine_errors::SessionMemory(memory.shares.new_sessions);
  }
  return MakeRoom(bytes, Short::kResting, [&] { return session.charge.TrySet(bytes); })
             ? absl::OkStatus()
             : engine_errors::MemoryLimit();
}

CallLimits Engine::LimitsOf(const ModelRunner& runner) const {
  return {.vocab = runner.vocab(),
          .max_tokens = context_->options.max_tokens,
          .max_prompt_tokens = context_->options.max_prompt_tokens};
}

absl::StatusOr<std::shared_ptr<TokenStream>> Engine::Generate(
    const GenerateRequest& request, std::function<void()> on_ready) try {
  MNEMON_ASSIGN_OR_RETURN(std::shared_ptr<Session> session,
                          SessionFor(request.session, request.model));
  MNEMON_ASSIGN_OR_RETURN(const auto resumed, FindResumed(request, *session));
  if (resumed) {
    return Resume(session, *resumed, request.resume_after.value_or(-1),
                  request.deadline, std::move(on_ready));
  }
  const ModelRunner& runner = *runners_[session->model].decoder;
  const CallLimits limits = LimitsOf(runner);
  MNEMON_RETURN_IF_ERROR(CheckCall(request, limits));
  MNEMON_RETURN_IF_ERROR(CheckIntrospection(request.introspection, runner.model()));
  const Tokenizer* const tokenizer = runner.model().tokenizer;
  if (!request.stop_strings.empty() && !tokenizer)
    return NeedsTokenizer("stop_strings");

  std::shared_ptr<const ConversationPrompt> conversation;
  std::vector<int32_t> prompt;
  if (const auto* const messages = std::get_if<ConversationText>(&request.prompt)) {
    MNEMON_ASSIGN_OR_RETURN(conversation,
                            ConversationPrompt::Make(*messages, runner.model()));
  } else {
    MNEMON_ASSIGN_OR_RETURN(prompt, PromptTokens(request.prompt, tokenizer, limits));
  }
  CallRecord record{.request_id = request.request_id,
                    .max_tokens = request.max_tokens.value_or(limits.max_tokens),
                    .stop_tokens = request.stop_tokens,
                    .stop_strings = request.stop_strings,
                    .time_limit = request.time_limit,
                    .logprobs = request.logprobs,
                    .introspection = request.introspection,
                    .on_disconnect = request.on_disconnect};
  std::sort(record.stop_tokens.begin(), record.stop_tokens.end());
  if (conversation) {
    for (std::string& stop : conversation->stop_strings()) {
      record.stop_strings.push_back(std::move(stop));
    }
  }
  if (!request.ignore_end) {
    record.end_tokens = runner.model().facts.generation.end_tokens;
  }
  record.sampling = {.values = request.sampling, .seed = request.seed};
  if (request.session_sampling) {
    const auto own = context_->directory.FactsOf(*session).sampling;
    if (own) record.sampling = *own;
  }
  if (!record.sampling.seed) record.sampling.seed = SeedFor(request.request_id);
  const bool resumable = !request.session.empty() && !request.request_id.empty();
  if (resumable) record.request_hash = HashOf(request);
  const std::shared_ptr<Call> call =
      MakeCall(session, record, request.deadline, std::move(on_ready));
  call->expected_position = request.expected_position;
  call->text_prompt = IsText(request.prompt);
  call->conversation = std::move(conversation);
  if (resumable) call->record = std::make_shared<CallRecord>(std::move(record));
  MNEMON_RETURN_IF_ERROR(Submit(call, prompt));
  return call->stream;
} catch (const std::bad_alloc&) {
  return OutOfMemoryError();
}

void Engine::RecordRefusal(const GenerateRequest& request, const absl::Status& status) {
  EngineObserver* const observer = context_->options.observer.get();
  if (observer == nullptr) return;
  absl::StatusOr<size_t> model = FindModel(request.model);
  if (!model.ok() && !request.session.empty()) {
    const auto session = context_->directory.Find(request.session);
    if (session.ok()) model = (*session)->model;
  }
  observer->OnRefused(model.ok() ? std::optional(*model) : std::nullopt, status);
}

void Engine::Report(SessionEvent event) const {
  EngineObserver* const observer = context_->options.observer.get();
  if (observer != nullptr) observer->OnSessionEvent(event);
}

void Engine::OpenStream(const std::shared_ptr<Call>& call, const Tokenizer* tokenizer,
                        std::vector<std::string> stop_strings,
                        std::function<void()> on_ready) const {
  const Options& options = context_->options;
  call->arrival = options.clock->Now();
  call->idle_arrival = options.idle_clock ? options.idle_clock->Now() : call->arrival;
  TokenStream::Options stream{
      .tokenizer = tokenizer,
      .stop_strings = std::move(stop_strings),
      .on_ready = std::move(on_ready),
      .charge = ChargeOf(context_->memory, &EngineMemory::output)};
  const size_t model = call->session->model;
  const Session& changes = call->commits() ? *call->scoring->source : *call->session;
  stream.gated = changes.journal && changes.journal->durable();
  const auto self = std::make_shared<std::weak_ptr<TokenStream>>();
  stream.on_event = [weak_runner = std::weak_ptr(runners_[model].decoder),
                     weak_call = std::weak_ptr(call), self](StreamEvent event) {
    const auto runner = weak_runner.lock();
    const auto event_of = weak_call.lock();
    if (runner && event_of) return runner->OnStreamEvent(event_of, event);
    // Its session was removed: nobody else ends it.
    const auto left = self->lock();
    if (left && event == StreamEvent::kCancelled &&
        left->Finish(engine_errors::Cancelled(), std::nullopt)) {
      left->RunCallback();
    }
  };
  stream.report_empty = call->commits();
  // A call that scores generates nothing.
  if (!call->scoring) {
    // A fast model would spend its processors on messages. Not when scoring: the caller
    // may wait for an answer before it sends more.
    stream.interval = CallbackThreads::kDelay;
    stream.timer = RequestTimer(options.observer, *options.clock, model);
  }
  call->stream = std::make_shared<TokenStream>(std::move(stream));
  *self = call->stream;
  if (call->commits()) {
    // Scores depend on nothing that is stored, but for the end.
    static_cast<void>(call->stream->Release(std::numeric_limits<int64_t>::max(),
                                            /*finish=*/false, call->arrival));
  }
}

absl::Status Engine::Hold(Session& session, const std::string& request_id) const {
  MNEMON_ASSIGN_OR_RETURN(const bool held,
                          context_->directory.Hold(session, request_id));
  return held ? absl::OkStatus() : Busy(session);
}

absl::Status Engine::Busy(const Session& session) const {
  return engine_errors::SessionBusy(session.id,
                                    runners_[session.model].decoder->TimeLeft());
}

absl::Status Engine::SubmitHeld(const std::shared_ptr<Call>& call,
                                std::span<const int32_t> prompt_tokens) const {
  ModelRunner& runner = *runners_[call->session->model].decoder;
  Session& session = *call->session;
  const absl::Status queued = CatchOutOfMemory({}, [&]() -> absl::Status {
    std::vector<int32_t> undone;
    if (call->resume_after) {
      MNEMON_ASSIGN_OR_RETURN(const bool ended, TakeUp(*call, undone));
      if (ended) {
        // First: who has the end may come with the next call.
        context_->directory.Release(session, /*taken=*/false);
        if (!call->settled.exchange(true)) {
          static_cast<void>(call->stream->Finish(std::move(call->ending->status),
                                                 std::move(call->ending->facts)));
          context_->callbacks.Post(call->stream);
        }
        return absl::OkStatus();
      }
      prompt_tokens = undone;
    } else if (call->expected_position &&
               *call->expected_position != session.history.size()) {
      return engine_errors::TokenCountMismatch(session.id, *call->expected_position,
                                               session.history.size());
    }
    const int64_t tokens = call->resumed_at.value_or(session.history.size());
    std::vector<int32_t> whole;
    if (call->conversation) {
      const auto made =
          call->nameless() ? context_->options.clock->WallNow() : session.create_time;
      MNEMON_ASSIGN_OR_RETURN(whole,
                              call->conversation->TokensAfter(session.history, tokens,
                                                              LimitsOf(runner), made));
      prompt_tokens = whole;
    } else if (call->text_prompt && tokens == 0 && !call->resume_after) {
      const auto before = runner.model().tokenizer->before_text();
      whole.assign(before.begin(), before.end());
      whole.insert(whole.end(), prompt_tokens.begin(), prompt_tokens.end());
      prompt_tokens = whole;
    }
    const auto prompt = static_cast<int64_t>(prompt_tokens.size());
    if (!call->scoring && tokens + prompt == 0) {
      return InvalidField("prompt", "a new session needs at least one token");
    }
    // The last token of a full history is not computed.
    const bool generates = !call->resumed_at && !call->keeps_state;
    if (prompt > runner.context_limit() - tokens && generates) {
      return engine_errors::ContextLimit(tokens, prompt, runner.context_limit());
    }
    const int64_t most =
        call->max_tokens + (call->resumed_at ? call->prompt_end : tokens + prompt);
    MNEMON_RETURN_IF_ERROR(LimitIntrospection(*call, runner.model(),
                                              std::min(most, runner.context_limit())));
    // What takes time in proportion to prompt or history is done here, not on the
    // runner's thread.
    const auto reserved = std::min<int64_t>(call->max_tokens, kMostReserved);
    using Short = SessionPersistence::Short;
    if (!MakeRoom(session.history.BytesOf(prompt + reserved),
                  call->nameless() ? std::nullopt : std::optional(Short::kResting),
                  [&] { return session.history.Stage(prompt_tokens, reserved); })) {
      // A long prompt says little of others.
      if (call->nameless() && prompt <= kShortPrompt) runner.RefuseForMemory();
      return engine_errors::MemoryLimit();
    }
    call->prompt_tokens = prompt;
    MNEMON_RETURN_IF_ERROR(CompleteRecord(*call, prompt_tokens));
    call->penalties = PenaltyCounts(call->sampling, std::min(most, runner.vocab()));
    call->penalties_charge = ChargeOf(context_->memory, &EngineMemory::queue);
    if (!call->penalties_charge.TrySet(call->penalties.bytes())) {
      return context_->MemoryLimit(call->penalties.bytes());
    }
    call->penalties.Update(session.history, tokens + prompt);
    const bool copied = call->scoring && call->scoring->source;
    call->input_bytes =
        (prompt + (copied ? tokens : 0)) * static_cast<int64_t>(sizeof(int32_t)) +
        call->penalties.bytes();
    return runner.Enqueue(call);
  });
  if (!queued.ok() && !call->stateless()) LetGo(*call);
  EngineObserver* const observer = context_->options.observer.get();
  if (observer && queued.ok() && call->resume_after) {
    observer->OnResumed(session.model);
  }
  return queued;
}

void Engine::LetGo(Call& call) const {
  Session& session = *call.session;
  session.history.TakeUnused();
  static_cast<void>(call.stream->StopDelivery());
  runners_[session.model].decoder->RememberStream(call);
  context_->directory.Release(session, /*taken=*/false);
}

absl::StatusOr<ScoreCall> Engine::Score(const ScoreRequest& request,
                                        std::function<void()> on_ready) try {
  MNEMON_ASSIGN_OR_RETURN(std::shared_ptr<Session> session,
                          SessionFor(request.session, request.model));
  const std::shared_ptr<ModelRunner>& runner = runners_[session->model].decoder;
  MNEMON_RETURN_IF_ERROR(CheckCandidates(request.candidates, runner->vocab()));
  MNEMON_RETURN_IF_ERROR(CheckRequestId(request.request_id));
  if (!request.request_id.empty() && (!request.commit || request.session.empty())) {
    return InvalidField("request_id", "only a call that commits has a request_id");
  }
  auto call = std::make_shared<Call>();
  call->scoring.emplace();
  call->logprobs = {.wanted = true, .candidates = request.candidates};
  call->deadline = request.deadline;
  call->session = std::move(session);
  if (!request.session.empty()) MNEMON_RETURN_IF_ERROR(CopySource(request, *call));
  ScoreCall scored;
  const absl::Status queued = CatchOutOfMemory({}, [&] {
    OpenStream(call, nullptr, {}, std::move(on_ready));
    scored = MakeScoreCall(runner, call, LimitsOf(*runner));
    return Submit(call, {});
  });
  if (!queued.ok() && call->commits()) {
    context_->directory.Release(*call->scoring->source, /*taken=*/false);
  }
  MNEMON_RETURN_IF_ERROR(queued);
  return scored;
} catch (const std::bad_alloc&) {
  return OutOfMemoryError();
}

absl::Status Engine::CopySource(const ScoreRequest& request, Call& call) const {
  SessionDirectory& directory = context_->directory;
  const std::shared_ptr<Session> source = call.session;
  if (request.commit && source->journal) {
    MNEMON_RETURN_IF_ERROR(source->journal->status());
  }
  // What is committed becomes the session's.
  auto copy = std::make_shared<Session>(
      "", source->model, nullptr, context_->memory,
      request.commit ? &EngineMemory::histories : &EngineMemory::prompts);
  absl::Status held = Hold(*source, request.request_id);
  const bool repeated = !held.ok() && directory.ScoredFrom(*source, request.request_id);
  if (repeated) held = Hold(*source, "");
  MNEMON_RETURN_IF_ERROR(held);
  // Held while its history is copied, so that it does not change.
  const absl::Status copied = CatchOutOfMemory({}, [&]() -> absl::Status {
    int64_t tokens = source->history.size();
    if (repeated) {
      const auto from = directory.ScoredFrom(*source, request.request_id);
      if (!from) return engine_errors::RequestRepeated(source->id);
      tokens = *from;
    } else if (request.expected_tokens.value_or(tokens) != tokens) {
      return engine_errors::TokenCountMismatch(source->id, *request.expected_tokens,
                                               tokens);
    }
    return copy->history.ShareOf(source->history, tokens)
               ? absl::OkStatus()
               : context_->MemoryLimit(tokens * static_cast<int64_t>(sizeof(int32_t)));
  });
  call.scoring->commit = copied.ok() && request.commit && !repeated;
  // Its state has gone on: one that is repeated is computed from the copy.
  if (!repeated) call.scoring->source = source;
  call.scoring->source_version = source->history.version();
  call.request_id = request.request_id;
  call.session = std::move(copy);
  if (!call.commits()) directory.Release(*source, /*taken=*/false);
  return copied;
}

absl::StatusOr<std::function<void()>> Engine::Predict(PredictRequest request,
                                                      OnPredicted on_done) try {
  MNEMON_ASSIGN_OR_RETURN(const size_t index, FindModel(request.model));
  const std::shared_ptr<PredictRunner>& runner = runners_[index].predictor;
  if (!runner) {
    return engine_errors::WrongKind(runners_[index].model().facts.name,
                                    "generates: use Generate");
  }
  const Predictor& predictor = *runner->model().predictor;
  Predictor::Input input{.tokens = std::move(request.tokens),
                         .batch = request.batch,
                         .mask = request.mask,
                         .explicit_mask = std::move(request.explicit_mask),
                         .maps = request.maps};
  MNEMON_RETURN_IF_ERROR(
      CheckPredict(input, predictor.model().vocab, predictor.max_positions()));
  const auto tokens = static_cast<int64_t>(input.tokens.size());
  MNEMON_RETURN_IF_ERROR(CheckAnswer(tokens, input, predictor.model()));
  const PredictCost cost = predictor.Cost(input);
  MNEMON_RETURN_IF_ERROR(CheckCost(cost, context_->options));
  const auto job = std::make_shared<PredictJob>(
      std::move(input), cost, request.deadline, std::move(on_done),
      ChargeOf(context_->memory, &EngineMemory::predictions));
  // Before the job is queued: from then on it is on_done that gets errors.
  std::function<void()> cancel = [weak = std::weak_ptr(runner), job] {
    if (const auto running = weak.lock()) running->Cancel(job);
  };
  MNEMON_RETURN_IF_ERROR(runner->Enqueue(job));
  return cancel;
} catch (const std::bad_alloc&) {
  return OutOfMemoryError();
}

void Engine::Drain() {
  {
    std::lock_guard lock(mutex_);
    draining_ = true;
  }
  for (const Runner& runner : runners_) {
    if (runner.decoder) runner.decoder->Drain();
    if (runner.predictor) runner.predictor->Drain();
  }
}

int64_t Engine::CountUnstored() const {
  int64_t count = 0;
  std::string after;
  constexpr size_t kAtOnce = 64;
  for (bool more = true; more;) {
    const auto sessions = context_->directory.AwakeAfter(after, kAtOnce);
    for (const auto& session : sessions) {
      count += session->journal == nullptr || !session->journal->durable() ? 1 : 0;
    }
    more = sessions.size() == kAtOnce;
    if (more) after = sessions.back()->id;
  }
  return count;
}

bool Engine::SaveSessions(std::chrono::steady_clock::time_point deadline) {
  return !persistence_ || persistence_->SaveAll(deadline);
}

bool Engine::WaitIdle(std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  return std::all_of(runners_.begin(), runners_.end(), [&](const Runner& runner) {
    return runner.decoder ? runner.decoder->WaitIdle(deadline)
                          : runner.predictor->WaitIdle(deadline);
  });
}

EngineStats Engine::Stats() const {
  EngineStats stats;
  {
    std::lock_guard lock(mutex_);
    stats.draining = draining_;
  }
  stats.sessions = context_->directory.size();
  stats.waiters = context_->waiters.stats();
  stats.asleep = context_->directory.asleep();
  if (persistence_) stats.store = persistence_->stats();
  for (const Runner& runner : runners_) {
    stats.models.push_back(runner.decoder ? runner.decoder->Stats()
                                          : runner.predictor->Stats());
    const ModelStats& model = stats.models.back();
    stats.memory.weights += model.weight_bytes;
    if (model.state_on_host) {
      stats.memory.state += model.state_bytes;
      stats.memory.shadows += model.shadow_bytes;
    }
    stats.running += model.running;
    stats.queued += model.waiting;
    stats.state_bytes += model.state_bytes;
    stats.steps += model.steps;
    stats.tokens_computed += model.tokens_computed;
    stats.tokens_generated += model.tokens_generated;
  }
  const EngineMemory& memory = *context_->memory;
  stats.memory.state_reserve = std::max<int64_t>(
      0, memory.state.bytes() - stats.memory.state - stats.memory.shadows);
  stats.memory.images = memory.images.bytes();
  stats.memory.sessions = memory.sessions.bytes() + memory.unusable.bytes();
  stats.memory.histories = memory.histories.bytes();
  stats.memory.prompts = memory.prompts.bytes();
  stats.memory.queue = memory.queue.bytes();
  stats.memory.output = memory.output.bytes();
  stats.memory.predictions = memory.predictions.bytes();
  stats.memory.used = memory.budget.used();
  stats.memory.limit = memory.budget.limit();
  stats.memory.sessions_limit = memory.shares.sessions;
  stats.memory.resting_limit = memory.shares.resting;
  return stats;
}

}  // namespace mnemon
