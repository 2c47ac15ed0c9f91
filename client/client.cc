// SPDX-License-Identifier: MIT
#include "client/client.h"

#include <bit>
#include <mutex>
#include <set>
#include <utility>

#include <grpcpp/grpcpp.h>

#include "base/error.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "client/status.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "mnemon/v1/generation.grpc.pb.h"
#include "mnemon/v1/models.grpc.pb.h"
#include "mnemon/v1/sessions.grpc.pb.h"

namespace mnemon::client {
namespace {

using SteadyClock = std::chrono::steady_clock;

std::shared_ptr<grpc::Channel> MakeChannel(const ClientOptions& options) {
  grpc::ChannelArguments arguments;
  // A server that is cut off is noticed; its limit is a ping per 10 s.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 30'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2'000);
  // Two clients in one process are two connections.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(options.server, grpc::InsecureChannelCredentials(),
                                   arguments);
}

// People write "a", resources are called "sessions/a".
std::string Resource(std::string_view prefix, const std::string& id) {
  if (id.empty() || id.compare(0, prefix.size(), prefix) == 0) return id;
  return StrCat(prefix, id);
}
std::string SessionResource(const std::string& id) { return Resource("sessions/", id); }
std::string ModelResource(const std::string& name) { return Resource("models/", name); }

std::string LastPart(const std::string& resource) {
  return resource.substr(resource.find('/') + 1);
}

SessionSummary Summary(const v1::Session& session) {
  return {.id = LastPart(session.name()),
          .model = LastPart(session.model()),
          .state = v1::Session::State_Name(session.state()),
          .position = session.token_count(),
          .state_size_bytes = session.state_size_bytes()};
}

ModelSummary Summary(const v1::Model& model) {
  ModelSummary summary{.name = LastPart(model.name()),
                       .architecture = model.architecture(),
                       .model_id = model.model_id(),
                       .numerics_id = model.numerics_id(),
                       .config_json = model.config_json(),
                       .parameters = model.parameter_count()};
  if (model.has_context_limit()) summary.context_limit = model.context_limit();
  return summary;
}

v1::GenerateRequest ToMessage(const GenerateOptions& options) {
  v1::GenerateRequest request;
  request.set_session(SessionResource(options.session));
  request.set_model(ModelResource(options.model));
  if (!options.tokens.empty()) {
    request.mutable_prompt()->mutable_tokens()->mutable_ids()->Add(
        options.tokens.begin(), options.tokens.end());
  } else if (!options.text.empty()) {
    request.mutable_prompt()->set_text(options.text);
  }
  v1::Sampling& sampling = *request.mutable_sampling();
  if (options.temperature) sampling.set_temperature(*options.temperature);
  if (options.top_k) sampling.set_top_k(*options.top_k);
  if (options.top_p) sampling.set_top_p(*options.top_p);
  if (options.seed) sampling.set_seed(std::bit_cast<int64_t>(*options.seed));
  v1::Stopping& stopping = *request.mutable_stopping();
  if (options.max_tokens) stopping.set_max_tokens(*options.max_tokens);
  stopping.mutable_stop_token_ids()->Add(options.stop_tokens.begin(),
                                         options.stop_tokens.end());
  return request;
}

// Puts the facts of one message into `result`; true when it was the last one.
bool TakeFacts(const v1::GenerateResponse& message, GenerateResult& result) {
  if (message.has_prompt()) {
    result.seed = std::bit_cast<uint64_t>(message.prompt().seed());
    result.prompt_tokens = message.prompt().token_count();
  }
  if (!message.has_finish()) return false;
  result.finish_reason =
      v1::FinishFacts::FinishReason_Name(message.finish().finish_reason());
  result.generated_tokens = message.finish().generated_token_count();
  return true;
}

class GrpcClient final : public Client {
 public:
  explicit GrpcClient(const ClientOptions& options)
      : options_(options),
        channel_(MakeChannel(options)),
        generation_(v1::Generation::NewStub(channel_)),
        sessions_(v1::Sessions::NewStub(channel_)),
        models_(v1::Models::NewStub(channel_)),
        health_(grpc::health::v1::Health::NewStub(channel_)) {}

  absl::StatusOr<GenerateResult> Generate(
      const GenerateOptions& options,
      const std::function<bool(const GenerateChunk&)>& on_chunk) override {
    MNEMON_RETURN_IF_ERROR(CheckPrompt(options));
    MNEMON_RETURN_IF_ERROR(Reach());
    const SteadyClock::time_point begin = SteadyClock::now();
    GenerateResult result;
    grpc::ClientContext context;
    const Registration registration(*this, context);
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
      wanted = on_chunk({.text = message.text(),
                         .tokens = {message.tokens().begin(), message.tokens().end()},
                         .first_index = message.first_index()});
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

  void CancelGenerate() override {
    std::lock_guard lock(mutex_);
    for (grpc::ClientContext* context : generating_) context->TryCancel();
  }

  absl::StatusOr<SessionSummary> CreateSession(const std::string& id,
                                               const std::string& model) override {
    v1::CreateSessionRequest request;
    request.set_session_id(LastPart(id));
    request.mutable_session()->set_model(ModelResource(model));
    v1::Session session;
    MNEMON_RETURN_IF_ERROR(
        Call(*sessions_, &v1::Sessions::Stub::CreateSession, request, session));
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

 private:
  // Makes a running call known to CancelGenerate.
  class Registration {
   public:
    Registration(GrpcClient& client, grpc::ClientContext& context)
        : client_(client), context_(context) {
      std::lock_guard lock(client_.mutex_);
      client_.generating_.insert(&context_);
    }
    ~Registration() {
      std::lock_guard lock(client_.mutex_);
      client_.generating_.erase(&context_);
    }
    Registration(const Registration&) = delete;
    Registration& operator=(const Registration&) = delete;

   private:
    GrpcClient& client_;
    grpc::ClientContext& context_;
  };

  static absl::Status CheckPrompt(const GenerateOptions& options) {
    if (options.text.empty() || options.tokens.empty()) return absl::OkStatus();
    return InvalidField("prompt", "a prompt is text or tokens, not both");
  }

  // Waits for the connection, but not for one that has failed: the call tells why.
  absl::Status Reach() {
    const auto deadline = std::chrono::system_clock::now() + options_.connect_timeout;
    while (true) {
      const grpc_connectivity_state state = channel_->GetState(true);
      if (state != GRPC_CHANNEL_IDLE && state != GRPC_CHANNEL_CONNECTING) {
        return absl::OkStatus();
      }
      if (!channel_->WaitForStateChange(state, deadline)) {
        return absl::UnavailableError(StrCat("no connection to ", options_.server,
                                             " within ",
                                             options_.connect_timeout.count(), " ms"));
      }
    }
  }

  // A failed connection says which server it was.
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
                    const Request& request, Response& response) {
    MNEMON_RETURN_IF_ERROR(Reach());
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + options_.call_timeout);
    return FromServer((stub.*method)(&context, request, &response));
  }

  const ClientOptions options_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::Generation::Stub> generation_;
  const std::unique_ptr<v1::Sessions::Stub> sessions_;
  const std::unique_ptr<v1::Models::Stub> models_;
  const std::unique_ptr<grpc::health::v1::Health::Stub> health_;
  std::mutex mutex_;
  std::set<grpc::ClientContext*> generating_;  // guarded by mutex_
};

}  // namespace

std::unique_ptr<Client> Client::Connect(const ClientOptions& options) {
  return std::make_unique<GrpcClient>(options);
}

std::string Client::LibraryVersion() { return "gRPC " + grpc::Version(); }

}  // namespace mnemon::client
