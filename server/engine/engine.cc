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
#include "server/engine/engine_parts.h"
#include "server/engine/named_sessions.h"
#include "server/requests/engine_errors.h"
#include "server/requests/request_check.h"

namespace mnemon {
namespace {

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

Engine::Engine(std::unique_ptr<EngineParts> parts)
    : parts_(std::move(parts)),
      named_(std::make_unique<NamedSessions>(*parts_)),
      transfers_(std::make_shared<std::atomic<int32_t>>(0)) {}

absl::Status Engine::Start(const std::vector<EngineModel>& models) {
  EngineContext& context = *parts_->context;
  if (context.options.store != nullptr) {
    parts_->persistence =
        std::make_shared<SessionPersistence>(context, *context.options.store, models);
    context.durable = parts_->persistence.get();
  }
  MNEMON_RETURN_IF_ERROR(parts_->models.Start(models, parts_->context));
  std::vector<std::function<bool(int64_t)>> givers;
  std::vector<std::shared_ptr<ModelRunner>> decoders;
  for (const ModelTable::Runner& runner : parts_->models.runners()) {
    decoders.push_back(runner.decoder);
    givers.emplace_back();
    if (!runner.decoder) continue;
    givers.back() = [weak = std::weak_ptr(runner.decoder)](int64_t bytes) {
      const auto decoder = weak.lock();
      return decoder && decoder->GiveUp(bytes);
    };
  }
  if (parts_->persistence) {
    givers.push_back(
        [weak = std::weak_ptr<SessionPersistence>(parts_->persistence)](int64_t bytes) {
          const auto persistence = weak.lock();
          return persistence && persistence->GiveUpHistories(bytes);
        });
  }
  context.givers = std::move(givers);
  if (parts_->persistence) {
    MNEMON_ASSIGN_OR_RETURN(recovery_,
                            parts_->persistence->Recover(std::move(decoders)));
  }
  context.waiters.Start();
  named_->Start();
  return absl::OkStatus();
}

Engine::~Engine() {
  EngineContext& context = *parts_->context;
  named_->RequestStop();
  // Before the thread that may wait for what is read.
  if (parts_->persistence) parts_->persistence->Stop();
  named_->Join();
  context.restores.Stop();
  context.snapshots.Stop();
  parts_->models.Stop();
  // After the runners, which sweeps ask.
  context.sweeps.Stop();
  if (parts_->persistence) parts_->persistence->StopWriting();
  // Last: whoever waits for something that hangs until here is told within the bound.
  context.waiters.EndAll(CatchOutOfMemory({}, engine_errors::Draining));
  context.callbacks.Stop();
}

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(std::vector<EngineModel> models,
                                                       const Options& options) {
  MNEMON_RETURN_IF_ERROR(CheckOptions(options));
  MNEMON_RETURN_IF_ERROR(CheckModels(models));
  try {
    std::vector<int64_t> vocabs;
    for (const EngineModel& model : models) {
      vocabs.push_back(model.decoder ? model.decoder->model().vocab : 0);
    }
    auto parts = std::make_unique<EngineParts>();
    parts->context = std::make_shared<EngineContext>(options, vocabs);
    std::unique_ptr<Engine> engine(new Engine(std::move(parts)));
    MNEMON_RETURN_IF_ERROR(engine->Start(models));
    return engine;
  } catch (const std::system_error&) {
    return absl::ResourceExhaustedError("the threads of the engine cannot be started");
  }
}

std::vector<ModelFacts> Engine::ListModels() const {
  std::vector<ModelFacts> facts;
  for (const ModelTable::Runner& runner : parts_->models.runners()) {
    facts.push_back(runner.model().facts);
  }
  return facts;
}

absl::StatusOr<ModelFacts> Engine::GetModel(const std::string& name) const {
  MNEMON_ASSIGN_OR_RETURN(const size_t index, parts_->models.Find(name));
  return parts_->models.model(index).facts;
}

RequestedSampling Engine::DefaultSampling(const std::string& name) const {
  const absl::StatusOr<size_t> index = parts_->models.Find(name);
  return index.ok() ? parts_->models.model(*index).facts.generation.sampling
                    : RequestedSampling{};
}

absl::StatusOr<SessionFacts> Engine::CreateSession(
    const CreateSessionRequest& request) {
  return Await<absl::StatusOr<SessionFacts>>(
      [&](auto on_done) { return CreateSession(request, std::move(on_done)); });
}

absl::StatusOr<SessionFacts> Engine::UpdateSession(
    const UpdateSessionRequest& request) {
  return Await<absl::StatusOr<SessionFacts>>(
      [&](auto on_done) { return UpdateSession(request, std::move(on_done)); });
}

absl::Status Engine::DeleteSession(const std::string& id, const std::string& etag) {
  return Await<absl::Status>(
      [&](auto on_done) { return DeleteSession(id, etag, std::move(on_done)); });
}

ByteCharge Engine::QueueCharge() const {
  return ChargeOf(parts_->context->memory, &EngineMemory::queue);
}

absl::Status Engine::MemoryLimitReached(int64_t bytes) const {
  return parts_->context->MemoryLimit(bytes);
}

void Engine::Drain() { parts_->models.Drain(); }

bool Engine::WaitIdle(std::chrono::milliseconds timeout) {
  return parts_->models.WaitIdle(std::chrono::steady_clock::now() + timeout);
}

bool Engine::SaveSessions(std::chrono::steady_clock::time_point deadline) {
  return !parts_->persistence || parts_->persistence->SaveAll(deadline);
}

EngineStats Engine::Stats() const {
  EngineStats stats;
  const EngineParts& parts = *parts_;
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

WaiterStats Engine::waiters() const { return parts_->context->waiters.stats(); }

}  // namespace mnemon
