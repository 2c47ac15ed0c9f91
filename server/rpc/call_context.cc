// SPDX-License-Identifier: MIT
#include "server/rpc/call_context.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <string_view>
#include <vector>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <grpc/grpc.h>
#include <grpcpp/support/server_interceptor.h>

#include "base/error.h"
#include "base/out_of_memory.h"
#include "base/strings.h"
#include "server/rpc/status_mapping.h"
#include "server/transport/peer_text.h"

namespace mnemon {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::InterceptorBatchMethods;

constexpr char kIdHeader[] = "x-request-id";

// The call is shared: context and interceptor are released in no fixed order.
class CallContext final : public grpc::CallbackServerContext {
 public:
  RpcCaller& caller() { return caller_; }

 private:
  RpcCaller caller_{*this};
};

RpcCaller* OwnCaller(grpc::ServerContextBase* context) {
  auto* const own = dynamic_cast<CallContext*>(context);
  return own == nullptr ? nullptr : &own->caller();
}

// gRPC's class for calls of unknown methods is final, so those keep its own context.
class ContextAllocator final : public grpc::ContextAllocator {
 public:
  grpc::CallbackServerContext* NewCallbackServerContext() override {
    return new CallContext;
  }
  // Also called with contexts that gRPC has made and owns.
  void Release(grpc::CallbackServerContext* context) override {
    delete dynamic_cast<CallContext*>(context);
  }
};

// gRPC's own implementation of it takes plain bytes for messages and has no descriptor.
bool IsHealth(std::string_view method) {
  return method == "grpc.health.v1.Health/Check" ||
         method == "grpc.health.v1.Health/Watch";
}

// UNIMPLEMENTED for a method that a later version brings.
absl::Status MethodNotAvailable(const std::string& method) {
  return MakeError(
      absl::StatusCode::kUnimplemented,
      StrCat(method, " is not available in this version"),
      {.reason = "METHOD_UNIMPLEMENTED", .metadata = {{"method", method}}});
}

// "/mnemon.v1.Generation/Generate" without the first slash. Callers choose the text, so
// only known methods are distinguished.
std::string KnownMethod(const char* path) {
  const std::string method = path[0] == '/' ? path + 1 : path;
  if (IsHealth(method)) return method;
  std::string dotted = method;
  std::replace(dotted.begin(), dotted.end(), '/', '.');
  const auto* pool = google::protobuf::DescriptorPool::generated_pool();
  const auto* found = pool->FindMethodByName(dotted);
  // One text per method: the lookup does not know where the slashes were.
  const bool known = found != nullptr && method == StrCat(found->service()->full_name(),
                                                          "/", found->name());
  return known ? method : "other";
}

class CallInterceptor final : public grpc::experimental::Interceptor {
 public:
  CallInterceptor(grpc::experimental::ServerRpcInfo* info, const AccessLog& access_log,
                  const ConnectionTable& connections)
      : access_log_(access_log),
        connection_(connections.Find(PeerText(info->server_context()->peer()))),
        method_(KnownMethod(info->method())),
        health_(IsHealth(method_)),
        one_request_(info->type() == grpc::experimental::ServerRpcInfo::Type::UNARY ||
                     info->type() ==
                         grpc::experimental::ServerRpcInfo::Type::SERVER_STREAMING),
        caller_(OwnCaller(info->server_context())),
        call_(std::make_shared<CallProgress>(method_)) {
    if (connection_ != nullptr) connection_->OnCallBegan();
    if (caller_ != nullptr) caller_->Attach(call_, connection_);
    access_log_.Begin(method_);
  }

  // gRPC releases a call on a thread of its own, so the thread that calls Finish never
  // waits for log or metrics.
  ~CallInterceptor() override {
    // Probes come every few seconds.
    const AccessRecord record =
        access_log_.End(*call_, health_ ? LogLevel::kDebug : LogLevel::kInfo);
    if (connection_ != nullptr) {
      connection_->OnCallEnded(record.status == absl::StatusCode::kCancelled,
                               record.received_bytes);
    }
  }

  void Intercept(InterceptorBatchMethods* methods) override {
    try {
      Record(*methods);
    } catch (const std::bad_alloc&) {
      // The record lacks something, the call goes on.
    }
    methods->Proceed();
  }

 private:
  void Record(InterceptorBatchMethods& methods) {
    const auto at = [&](InterceptionHookPoints point) {
      return methods.QueryInterceptionHookPoint(point);
    };
    if (at(InterceptionHookPoints::POST_RECV_INITIAL_METADATA)) {
      call_->SetRequestId(ChooseRequestId(SentId(methods)));
    }
    if (at(InterceptionHookPoints::POST_RECV_MESSAGE)) {
      const void* const message = methods.GetRecvMessage();
      malformed_ = one_request_ && message == nullptr;
      const int64_t bytes = SizeOf(message);
      call_->AddReceivedBytes(bytes);
      if (connection_ != nullptr) connection_->OnMessageReceived(bytes);
    }
    if (at(InterceptionHookPoints::PRE_SEND_MESSAGE)) {
      if (connection_ != nullptr) connection_->OnMessageSent();
      call_->AddSentBytes(SizeToSend(methods));
    }
    if (at(InterceptionHookPoints::PRE_SEND_STATUS)) EndWith(methods);
  }

  static std::string_view SentId(InterceptorBatchMethods& methods) {
    const auto* headers = methods.GetRecvInitialMetadata();
    if (headers == nullptr) return {};
    const auto found = headers->find(kIdHeader);
    if (found == headers->end()) return {};
    return {found->second.data(), found->second.size()};
  }

  // Without serializing it: when memory runs out there, gRPC serializes it again into
  // the same buffer, and aborts.
  int64_t SizeToSend(InterceptorBatchMethods& methods) const {
    if (const void* const message = methods.GetSendMessage()) return SizeOf(message);
    const grpc::ByteBuffer* const bytes = methods.GetSerializedSendMessage();
    return bytes == nullptr ? 0 : static_cast<int64_t>(bytes->Length());
  }

  // Of a message received or to send; null at the end of a stream.
  int64_t SizeOf(const void* message) const {
    if (message == nullptr) return 0;
    if (health_) {
      return static_cast<int64_t>(
          static_cast<const grpc::ByteBuffer*>(message)->Length());
    }
    return static_cast<int64_t>(
        static_cast<const google::protobuf::Message*>(message)->ByteSizeLong());
  }

  void EndWith(InterceptorBatchMethods& methods) {
    grpc::Status status = methods.GetSendStatus();
    const auto code = static_cast<absl::StatusCode>(status.error_code());
    // Our own errors have details; these come from gRPC.
    if (!status.ok() && status.error_details().empty() &&
        code != absl::StatusCode::kCancelled &&
        code != absl::StatusCode::kDeadlineExceeded) {
      const absl::Status error = ErrorOf(code, status.error_message());
      status = ToGrpcStatus(error, {}, nullptr);
      methods.ModifySendStatus(status);
      call_->SetReason(GetErrorDetail(error).value_or(ErrorDetail{}).reason);
    }
    call_->End(static_cast<absl::StatusCode>(status.error_code()));
    // Not in the headers: once those are sent a client does not try again.
    methods.GetSendTrailingMetadata()->emplace(kIdHeader, call_->request_id());
  }

  // What an error without details stands for.
  absl::Status ErrorOf(absl::StatusCode code, const std::string& text) const {
    switch (code) {
      case absl::StatusCode::kUnimplemented:
        // gRPC's answer, too, where there is no request or no reactor.
        if (caller_ != nullptr && caller_->no_reactor()) return OutOfMemoryError();
        if (malformed_) {
          return MakeError(absl::StatusCode::kInvalidArgument,
                           "the request cannot be parsed",
                           {.reason = "MALFORMED_MESSAGE"});
        }
        return MethodNotAvailable(method_.starts_with("mnemon.v1.")
                                      ? method_.substr(method_.find('/') + 1)
                                      : "the method");
      case absl::StatusCode::kNotFound:  // by the health service
        return MakeError(code, text.empty() ? "the service is unknown" : text,
                         {.reason = "MODEL_NOT_FOUND"});
      case absl::StatusCode::kResourceExhausted:
        if (text.empty()) return OutOfMemoryError();
        [[fallthrough]];
      default:
        return MakeError(code, text, {.reason = absl::StatusCodeToString(code)});
    }
  }

  const AccessLog& access_log_;
  // That the call came by; null when it has already ended.
  const std::shared_ptr<Connection> connection_;
  const std::string method_;
  const bool health_;
  const bool one_request_;  // and not a stream of them
  // Null for an unknown method. Not to be used after the status is sent.
  RpcCaller* const caller_;
  const std::shared_ptr<CallProgress> call_;
  bool malformed_ = false;  // the request; of the thread that gRPC calls on
};

class Factory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  Factory(const AccessLog& access_log, const ConnectionTable& connections)
      : access_log_(access_log), connections_(connections) {}
  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override {
    return new CallInterceptor(info, access_log_, connections_);
  }

 private:
  const AccessLog& access_log_;
  const ConnectionTable& connections_;
};

}  // namespace

std::optional<Caller::Time> RpcCaller::deadline() const {
  using std::chrono::system_clock;
  const system_clock::time_point deadline = context_.deadline();
  const system_clock::time_point now = system_clock::now();
  // Without a deadline gRPC gives the greatest time.
  constexpr std::chrono::hours kNone{24 * 36525};
  if (deadline > now + kNone) return std::nullopt;
  return std::chrono::steady_clock::now() + (std::max(deadline, now) - now);
}

std::function<void(const absl::Status&)> RpcCaller::CancelFunction() {
  // Of gRPC's core: the context, and with it TryCancel, may be gone when the function
  // is called.
  grpc_call_ref(context_.c_call());
  std::shared_ptr<grpc_call> transport(context_.c_call(), grpc_call_unref);
  return [transport = std::move(transport), call = call_](const absl::Status& status) {
    call->ReplaceEnd(status.code(),
                     GetErrorDetail(status).value_or(ErrorDetail{}).reason);
    grpc_call_cancel_with_status(transport.get(),
                                 static_cast<grpc_status_code>(status.code()),
                                 std::string(status.message()).c_str(), nullptr);
  };
}

void RpcCaller::Answer(const absl::Status& status, const RequestScope& scope) {
  reactor_->Finish(ToGrpcStatus(status, scope, &context_));
}

RpcCaller* CallerOf(grpc::ServerContextBase* context) {
  RpcCaller* const own = OwnCaller(context);
  return own == nullptr || !own->attached() ? nullptr : own;
}

void AddCallContexts(const AccessLog& access_log, const ConnectionTable& connections,
                     grpc::ServerBuilder& builder) {
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>
      factories;
  factories.push_back(std::make_unique<Factory>(access_log, connections));
  builder.experimental().SetInterceptorCreators(std::move(factories));
  builder.SetContextAllocator(std::make_unique<ContextAllocator>());
}

}  // namespace mnemon
