// SPDX-License-Identifier: MIT
#include "server/engine/engine.h"

#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/engine/engine_core.h"

namespace mnemon {
namespace {

class ThreadedEngine final : public Engine {
 public:
  explicit ThreadedEngine(std::shared_ptr<EngineCore> core)
      : core_(std::move(core)), thread_([this] { core_->Run(); }) {}
  ~ThreadedEngine() override {
    core_->Stop();
    thread_.join();
  }

  std::vector<ModelFacts> ListModels() const override { return core_->ListModels(); }
  absl::StatusOr<ModelFacts> GetModel(const std::string& name) const override {
    return core_->GetModel(name);
  }
  absl::StatusOr<SessionFacts> CreateSession(const CreateSessionRequest& r) override {
    return core_->CreateSession(r);
  }
  absl::StatusOr<SessionFacts> GetSession(const std::string& id) const override {
    return core_->GetSession(id);
  }
  absl::StatusOr<SessionPage> ListSessions(
      int32_t page_size, const std::string& page_token) const override {
    return core_->ListSessions(page_size, page_token);
  }
  absl::Status DeleteSession(const std::string& id) override {
    return core_->DeleteSession(id);
  }
  absl::StatusOr<TokenizedText> Tokenize(const std::string& model,
                                         const std::string& text) const override {
    return core_->Tokenize(model, text);
  }
  absl::StatusOr<DetokenizedText> Detokenize(
      const std::string& model, const std::vector<int32_t>& tokens) const override {
    return core_->Detokenize(model, tokens);
  }
  absl::StatusOr<std::shared_ptr<TokenStream>> Generate(
      const GenerateRequest& request, std::function<void()> on_ready) override {
    auto stream = core_->Generate(request, std::move(on_ready));
    if (!stream.ok()) NoteRefused(request, stream.status());
    return stream;
  }
  void NoteRefused(const GenerateRequest& request,
                   const absl::Status& status) override {
    core_->TellRefused(request, status);
  }
  absl::StatusOr<ScoreCall> Score(const ScoreRequest& request,
                                  std::function<void()> on_ready) override {
    return core_->Score(request, std::move(on_ready));
  }
  absl::StatusOr<std::function<void()>> Predict(PredictRequest request,
                                                OnPredicted on_done) override {
    return core_->Predict(std::move(request), std::move(on_done));
  }
  void Drain() override { core_->Drain(); }
  bool WaitIdle(std::chrono::milliseconds timeout) override {
    return core_->WaitIdle(timeout);
  }
  EngineStats Stats() const override { return core_->Stats(); }

 private:
  // Shared with the callbacks of streams, which may outlive the engine.
  const std::shared_ptr<EngineCore> core_;
  std::thread thread_;
};

absl::Status AtLeast(int64_t least, int64_t value, const std::string& option) {
  if (value >= least) return absl::OkStatus();
  return InvalidField(option,
                      StrCat(option, " must be at least ", least, ", got ", value));
}

absl::Status CheckOptions(const Engine::Options& options) {
  MNEMON_RETURN_IF_ERROR(AtLeast(1, options.sessions, "sessions"));
  MNEMON_RETURN_IF_ERROR(AtLeast(0, options.max_queue, "max_queue"));
  MNEMON_RETURN_IF_ERROR(AtLeast(1, options.max_tokens, "max_tokens"));
  MNEMON_RETURN_IF_ERROR(AtLeast(1, options.max_prompt_tokens, "max_prompt_tokens"));
  MNEMON_RETURN_IF_ERROR(AtLeast(1, options.state_bytes, "state_bytes"));
  MNEMON_RETURN_IF_ERROR(AtLeast(1, options.step_tokens, "step_tokens"));
  if (!options.clock) return InvalidField("clock", "the engine needs a clock");
  return absl::OkStatus();
}

// An arena whose growing state stays within state_bytes.
absl::StatusOr<std::unique_ptr<StateArena>> MakeArena(const EngineModel& model,
                                                      const Engine::Options& options) {
  const StateSpec& spec = model.decoder->spec();
  MNEMON_ASSIGN_OR_RETURN(std::unique_ptr<StateArena> arena,
                          StateArena::Create(spec, {.slots = options.sessions}));
  if (!spec.growing()) return arena;
  const int64_t block_bytes = static_cast<int64_t>(sizeof(float)) *
                              spec.row_elements() * StepBudget{}.block_positions;
  const int64_t blocks = options.state_bytes / block_bytes;
  const int64_t per_session = arena->blocks() / options.sessions;
  if (blocks < per_session) {
    return MakeError(
        absl::StatusCode::kResourceExhausted,
        StrCat("model '", model.facts.name, "': one session's state grows to ",
               per_session * block_bytes, " bytes, state_bytes is ",
               options.state_bytes),
        {.reason = "STATE_BYTES", .field = "state_bytes"});
  }
  if (blocks >= arena->blocks()) return arena;
  return StateArena::Create(spec, {.slots = options.sessions, .blocks = blocks});
}

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(std::vector<EngineModel> models,
                                                       const Options& options) {
  MNEMON_RETURN_IF_ERROR(CheckOptions(options));
  if (models.empty()) return InvalidField("models", "the engine needs a model");
  std::set<std::string> names;
  std::vector<std::unique_ptr<Lane>> lanes;
  for (const EngineModel& model : models) {
    if (!names.insert(model.facts.name).second) {
      return InvalidField("models",
                          StrCat("two models have the name '", model.facts.name, "'"));
    }
    if ((model.decoder == nullptr) == (model.predictor == nullptr)) {
      return InvalidField("models", StrCat("model '", model.facts.name,
                                           "' needs a decoder or a predictor"));
    }
    std::unique_ptr<StateArena> arena;
    if (model.decoder) {
      MNEMON_ASSIGN_OR_RETURN(arena, MakeArena(model, options));
    }
    lanes.push_back(std::make_unique<Lane>(lanes.size(), model, std::move(arena)));
  }
  auto core = std::make_shared<EngineCore>(std::move(lanes), options);
  try {
    return std::unique_ptr<Engine>(new ThreadedEngine(std::move(core)));
  } catch (const std::system_error&) {
    return absl::ResourceExhaustedError("the engine's thread cannot be started");
  }
}

}  // namespace mnemon
