// SPDX-License-Identifier: MIT
#include "client/client.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <thread>
#include <utility>

#include <grpcpp/grpcpp.h>

#include "base/error.h"
#include "base/status_macros.h"
#include "client/connection.h"
#include "client/generate_call.h"
#include "client/messages.h"
#include "client/session_calls.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "mnemon/v1/admin.grpc.pb.h"
#include "mnemon/v1/generation.grpc.pb.h"
#include "mnemon/v1/models.grpc.pb.h"

namespace mnemon::client {
namespace {

// Limit of the server for a drain.
constexpr std::chrono::hours kMaxGrace{24};

ModelSummary Summary(const v1::Model& model) {
  ModelSummary summary{.name = LastPart(model.name()),
                       .architecture = model.architecture(),
                       .model_id = model.model_id(),
                       .numerics_id = model.numerics_id(),
                       .config_json = model.config_json(),
                       .vocab = model.vocab_size(),
                       .parameters = model.parameter_count()};
  if (model.has_context_limit()) summary.context_limit = model.context_limit();
  summary.has_chat_template = model.has_chat_template();
  return summary;
}

class GrpcClient final : public Client {
 public:
  explicit GrpcClient(const ClientOptions& options)
      : connection_(options),
        sessions_(connection_),
        generation_(v1::Generation::NewStub(connection_.channel())),
        models_(v1::Models::NewStub(connection_.channel())),
        admin_(v1::Admin::NewStub(connection_.channel())),
        health_(grpc::health::v1::Health::NewStub(connection_.channel())) {}

  absl::StatusOr<GenerateResult> Generate(
      const GenerateOptions& options,
      const std::function<bool(const GenerateChunk&)>& on_chunk) override {
    MNEMON_RETURN_IF_ERROR(Check(options));
    return GenerateCall(connection_, *generation_, options, on_chunk).Run();
  }

  absl::StatusOr<ScoreResult> Score(
      const ScoreOptions& options,
      const std::function<bool(const std::vector<TokenLogprobs>&)>& on_tokens)
      override {
    if (!options.text.empty() && !options.tokens.empty()) return TextAndTokens();
    grpc::ClientContext context;
    Connection::Registration registration(connection_, &context);
    MNEMON_RETURN_IF_ERROR(connection_.Reach(registration));
    auto stream = generation_->Score(&context);
    // The server answers a part before it reads the next, so responses are read while
    // parts are sent.
    std::thread writer([&] {
      bool open = true;
      ForEachScoreMessage(options, [&](const v1::ScoreRequest& message) {
        return open = stream->Write(message);
      });
      if (open) stream->WritesDone();
    });
    std::optional<ScoreResult> result;
    bool wanted = true;
    v1::ScoreResponse message;
    while (stream->Read(&message)) {
      if (!wanted) continue;
      if (message.has_summary()) result = FromMessage(message.summary());
      std::vector<TokenLogprobs> tokens;
      for (const v1::TokenLogprobs& one : message.logprobs()) {
        tokens.push_back(FromMessage(one));
      }
      if (tokens.empty()) continue;
      wanted = on_tokens(tokens);
      if (!wanted) context.TryCancel();
    }
    writer.join();
    const absl::Status status = connection_.FromServer(stream->Finish());
    if (!wanted) return absl::CancelledError("cancelled");
    MNEMON_RETURN_IF_ERROR(status);
    if (!result) return absl::DataLossError("the stream ended without its last facts");
    return *result;
  }

  absl::StatusOr<std::vector<int32_t>> Tokenize(const std::string& model,
                                                const std::string& text) override {
    v1::TokenizeRequest request;
    request.set_model(ModelResource(model));
    request.set_text(text);
    v1::TokenizeResponse response;
    MNEMON_RETURN_IF_ERROR(connection_.Call(
        *generation_, &v1::Generation::Stub::Tokenize, request, response));
    return std::vector<int32_t>(response.tokens().begin(), response.tokens().end());
  }

  absl::StatusOr<PredictResult> Predict(const PredictOptions& options) override {
    v1::PredictResponse response;
    MNEMON_RETURN_IF_ERROR(connection_.Call(
        *generation_, &v1::Generation::Stub::Predict, ToMessage(options), response));
    return FromMessage(response);
  }

  void CancelCalls() override { connection_.CancelCalls(); }

  absl::StatusOr<Session> CreateSession(const CreateSessionOptions& options) override {
    return sessions_.Create(options);
  }
  absl::StatusOr<Session> GetSession(const std::string& id) override {
    return sessions_.Get(id);
  }
  absl::StatusOr<SessionPage> ListSessionPage(
      const ListSessionsOptions& options) override {
    return sessions_.List(options);
  }
  absl::StatusOr<Session> UpdateSession(const UpdateSessionOptions& options) override {
    return sessions_.Update(options);
  }
  absl::Status DeleteSession(const DeleteSessionOptions& options) override {
    return sessions_.Delete(options);
  }
  absl::StatusOr<Session> ForkSession(const ForkSessionOptions& options) override {
    return sessions_.Fork(options);
  }
  absl::StatusOr<Session> RewindSession(const RewindSessionOptions& options) override {
    return sessions_.Rewind(options);
  }
  absl::StatusOr<SessionCheckpoint> CheckpointSession(
      const CheckpointSessionOptions& options) override {
    return sessions_.Checkpoint(options);
  }
  absl::StatusOr<ExportedSession> ExportSession(const std::string& id,
                                                const SnapshotSink& sink) override {
    return sessions_.Export(id, sink);
  }
  absl::StatusOr<Session> ImportSession(const ImportSessionOptions& options,
                                        const SnapshotSource& source) override {
    return sessions_.Import(options, source);
  }
  absl::StatusOr<Verification> VerifySession(const std::string& id,
                                             bool replay) override {
    return sessions_.Verify(id, replay);
  }

  absl::StatusOr<std::vector<ModelSummary>> ListModels() override {
    std::vector<ModelSummary> all;
    v1::ListModelsRequest request;
    do {
      v1::ListModelsResponse page;
      MNEMON_RETURN_IF_ERROR(
          connection_.Call(*models_, &v1::Models::Stub::ListModels, request, page));
      for (const v1::Model& model : page.models()) all.push_back(Summary(model));
      request.set_page_token(page.next_page_token());
    } while (!request.page_token().empty());
    return all;
  }

  absl::Status CheckHealth(const std::string& service) override {
    using grpc::health::v1::HealthCheckResponse;
    grpc::health::v1::HealthCheckRequest request;
    request.set_service(service);
    HealthCheckResponse response;
    MNEMON_RETURN_IF_ERROR(connection_.Call(
        *health_, &grpc::health::v1::Health::Stub::Check, request, response));
    if (response.status() == HealthCheckResponse::SERVING) return absl::OkStatus();
    return absl::UnavailableError(
        HealthCheckResponse::ServingStatus_Name(response.status()));
  }

  absl::StatusOr<ServerLoad> GetLoad() override {
    v1::Load load;
    MNEMON_RETURN_IF_ERROR(connection_.Call(*admin_, &v1::Admin::Stub::GetLoad,
                                            v1::GetLoadRequest(), load));
    return FromMessage(load);
  }

  absl::StatusOr<int64_t> Drain(
      std::optional<std::chrono::milliseconds> grace) override {
    v1::DrainResponse response;
    MNEMON_RETURN_IF_ERROR(
        connection_.Call(*admin_, &v1::Admin::Stub::Drain, DrainWithin(grace), response,
                         Connection::Repeat::kNo, grace.value_or(kMaxGrace)));
    return response.session_count();
  }

 private:
  static absl::Status TextAndTokens() {
    return InvalidField("prompt", "a prompt is text or tokens, not both");
  }

  static absl::Status Check(const GenerateOptions& options) {
    if (!options.text.empty() && !options.tokens.empty()) return TextAndTokens();
    if (options.resume.after &&
        (options.session.empty() || options.request_id.empty())) {
      return InvalidField("resume_after_index",
                          "needs the session and the request id of the call");
    }
    return absl::OkStatus();
  }

  Connection connection_;
  SessionCalls sessions_;
  const std::unique_ptr<v1::Generation::Stub> generation_;
  const std::unique_ptr<v1::Models::Stub> models_;
  const std::unique_ptr<v1::Admin::Stub> admin_;
  const std::unique_ptr<grpc::health::v1::Health::Stub> health_;
};

}  // namespace

std::unique_ptr<Client> Client::Connect(const ClientOptions& options) {
  return std::make_unique<GrpcClient>(options);
}

absl::StatusOr<std::vector<Session>> Client::ListSessions(const std::string& filter,
                                                          const std::string& order_by) {
  std::vector<Session> all;
  ListSessionsOptions options{.filter = filter, .order_by = order_by};
  do {
    MNEMON_ASSIGN_OR_RETURN(SessionPage page, ListSessionPage(options));
    std::move(page.sessions.begin(), page.sessions.end(), std::back_inserter(all));
    if (!page.next_page_token.empty() && page.next_page_token == options.page_token) {
      return absl::DataLossError("the server's list of sessions does not go on");
    }
    options.page_token = std::move(page.next_page_token);
  } while (!options.page_token.empty());
  return all;
}

std::string Client::LibraryVersion() { return "gRPC " + grpc::Version(); }

}  // namespace mnemon::client
