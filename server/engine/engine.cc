// SPDX-License-Identifier: MIT
#include "server/engine/engine.h"

#include <algorithm>
#include <future>
#include <new>
#include <set>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/engine/checkpoints.h"
#include "server/engine/decoder_calls.h"
#include "server/engine/engine_parts.h"
#include "server/engine/expired_sessions.h"
#include "server/engine/named_sessions.h"
#include "server/engine/overdue_answers.h"
#include "server/engine/predictions.h"
#include "server/engine/session_methods.h"
#include "server/engine/text_conversion.h"
#include "server/engine/transfers.h"
#include "server/requests/engine_errors.h"
#include "server/requests/request_check.h"

namespace mnemon {
namespace {

static_assert(Engine::kTransfers == Transfers::kMost);

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

// Waits for the answer of a method. `begin` gets the function to answer with.
template <class T, class Begin>
T Await(const Begin& begin) try {
  std::promise<T> answered;
  std::future<T> answer = answered.get_future();
  const absl::Status status =
      begin([&answered](T made) { answered.set_value(std::move(made)); });
  if (!status.ok()) return status;
  return answer.get();
} catch (const std::bad_alloc&) {
  return OutOfMemoryError();
}

}  // namespace

struct Engine::Impl {
  Impl(const Options& options, const std::vector<int64_t>& vocabs)
      : parts{.context = std::make_shared<EngineContext>(options, vocabs),
              .persistence = nullptr,
              .models = {}} {}

  absl::Status Start(const std::vector<EngineModel>& models);
  // Also after a Start that failed.
  void Stop();

  EngineParts parts;  // constant after Start, but for draining
  Recovery recovery;
  ExpiredSessions expiry{parts};
  OverdueAnswers overdue{parts.context->waiters};
  NamedSessions named{parts, expiry};
  SessionMethods sessions{parts, expiry, named};
  Checkpoints checkpoints{parts, named};
  DecoderCalls calls{parts, named};
  Transfers transfers{parts, expiry, named, calls};
};

absl::Status Engine::Impl::Start(const std::vector<EngineModel>& models) {
  EngineContext& context = *parts.context;
  if (context.options.store != nullptr) {
    parts.persistence =
        std::make_shared<SessionPersistence>(context, *context.options.store, models);
    context.durable = parts.persistence.get();
  }
  MNEMON_RETURN_IF_ERROR(parts.models.Start(models, parts.context));
  std::vector<MemoryGivers::Giver> givers;
  std::vector<std::shared_ptr<ModelRunner>> decoders;
  for (const ModelTable::Runner& runner : parts.models.runners()) {
    decoders.push_back(runner.decoder);
    givers.emplace_back();
    if (!runner.decoder) continue;
    givers.back() = [weak = std::weak_ptr(runner.decoder)](int64_t bytes) {
      const auto decoder = weak.lock();
      return decoder && decoder->GiveUp(bytes);
    };
  }
  if (parts.persistence) {
    givers.push_back(
        [weak = std::weak_ptr<SessionPersistence>(parts.persistence)](int64_t bytes) {
          const auto persistence = weak.lock();
          return persistence && persistence->GiveUpHistories(bytes);
        });
  }
  context.givers.Set(std::move(givers));
  if (parts.persistence) {
    parts.persistence->SetRunners(std::move(decoders));
    MNEMON_ASSIGN_OR_RETURN(recovery, parts.persistence->Recover());
  }
  overdue.Start();
  expiry.Start();
  return absl::OkStatus();
}

void Engine::Impl::Stop() {
  EngineContext& context = *parts.context;
  expiry.RequestStop();
  // Before the thread that may wait for what is read.
  if (parts.persistence) parts.persistence->Stop();
  expiry.Join();
  context.restores.Stop();
  context.snapshots.Stop();
  parts.models.Stop();
  // After the runners, which sweeps ask.
  context.sweeps.Stop();
  if (parts.persistence) parts.persistence->StopWriting();
  // Last: whoever waits for something that hangs until here is told within the bound.
  overdue.Stop();
  context.waiters.EndAll(CatchOutOfMemory({}, engine_errors::Draining));
  context.callbacks.Stop();
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Engine::~Engine() { impl_->Stop(); }

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(std::vector<EngineModel> models,
                                                       const Options& options) {
  MNEMON_RETURN_IF_ERROR(CheckOptions(options));
  MNEMON_RETURN_IF_ERROR(CheckModels(models));
  try {
    std::vector<int64_t> vocabs;
    for (const EngineModel& model : models) {
      vocabs.push_back(model.decoder ? model.decoder->model().vocab : 0);
    }
    std::unique_ptr<Engine> engine(new Engine(std::make_unique<Impl>(options, vocabs)));
    MNEMON_RETURN_IF_ERROR(engine->impl_->Start(models));
    return engine;
  } catch (const std::system_error&) {
    return absl::ResourceExhaustedError("the threads of the engine cannot be started");
  }
}

std::vector<ModelFacts> Engine::ListModels() const {
  std::vector<ModelFacts> facts;
  for (const ModelTable::Runner& runner : impl_->parts.models.runners()) {
    facts.push_back(runner.model().facts);
  }
  return facts;
}

absl::StatusOr<ModelFacts> Engine::GetModel(const std::string& name) const {
  const ModelTable& models = impl_->parts.models;
  MNEMON_ASSIGN_OR_RETURN(const size_t index, models.Find(name));
  return models.model(index).facts;
}

RequestedSampling Engine::DefaultSampling(const std::string& name) const {
  const ModelTable& models = impl_->parts.models;
  const absl::StatusOr<size_t> index = models.Find(name);
  return index.ok() ? models.model(*index).facts.generation.sampling
                    : RequestedSampling{};
}

absl::Status Engine::CreateSession(const CreateSessionRequest& request,
                                   OnAnswer<SessionFacts> on_done) {
  return impl_->sessions.Create(request, std::move(on_done));
}

absl::StatusOr<SessionFacts> Engine::CreateSession(
    const CreateSessionRequest& request) {
  return Await<absl::StatusOr<SessionFacts>>(
      [&](auto on_done) { return CreateSession(request, std::move(on_done)); });
}

absl::StatusOr<SessionFacts> Engine::GetSession(const std::string& id) {
  return impl_->sessions.Get(id);
}

absl::StatusOr<std::string> Engine::ModelOfSession(const std::string& id) const {
  return impl_->sessions.ModelOf(id);
}

absl::Status Engine::ReadHistory(const ReadHistoryRequest& request,
                                 OnAnswer<HistoryPart> on_done) {
  return impl_->sessions.ReadHistory(request, std::move(on_done));
}

absl::StatusOr<SessionPage> Engine::ListSessions(const ListSessionsRequest& request) {
  return impl_->sessions.List(request);
}

absl::Status Engine::UpdateSession(const UpdateSessionRequest& request,
                                   OnAnswer<SessionFacts> on_done) {
  return impl_->sessions.Update(request, std::move(on_done));
}

absl::StatusOr<SessionFacts> Engine::UpdateSession(
    const UpdateSessionRequest& request) {
  return Await<absl::StatusOr<SessionFacts>>(
      [&](auto on_done) { return UpdateSession(request, std::move(on_done)); });
}

absl::Status Engine::DeleteSession(const std::string& id, const std::string& etag,
                                   OnSynced on_done) {
  return impl_->sessions.Delete(id, etag, std::move(on_done));
}

absl::Status Engine::DeleteSession(const std::string& id, const std::string& etag) {
  return Await<absl::Status>(
      [&](auto on_done) { return DeleteSession(id, etag, std::move(on_done)); });
}

absl::Status Engine::ForkSession(const ForkSessionRequest& request,
                                 OnAnswer<SessionFacts> on_done) {
  return impl_->sessions.Fork(request, std::move(on_done));
}

absl::Status Engine::RewindSession(const RewindSessionRequest& request,
                                   OnAnswer<SessionFacts> on_done) {
  return impl_->sessions.Rewind(request, std::move(on_done));
}

absl::Status Engine::CheckpointSession(const CheckpointSessionRequest& request,
                                       OnAnswer<CheckpointFacts> on_done) {
  return impl_->checkpoints.Make(request, std::move(on_done));
}

absl::Status Engine::ExportSession(const std::string& id,
                                   OnAnswer<ExportedSession> on_done) {
  return impl_->transfers.Export(id, std::move(on_done));
}

absl::Status Engine::ImportSession(ImportSessionRequest request,
                                   OnAnswer<SessionFacts> on_done) {
  return impl_->transfers.Import(std::move(request), std::move(on_done));
}

ByteCharge Engine::QueueCharge() const {
  return ChargeOf(impl_->parts.context->memory, &EngineMemory::queue);
}

absl::Status Engine::MemoryLimitReached(int64_t bytes) const {
  return impl_->parts.context->MemoryLimit(bytes);
}

absl::Status Engine::VerifySession(const VerifySessionRequest& request,
                                   OnAnswer<VerifiedSession> on_done) {
  return impl_->transfers.Verify(request, std::move(on_done));
}

absl::StatusOr<TokenizedText> Engine::Tokenize(const std::string& model,
                                               const std::string& text) const {
  const ModelTable& models = impl_->parts.models;
  MNEMON_ASSIGN_OR_RETURN(const size_t index, models.Find(model));
  return TextToTokens(models.model(index).tokenizer, text);
}

absl::StatusOr<DetokenizedText> Engine::Detokenize(
    const std::string& model, const std::vector<int32_t>& tokens) const {
  const ModelTable& models = impl_->parts.models;
  MNEMON_ASSIGN_OR_RETURN(const size_t index, models.Find(model));
  return TokensToText(models.model(index).tokenizer, tokens);
}

absl::StatusOr<std::shared_ptr<TokenStream>> Engine::Generate(
    const GenerateRequest& request, std::function<void()> on_ready) {
  return impl_->calls.Generate(request, std::move(on_ready));
}

void Engine::RecordRefusal(const GenerateRequest& request, const absl::Status& status) {
  impl_->calls.RecordRefusal(request, status);
}

absl::StatusOr<ScoreCall> Engine::Score(const ScoreRequest& request,
                                        std::function<void()> on_ready) {
  return impl_->calls.Score(request, std::move(on_ready));
}

absl::StatusOr<std::function<void()>> Engine::Predict(PredictRequest request,
                                                      OnPredicted on_done) try {
  const EngineParts& parts = impl_->parts;
  MNEMON_ASSIGN_OR_RETURN(const size_t index, parts.models.Find(request.model));
  const ModelTable::Runner& runner = parts.models.runners()[index];
  if (!runner.predictor) {
    return engine_errors::WrongKind(runner.model().facts.name,
                                    "generates: use Generate");
  }
  return StartPrediction(*parts.context, runner.predictor, std::move(request),
                         std::move(on_done));
} catch (const std::bad_alloc&) {
  return OutOfMemoryError();
}

void Engine::Drain() { impl_->parts.models.Drain(); }

bool Engine::WaitIdle(std::chrono::milliseconds timeout) {
  return impl_->parts.models.WaitIdle(std::chrono::steady_clock::now() + timeout);
}

bool Engine::SaveSessions(std::chrono::steady_clock::time_point deadline) {
  SessionPersistence* const persistence = impl_->parts.persistence.get();
  return persistence == nullptr || persistence->SaveAll(deadline);
}

int64_t Engine::CountUnstored() const { return impl_->sessions.CountUnstored(); }

const Recovery& Engine::recovery() const { return impl_->recovery; }

EngineStats Engine::Stats() const {
  EngineStats stats;
  const EngineParts& parts = impl_->parts;
  const EngineContext& context = *parts.context;
  stats.draining = parts.models.draining();
  stats.sessions = context.directory.size();
  stats.waiters = context.waiters.stats();
  stats.asleep = context.directory.sleep().size();
  if (parts.persistence) stats.store = parts.persistence->stats();
  for (const ModelTable::Runner& runner : parts.models.runners()) {
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
  const EngineMemory& memory = *context.memory;
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

WaiterStats Engine::waiters() const { return impl_->parts.context->waiters.stats(); }

}  // namespace mnemon
