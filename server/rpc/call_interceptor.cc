// SPDX-License-Identifier: MIT
// The hooks of gRPC through which a call gets its RpcCall.
#include <algorithm>
#include <new>
#include <string_view>
#include <utility>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include "base/error.h"
#include "base/out_of_memory.h"
#include "base/strings.h"
#include "server/rpc/call_context.h"
#include "server/rpc/status_mapping.h"
#include "server/transport/peer_text.h"

namespace mnemon {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::InterceptorBatchMethods;

constexpr char kIdHeader[] = "x-request-id";
constexpr std::string_view kOurPackage = "mnemon.v1.";

// The call is shared: context and interceptor are released in no fixed order.
class CallContext final : public grpc::CallbackServerContext {
 public:
  RpcCaller& caller() { return caller_; }

 private:
  RpcCaller caller_{*this};
};

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
        call_(std::make_shared<RpcCall>(method_)) {
    if (connection_ != nullptr) connection_->OnCallBegan();
    if (auto* context = dynamic_cast<CallContext*>(info->server_context())) {
      context->caller().Attach(call_, connection_);
    }
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
        if (call_->no_reactor()) return OutOfMemoryError();
        if (malformed_) {
          return MakeError(absl::StatusCode::kInvalidArgument,
                           "the request cannot be parsed",
                           {.reason = "MALFORMED_MESSAGE"});
        }
        return MethodNotAvailable(
            IsOurs() ? std::string_view(method_).substr(method_.find('/') + 1)
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

  bool IsOurs() const { return method_.rfind(kOurPackage, 0) == 0; }

  const AccessLog& access_log_;
  // That the call came by; null when it has already ended.
  const std::shared_ptr<Connection> connection_;
  const std::string method_;
  const bool health_;
  const bool one_request_;  // and not a stream of them
  const std::shared_ptr<RpcCall> call_;
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

RpcCaller* CallerOf(grpc::ServerContextBase* context) {
  auto* const own = dynamic_cast<CallContext*>(context);
  return own == nullptr || own->caller().call() == nullptr ? nullptr : &own->caller();
}

std::unique_ptr<grpc::ContextAllocator> MakeContextAllocator() {
  return std::make_unique<ContextAllocator>();
}

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
MakeCallInterceptors(const AccessLog& access_log, const ConnectionTable& connections) {
  return std::make_unique<Factory>(access_log, connections);
}

}  // namespace mnemon
