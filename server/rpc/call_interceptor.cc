// SPDX-License-Identifier: MIT
#include "server/rpc/call_interceptor.h"

#include <algorithm>
#include <mutex>
#include <string_view>
#include <utility>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "base/log.h"
#include "base/strings.h"
#include "server/rpc/request_ids.h"

namespace mnemon {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::InterceptorBatchMethods;
using SteadyClock = std::chrono::steady_clock;

constexpr char kIdHeader[] = "x-request-id";

// gRPC's own implementation of it takes plain bytes for messages and has no descriptor.
bool IsHealth(std::string_view method) {
  return method == "grpc.health.v1.Health/Check" ||
         method == "grpc.health.v1.Health/Watch";
}

// "/mnemon.v1.Generation/Generate" without the first slash. Callers choose the text, so
// only methods that we know are told apart.
std::string KnownMethod(const char* path) {
  std::string method = path[0] == '/' ? path + 1 : path;
  if (IsHealth(method)) return method;
  std::string dotted = method;
  std::replace(dotted.begin(), dotted.end(), '/', '.');
  const auto* pool = google::protobuf::DescriptorPool::generated_pool();
  return pool->FindMethodByName(dotted) != nullptr ? method : "other";
}

std::string NameOf(grpc::StatusCode code) {
  return absl::StatusCodeToString(static_cast<absl::StatusCode>(code));
}

// Hooks of one call come from several threads, reads and writes at the same time.
class CallInterceptor final : public grpc::experimental::Interceptor {
 public:
  CallInterceptor(grpc::experimental::ServerRpcInfo* info, const CallWatch& watch)
      : watch_(watch),
        context_(info->server_context()),
        start_(SteadyClock::now()),
        record_{.method = KnownMethod(info->method())},
        health_(IsHealth(record_.method)) {
    if (watch_.started) watch_.started(record_.method);
  }

  ~CallInterceptor() override {
    {
      std::lock_guard lock(mutex_);
      if (ended_) return;
      record_.status = "CANCELLED";
    }
    End();
  }

  void Intercept(InterceptorBatchMethods* methods) override {
    const auto at = [&](InterceptionHookPoints point) {
      return methods->QueryInterceptionHookPoint(point);
    };
    if (at(InterceptionHookPoints::POST_RECV_INITIAL_METADATA)) Begin(methods);
    if (at(InterceptionHookPoints::POST_RECV_MESSAGE)) {
      const int64_t size = SizeOf(methods->GetRecvMessage());
      std::lock_guard lock(mutex_);
      record_.received_bytes += size;
    }
    if (at(InterceptionHookPoints::PRE_SEND_MESSAGE)) {
      const grpc::ByteBuffer* bytes = methods->GetSerializedSendMessage();
      if (bytes != nullptr) {
        std::lock_guard lock(mutex_);
        record_.sent_bytes += static_cast<int64_t>(bytes->Length());
      }
    }
    if (at(InterceptionHookPoints::PRE_SEND_STATUS)) {
      {
        std::lock_guard lock(mutex_);
        record_.status = NameOf(methods->GetSendStatus().error_code());
        // Not in the headers: once those are sent a client does not try again.
        methods->GetSendTrailingMetadata()->emplace(kIdHeader, record_.request_id);
      }
      End();
    }
    methods->Proceed();
  }

 private:
  // Of a message received; null at the end of a stream.
  int64_t SizeOf(const void* message) const {
    if (message == nullptr) return 0;
    if (health_) {
      return static_cast<int64_t>(
          static_cast<const grpc::ByteBuffer*>(message)->Length());
    }
    return static_cast<int64_t>(
        static_cast<const google::protobuf::Message*>(message)->ByteSizeLong());
  }

  void Begin(InterceptorBatchMethods* methods) {
    std::string_view sent;
    const auto* headers = methods->GetRecvInitialMetadata();
    if (headers != nullptr) {
      const auto found = headers->find(kIdHeader);
      if (found != headers->end()) {
        sent = {found->second.data(), found->second.size()};
      }
    }
    std::lock_guard lock(mutex_);
    record_.request_id = ChooseRequestId(sent);
    RememberRequestId(context_, record_.request_id);
  }

  void End() {
    CallRecord record;
    {
      std::lock_guard lock(mutex_);
      if (std::exchange(ended_, true)) return;
      record_.took = SteadyClock::now() - start_;
      record = record_;
    }
    ForgetRequestId(context_);
    // Probes come every few seconds for ever.
    LogEvent(health_ ? LogLevel::kDebug : LogLevel::kInfo, "call",
             {{"request_id", record.request_id},
              {"method", record.method},
              {"status", record.status},
              {"ms", absl::StrFormat("%.3f", record.took.count() * 1000)},
              {"received_bytes", StrCat(record.received_bytes)},
              {"sent_bytes", StrCat(record.sent_bytes)}});
    if (watch_.ended) watch_.ended(record);
  }

  const CallWatch& watch_;
  const grpc::ServerContextBase* const context_;
  const SteadyClock::time_point start_;
  std::mutex mutex_;
  CallRecord record_;  // guarded by mutex_
  const bool health_;
  bool ended_ = false;  // guarded by mutex_
};

class Factory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit Factory(CallWatch watch) : watch_(std::move(watch)) {}
  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override {
    return new CallInterceptor(info, watch_);
  }

 private:
  const CallWatch watch_;  // outlives every call: the server owns this factory
};

}  // namespace

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
MakeCallInterceptors(CallWatch watch) {
  return std::make_unique<Factory>(std::move(watch));
}

}  // namespace mnemon
