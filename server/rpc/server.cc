// SPDX-License-Identifier: MIT
#include "server/rpc/server.h"

#include <atomic>
#include <bit>
#include <climits>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include "base/error.h"
#include "base/listen_address.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/rpc/call_context.h"
#include "server/rpc/services.h"
#include "server/rpc/transport.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;

constexpr char kReadiness[] = "mnemon.v1.Generation";
// For unary calls and open transports, once no stream is left.
constexpr milliseconds kClosingTime{200};

void SetChannelArguments(const RpcOptions& options, grpc::ServerBuilder& builder) {
  const std::pair<const char*, int> arguments[] = {
      {GRPC_ARG_MAX_CONCURRENT_STREAMS, options.max_concurrent_streams},
      // From the start of a connection to the settings of its peer. Silent ones are
      // shut down before, since gRPC starts a thread for each timer that is due
      // meanwhile.
      {GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 20'000},
      // All that was read is parsed before a connection that was shut down is noticed.
      {GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, 64 << 10},
      // More of a message than this, as of any size, needs a window update, so headers
      // without end can be told apart: traffic_check.h.
      {GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 64 << 10},
      {GRPC_ARG_HTTP2_BDP_PROBE, 0},
      {GRPC_ARG_KEEPALIVE_TIME_MS, 60'000},
      {GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000},
      {GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1},
      {GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10'000},
      // Lets balancers spread connections again; a started stream stays where it is.
      {GRPC_ARG_MAX_CONNECTION_AGE_MS, 3'600'000},
      {GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, INT_MAX},
  };
  for (const auto& [name, value] : arguments) builder.AddChannelArgument(name, value);
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.max_message_bytes));
  // A message is as large as its bytes on the wire: no decompression bombs.
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
}

class GrpcServer final : public RpcServer {
 public:
  GrpcServer(Service& service, const RpcOptions& options)
      : service_(service), unready_(options.unready) {
    services_ = MakeMethodServices(service.parts());
    std::vector<std::string> names = {"mnemon.v1.Generation", "mnemon.v1.Models",
                                      "mnemon.v1.Sessions"};
    if (options.admin != AdminPeers::kNone) {
      services_.push_back(
          MakeAdminService(service.parts().engine, service.drain(), options));
      names.push_back("mnemon.v1.Admin");
    }
    if (options.reflection) services_.push_back(MakeReflectionService(names));
  }

  ~GrpcServer() override {
    if (server_ == nullptr) return;
    Shutdown(milliseconds(0));
    service_.drain().Tell(nullptr);
  }

  absl::Status Listen(const ListenAddress& address, const RpcOptions& options) {
    MNEMON_ASSIGN_OR_RETURN(transport_, Transport::Open(address, options));
    grpc::EnableDefaultHealthCheckService(true);
    grpc::ServerBuilder builder;
    SetChannelArguments(options, builder);
    transport_->AddTo(builder);
    for (const auto& service : services_) builder.RegisterService(service.get());
    AddCallContexts(service_.access_log(), transport_->connections(), builder);
    // Beyond our own limits, because it ends streams at random.
    builder.SetResourceQuota(grpc::ResourceQuota().Resize(
        static_cast<size_t>(2 * options.max_bytes_in_flight)));
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) return ListenFailed(address, "listen");
    service_.drain().Tell([this] { UpdateReadiness(); });
    return transport_->Start();
  }

  int port() const override { return transport_->port(); }

  ConnectionCounts connections() const override {
    return transport_->connections().counts();
  }

  std::string WhyUnreachable() const override { return transport_->WhyUnreachable(); }

  std::string WhyNotAccepting() const override {
    const ConnectionCounts now = connections();
    if (now.paused) return "no descriptor is left for connections";
    return now.full ? "too many connections are open" : "";
  }

  void UpdateReadiness() override {
    const EngineStats now = service_.parts().engine.Stats();
    const bool process = WhyUnreachable().empty() && WhyNotAccepting().empty() &&
                         (!unready_ || unready_().empty());
    bool any = false;
    for (const ModelStats& model : now.models) {
      const bool ready = model.ready && process;
      any = any || ready;
      SetServing(StrCat(kReadiness, "/", model.model), ready);
    }
    SetServing(kReadiness, any);
  }

  void Shutdown(milliseconds grace) override {
    service_.drain().Begin(grace);
    service_.drain().Wait();
    std::lock_guard lock(shutdown_mutex_);
    if (closed_) return;
    transport_->StopAccepting(2 * kClosingTime);
    // gRPC compares with the wall clock; this is only a short wait.
    server_->Shutdown(std::chrono::system_clock::now() + kClosingTime);
    server_->Wait();
    transport_->Stop();
    closed_ = true;
  }

 private:
  // gRPC writes to every watcher, also of a status that stays.
  void SetServing(const std::string& service, bool serving) {
    std::lock_guard lock(serving_mutex_);
    const auto [entry, added] = serving_.emplace(service, serving);
    if (!added && std::exchange(entry->second, serving) == serving) return;
    server_->GetHealthCheckService()->SetServingStatus(service, serving);
  }

  Service& service_;
  const std::function<std::string()> unready_;
  // Constant once Listen has returned.
  std::vector<std::unique_ptr<grpc::Service>> services_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<grpc::Server> server_;

  std::mutex shutdown_mutex_;
  bool closed_ = false;  // guarded by shutdown_mutex_
  std::mutex serving_mutex_;
  std::map<std::string, bool> serving_;  // guarded by serving_mutex_
};

absl::Status CheckOptions(const RpcOptions& options) {
  if (options.max_concurrent_streams < 1) {
    return InvalidField("max_concurrent_streams",
                        "max_concurrent_streams must be >= 1");
  }
  if (options.max_connections < 0) {
    return InvalidField("max_connections", "max_connections must be >= 0");
  }
  if (options.max_bytes_in_flight < 1) {
    return InvalidField("max_bytes_in_flight", "max_bytes_in_flight must be >= 1");
  }
  if (options.max_message_bytes < 1 || options.max_message_bytes > INT_MAX) {
    return InvalidField("max_message_bytes", "max_message_bytes must be 1 .. 2^31 - 1");
  }
  return absl::OkStatus();
}

constexpr size_t kMaxLine = 300;

// The 1st, 2nd, 4th, 8th ... line of a library: enough to see that and how often.
void LogSome(std::atomic<uint64_t>& count, std::string_view library,
             std::string_view text) {
  const uint64_t n = count.fetch_add(1, std::memory_order_relaxed) + 1;
  if (!std::has_single_bit(n)) return;
  LogWarning(StrCat(library, " (message ", n, "): ", text.substr(0, kMaxLine)));
}

void OnProtobufLog(google::protobuf::LogLevel level, const char*, int,
                   const std::string& message) {
  static std::atomic<uint64_t> count{0};
  if (level >= google::protobuf::LOGLEVEL_WARNING) LogSome(count, "protobuf", message);
}

void OnGrpcLog(gpr_log_func_args* args) {
  static std::atomic<uint64_t> count{0};
  if (args->severity == GPR_LOG_SEVERITY_ERROR) LogSome(count, "gRPC", args->message);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(Service& service,
                                                            const RpcOptions& options) {
  MNEMON_RETURN_IF_ERROR(CheckOptions(options));
  MNEMON_ASSIGN_OR_RETURN(ListenAddress address,
                          ParseListenAddress(options.listen, "listen"));
  InstallLibraryLogs();
  auto server = std::make_unique<GrpcServer>(service, options);
  MNEMON_RETURN_IF_ERROR(server->Listen(address, options));
  server->UpdateReadiness();
  return server;
}

std::string RpcLibraryVersion() { return "gRPC " + grpc::Version(); }

void InstallLibraryLogs() {
  google::protobuf::SetLogHandler(&OnProtobufLog);
  gpr_set_log_function(&OnGrpcLog);
}

}  // namespace mnemon
