// SPDX-License-Identifier: MIT
#include "client/client.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include <grpcpp/grpcpp.h>

#include "base/error.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "client/messages.h"
#include "client/status.h"
#include "client/target.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "mnemon/v1/admin.grpc.pb.h"
#include "mnemon/v1/generation.grpc.pb.h"
#include "mnemon/v1/models.grpc.pb.h"
#include "mnemon/v1/sessions.grpc.pb.h"

namespace mnemon::client {
namespace {

using SteadyClock = std::chrono::steady_clock;

// Of a drain, that a server takes.
constexpr std::chrono::hours kMaxGrace{24};

std::shared_ptr<grpc::Channel> MakeChannel(const ClientOptions& options) {
  grpc::ChannelArguments arguments;
  // Detects a lost connection. The server accepts a ping per 10 s at most.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 30'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2'000);
  // Each client in a process has a connection of its own.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(TargetOf(options.server),
                                   grpc::InsecureChannelCredentials(), arguments);
}

SessionSummary Summary(const v1::Session& session) {
  SessionSummary summary{.id = LastPart(session.name()),
                         .model = LastPart(session.model()),
                         .state = v1::Session::State_Name(session.state()),
                         .position = session.token_count(),
                         .state_size_bytes = session.state_size_bytes()};
  if (session.has_expire_time()) {
    const google::protobuf::Timestamp& time = session.expire_time();
    summary.expire_time = std::chrono::system_clock::time_point(
        std::chrono::seconds(time.seconds()) +
        std::chrono::microseconds(time.nanos() / 1000));
  }
  return summary;
}

ModelSummary Summary(const v1::Model& model) {
  ModelSummary summary{.name = LastPart(model.name()),
                       .architecture = model.architecture(),
                       .model_id = model.model_id(),
                       .numerics_id = model.numerics_id(),
                       .config_json = model.config_json(),
                       .vocab = model.vocab_size(),
                       .parameters = model.parameter_count()};
  if (model.has_context_limit()) summary.context_limit = model.context_limit();
  return summary;
}

class GrpcClient final : public Client {
 public:
  explicit GrpcClient(const ClientOptions& options)
      : options_(options),
        channel_(MakeChannel(options)),
        generation_(v1::Generation::NewStub(channel_)),
        sessions_(v1::Sessions::NewStub(channel_)),
        models_(v1::Models::NewStub(channel_)),
        admin_(v1::Admin::NewStub(channel_)),
        health_(grpc::health::v1::Health::NewStub(channel_)) {}

  absl::StatusOr<GenerateResult> Generate(
      const GenerateOptions& options,
      const std::function<bool(const GenerateChunk&)>& on_chunk) override {
    MNEMON_RETURN_IF_ERROR(CheckPrompt(options));
    grpc::ClientContext context;
    if (options.deadline) {
      context.set_deadline(std::chrono::system_clock::now() + *options.deadline);
    }
    Registration registration(*this, &context);
    MNEMON_RETURN_IF_ERROR(Reach(registration));
    const SteadyClock::time_point begin = SteadyClock::now();
    GenerateResult result;
    auto reader = generation_->Generate(&context, ToMessage(options));
    v1::GenerateResponse message;
    bool wanted = true;
    bool finished = false;
    while (reader->Read(&message)) {
      if (!wanted) continue;
      finished = TakeFacts(message, result) || finished;
      if (message.tokens().empty() && message.text().empty()) continue;
      if (result.time_to_first_token.count() == 0) {
        result.time_to_first_token = SteadyClock::now() - begin;
      }
      wanted = on_chunk(FromMessage(message));
      if (!wanted) context.TryCancel();
    }
    const absl::Status status = FromServer(reader->Finish());
    if (!wanted) return absl::CancelledError("cancelled");
    MNEMON_RETURN_IF_ERROR(status);
    if (!finished)
      return absl::DataLossError("the stream ended without its last facts");
    result.total_time = SteadyClock::now() - begin;
    return result;
  }

  absl::StatusOr<ScoreResult> Score(
      const ScoreOptions& options,
      const std::function<bool(const std::vector<TokenLogprobs>&)>& on_tokens)
      override {
    if (!options.text.empty() && !options.tokens.empty()) return TextAndTokens();
    grpc::ClientContext context;
    Registration registration(*this, &context);
    MNEMON_RETURN_IF_ERROR(Reach(registration));
    auto stream = generation_->Score(&context);
    // The server answers a part before it reads the next one, so responses are read
    // while parts are sent.
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
    const absl::Status status = FromServer(stream->Finish());
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
    MNEMON_RETURN_IF_ERROR(
        Call(*generation_, &v1::Generation::Stub::Tokenize, request, response));
    return std::vector<int32_t>(response.tokens().begin(), response.tokens().end());
  }

  absl::StatusOr<PredictResult> Predict(const PredictOptions& options) override {
    v1::PredictResponse response;
    MNEMON_RETURN_IF_ERROR(Call(*generation_, &v1::Generation::Stub::Predict,
                                ToMessage(options), response));
    return FromMessage(response);
  }

  void CancelCalls() override {
    std::lock_guard lock(mutex_);
    for (Registration* call : calls_) call->Cancel();
  }

  absl::StatusOr<SessionSummary> CreateSession(
      const CreateSessionOptions& options) override {
    v1::Session session;
    MNEMON_RETURN_IF_ERROR(Call(*sessions_, &v1::Sessions::Stub::CreateSession,
                                ToMessage(options), session));
    return Summary(session);
  }

  absl::StatusOr<SessionSummary> GetSession(const std::string& id) override {
    v1::GetSessionRequest request;
    request.set_name(SessionResource(id));
    v1::Session session;
    MNEMON_RETURN_IF_ERROR(
        Call(*sessions_, &v1::Sessions::Stub::GetSession, request, session));
    return Summary(session);
  }

  absl::StatusOr<std::vector<SessionSummary>> ListSessions() override {
    std::vector<SessionSummary> all;
    v1::ListSessionsRequest request;
    do {
      v1::ListSessionsResponse page;
      MNEMON_RETURN_IF_ERROR(
          Call(*sessions_, &v1::Sessions::Stub::ListSessions, request, page));
      for (const v1::Session& session : page.sessions())
        all.push_back(Summary(session));
      request.set_page_token(page.next_page_token());
    } while (!request.page_token().empty());
    return all;
  }

  absl::Status DeleteSession(const std::string& id) override {
    v1::DeleteSessionRequest request;
    request.set_name(SessionResource(id));
    google::protobuf::Empty nothing;
    return Call(*sessions_, &v1::Sessions::Stub::DeleteSession, request, nothing);
  }

  absl::StatusOr<std::vector<ModelSummary>> ListModels() override {
    std::vector<ModelSummary> all;
    v1::ListModelsRequest request;
    do {
      v1::ListModelsResponse page;
      MNEMON_RETURN_IF_ERROR(
          Call(*models_, &v1::Models::Stub::ListModels, request, page));
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
    MNEMON_RETURN_IF_ERROR(
        Call(*health_, &grpc::health::v1::Health::Stub::Check, request, response));
    if (response.status() == HealthCheckResponse::SERVING) return absl::OkStatus();
    return absl::UnavailableError(
        HealthCheckResponse::ServingStatus_Name(response.status()));
  }

  absl::StatusOr<ServerLoad> GetLoad() override {
    v1::Load load;
    MNEMON_RETURN_IF_ERROR(
        Call(*admin_, &v1::Admin::Stub::GetLoad, v1::GetLoadRequest(), load));
    return FromMessage(load);
  }

  absl::StatusOr<int64_t> Drain(
      std::optional<std::chrono::milliseconds> grace) override {
    v1::DrainResponse response;
    MNEMON_RETURN_IF_ERROR(Call(*admin_, &v1::Admin::Stub::Drain, DrainWithin(grace),
                                response, grace.value_or(kMaxGrace)));
    return response.session_count();
  }

 private:
  // Makes a call known to CancelCalls, from before the server is reached.
  class Registration {
   public:
    // `stream` may be null: once the server is reached, such a call is not cancelled.
    Registration(GrpcClient& client, grpc::ClientContext* stream)
        : client_(client), stream_(stream) {
      std::lock_guard lock(client_.mutex_);
      client_.calls_.insert(this);
    }
    ~Registration() {
      std::lock_guard lock(client_.mutex_);
      client_.calls_.erase(this);
    }
    void Cancel() {
      cancelled_ = true;
      if (stream_ != nullptr) stream_->TryCancel();
    }
    bool cancelled() const { return cancelled_; }
    Registration(const Registration&) = delete;
    Registration& operator=(const Registration&) = delete;

   private:
    GrpcClient& client_;
    grpc::ClientContext* const stream_;
    std::atomic<bool> cancelled_ = false;
  };

  static absl::Status TextAndTokens() {
    return InvalidField("prompt", "a prompt is text or tokens, not both");
  }

  static absl::Status CheckPrompt(const GenerateOptions& options) {
    if (options.text.empty() || options.tokens.empty()) return absl::OkStatus();
    return TextAndTokens();
  }

  // Waits for the connection, but not for one that has failed: the call returns
  // the reason.
  absl::Status Reach(const Registration& call) {
    constexpr std::chrono::milliseconds kPatience(100);  // of who has cancelled
    const auto deadline = std::chrono::system_clock::now() + options_.connect_timeout;
    while (true) {
      if (call.cancelled()) return absl::CancelledError("cancelled");
      const grpc_connectivity_state state = channel_->GetState(true);
      if (state != GRPC_CHANNEL_IDLE && state != GRPC_CHANNEL_CONNECTING) {
        return absl::OkStatus();
      }
      const auto now = std::chrono::system_clock::now();
      if (!channel_->WaitForStateChange(state, std::min(now + kPatience, deadline)) &&
          now >= deadline) {
        return absl::UnavailableError(StrCat("no connection to ", options_.server,
                                             " within ",
                                             options_.connect_timeout.count(), " ms"));
      }
    }
  }

  // Adds the address of the server to the error of a failed connection.
  absl::Status FromServer(const grpc::Status& status) const {
    absl::Status ours = FromGrpcStatus(status);
    if (!absl::IsUnavailable(ours) || GetErrorDetail(ours)) return ours;
    return absl::UnavailableError(
        StrCat("server ", options_.server, ": ", status.error_message()));
  }

  template <class Stub, class Request, class Response>
  absl::Status Call(Stub& stub,
                    grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                 Response*),
                    const Request& request, Response& response,
                    std::chrono::milliseconds more = {}) {
    MNEMON_RETURN_IF_ERROR(Reach(Registration(*this, nullptr)));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + options_.call_timeout +
                         more);
    return FromServer((stub.*method)(&context, request, &response));
  }

  const ClientOptions options_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::Generation::Stub> generation_;
  const std::unique_ptr<v1::Sessions::Stub> sessions_;
  const std::unique_ptr<v1::Models::Stub> models_;
  const std::unique_ptr<v1::Admin::Stub> admin_;
  const std::unique_ptr<grpc::health::v1::Health::Stub> health_;
  std::mutex mutex_;
  std::set<Registration*> calls_;  // guarded by mutex_
};

}  // namespace

std::unique_ptr<Client> Client::Connect(const ClientOptions& options) {
  return std::make_unique<GrpcClient>(options);
}

std::string Client::LibraryVersion() { return "gRPC " + grpc::Version(); }

}  // namespace mnemon::client
