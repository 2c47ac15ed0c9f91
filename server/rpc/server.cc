// SPDX-License-Identifier: MIT
#include "server/rpc/server.h"

#include <climits>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include "base/error.h"
#include "base/listen_address.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/engine/engine_errors.h"
#include "server/engine/random.h"
#include "server/rpc/admission.h"
#include "server/rpc/call_context.h"
#include "server/rpc/drain.h"
#include "server/rpc/handler_threads.h"
#include "server/rpc/library_logs.h"
#include "server/rpc/open_calls.h"
#include "server/rpc/reflection.h"
#include "server/rpc/services.h"
#include "server/rpc/transport.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

// Of a stream on a local channel, in bytes.
constexpr int kLocalWindow = 1024;
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
  GrpcServer(Engine& engine, const RpcOptions& options)
      : engine_(engine),
        idle_timeout_(options.idle_timeout),
        unready_(options.unready),
        own_attended_(Clock::Real(), kIdlePeriod),
        attended_(options.attended != nullptr ? *options.attended : own_attended_),
        calls_(attended_),
        admission_(options.max_calls_per_second, Clock::Real()),
        drain_(calls_, {.refuse =
                            [this] {
                              engine_.Drain();
                              UpdateReadiness();
                            },
                        .end_idle = [this] { EndIdleCalls(); },
                        .save = [this](auto deadline) { SaveSessions(deadline); },
                        .waiting = [this] { return TextOf(engine_.waiters()); }}) {
    const CallServices shared{.engine = engine,
                              .calls = calls_,
                              .admission = admission_,
                              .handlers = handlers_};
    services_.push_back(MakeGenerationService(shared));
    services_.push_back(MakeSessionsService(shared));
    services_.push_back(MakeModelsService(engine));
    std::vector<std::string> names = {"mnemon.v1.Generation", "mnemon.v1.Models",
                                      "mnemon.v1.Sessions"};
    if (options.admin != AdminPeers::kNone) {
      services_.push_back(
          MakeAdminService(engine, drain_,
                           {.only_loopback = options.admin == AdminPeers::kLoopback,
                            .grace = options.grace}));
      names.insert(names.begin(), "mnemon.v1.Admin");
    }
    if (options.reflection) services_.push_back(MakeReflectionService(names));
  }

  void SaveSessions(SteadyClock::time_point deadline) {
    if (engine_.SaveSessions(deadline)) return;
    LogWarning("not all states of sessions were saved: they will be computed again");
  }

  ~GrpcServer() override {
    if (server_ != nullptr) Shutdown(milliseconds(0));
  }

  absl::Status Listen(const ListenAddress& address, const RpcOptions& options) {
    MNEMON_RETURN_IF_ERROR(drain_.Start());
    MNEMON_ASSIGN_OR_RETURN(transport_, Transport::Open(address, options));
    grpc::EnableDefaultHealthCheckService(true);
    grpc::ServerBuilder builder;
    SetChannelArguments(options, builder);
    transport_->AddTo(builder);
    for (const auto& service : services_) builder.RegisterService(service.get());
    std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>
        interceptors;
    interceptors.push_back(
        MakeCallInterceptors(options.observer, transport_->connections()));
    builder.SetContextAllocator(MakeContextAllocator());
    builder.experimental().SetInterceptorCreators(std::move(interceptors));
    // Beyond our own limits, because it ends streams at random.
    builder.SetResourceQuota(grpc::ResourceQuota().Resize(
        static_cast<size_t>(2 * options.max_bytes_in_flight)));
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) return ListenFailed(address, "listen");
    return transport_->Start(options.local_channel ? local_name_ : "");
  }

  int port() const override { return transport_->port(); }

  std::shared_ptr<grpc::Channel> LocalChannel() override {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    // A reader that does not read holds its call up soon: what it has not asked for is
    // a message or two. Of one that is larger the rest comes once it is being read.
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kLocalWindow);
    arguments.SetMaxReceiveMessageSize(-1);
    return grpc::CreateCustomChannel(StrCat("unix-abstract:", local_name_),
                                     grpc::InsecureChannelCredentials(), arguments);
  }

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
    const EngineStats now = engine_.Stats();
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

  void EndIdleCalls() override {
    attended_.Attend();
    calls_.EndIdle(idle_timeout_, engine_errors::CallerIdle(idle_timeout_));
  }

  size_t open_calls() const override { return calls_.size(); }

  void BeginDrain(milliseconds grace) override { drain_.Begin(grace); }

  void Shutdown(milliseconds grace) override {
    drain_.Begin(grace);
    drain_.Wait();
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

  Engine& engine_;
  const milliseconds idle_timeout_;
  const std::function<std::string()> unready_;
  AttendedClock own_attended_;
  AttendedClock& attended_;
  OpenCalls calls_;
  Admission admission_;
  Drain drain_;
  HandlerThreads handlers_;
  // Constant once Listen has returned.
  std::vector<std::unique_ptr<grpc::Service>> services_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<grpc::Server> server_;
  // Of LocalChannel. gRPC's transport within a process is no way for it: in 1.51 the
  // last message of a stream is lost where nobody reads when it is sent.
  const std::string local_name_ = "mnemon-" + RandomId();

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
  if (options.idle_timeout.count() < 1) {
    return InvalidField("idle_timeout", "idle_timeout must be >= 1 ms");
  }
  if (!std::isfinite(options.max_calls_per_second) ||
      options.max_calls_per_second < 0) {
    return InvalidField("max_calls_per_second",
                        "max_calls_per_second must be finite and >= 0");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(Engine& engine,
                                                            const RpcOptions& options) {
  MNEMON_RETURN_IF_ERROR(CheckOptions(options));
  MNEMON_ASSIGN_OR_RETURN(ListenAddress address,
                          ParseListenAddress(options.listen, "listen"));
  InstallLibraryLogs();
  std::unique_ptr<GrpcServer> server;
  try {
    server = std::make_unique<GrpcServer>(engine, options);
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(StrCat("no thread for calls: ", error.what()));
  }
  MNEMON_RETURN_IF_ERROR(server->Listen(address, options));
  server->UpdateReadiness();
  return server;
}

std::string RpcLibraryVersion() { return "gRPC " + grpc::Version(); }

}  // namespace mnemon
