// SPDX-License-Identifier: MIT
#include "server/serve.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <utility>

#include "base/files/file.h"
#include "base/listen_address.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/gateway/gateway.h"
#include "server/http/http_server.h"
#include "server/http/metrics.h"
#include "server/http/probes.h"
#include "server/store/session_store.h"
#include "server/transport/peer_text.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;

// Between updates of the health service, which probes ask every few seconds.
constexpr milliseconds kUpdatePeriod = Service::kIdlePeriod;

// Time that peers have to take the last answers, and time that is left until the limit
// of the shutdown for what ends afterwards.
constexpr milliseconds kLastAnswers{2000};
constexpr milliseconds kLastEnds{300};

// Time from the idle limit, which ends the call of an HTTP client that reads nothing,
// until its connection is closed.
constexpr milliseconds kIdleClient{1000};

// How long a line of the log may wait for standard error.
constexpr milliseconds kLogBlocked{5000};

std::string WhyLogUnready() { return WhyProcessUnready(log_counts()); }

// For /readyz; gRPC's health service asks the same.
std::string WhyUnready(const RpcServer& rpc) {
  for (const std::string& why :
       {rpc.WhyUnreachable(), rpc.WhyNotAccepting(), WhyLogUnready()}) {
    if (!why.empty()) return why;
  }
  return "";
}

void Stop(Service& service, RpcServer& rpc, milliseconds grace, ShutdownLimit& limit) {
  const Engine& engine = service.parts().engine;
  LogInfo(StrCat("stopping: new work is refused, calls have ", grace.count(), " ms"));
  NotifyServiceManager("STOPPING=1");
  limit.Begin(
      grace,
      {.hurry = [&service] { service.drain().Begin(milliseconds(0)); },
       .calls = [&service] { return static_cast<int64_t>(service.open_calls()); },
       .waiting = [&engine] { return TextOf(engine.waiters()); }});
  rpc.Shutdown(grace);
  limit.Leave();
  const int64_t sessions = engine.CountUnstored();
  LogInfo(sessions == 0
              ? "stopped"
              : StrCat("stopped; lost, since they were in memory alone: ", sessions,
                       sessions == 1 ? " session" : " sessions"));
}

// Null without a directory.
absl::StatusOr<std::unique_ptr<SessionStore>> OpenStore(const std::string& directory) {
  if (!directory.empty()) return OpenSessionStore(directory);
  LogInfo(
      "sessions are kept in memory alone and end with the process: there is no "
      "--data-dir");
  return nullptr;
}

void LogRecovery(const std::string& directory, const Recovery& recovery,
                 milliseconds took) {
  std::string also;
  const auto add = [&](int64_t count, const char* what) {
    if (count > 0) also += StrCat(", ", count, what);
  };
  add(recovery.expired, " expired meanwhile");
  add(recovery.foreign, " of models that are not loaded as they were: kept");
  add(recovery.damaged, " with damaged records: not served");
  LogInfo(StrCat(directory, ": ", recovery.sessions,
                 recovery.sessions == 1 ? " session" : " sessions", " restored in ",
                 took.count(), " ms", also));
}

void LogStoredTier(const std::string& directory, const std::vector<EngineModel>& models,
                   const EngineOptions& options) {
  std::error_code failed;
  const auto space = std::filesystem::space(directory, failed);
  if (failed) return;
  for (const EngineModel& model : models) {
    if (model.decoder == nullptr) continue;
    const StoredTier tier = PlanStore(model.decoder->spec(), model.facts.context_limit,
                                      options, static_cast<int64_t>(space.available));
    LogInfo(StrCat("model ", model.facts.name, ": ", tier.sessions, " sessions of ",
                   tier.tokens, " tokens fit in ", directory, ", each in up to ",
                   tier.session_bytes, " bytes, as ", space.available, " are free"));
  }
}

// The HTTP server and what it serves.
struct HttpDoor {
  explicit HttpDoor(const ShutdownLimit& its_limit) : limit(its_limit) {}

  const ShutdownLimit& limit;
  std::unique_ptr<Gateway> gateway;  // null: probes alone
  std::unique_ptr<HttpServer> server;

  ~HttpDoor() {
    if (server == nullptr) return;
    // The last answers are still being written.
    const milliseconds left = limit.Left(kLastAnswers + kLastEnds) - kLastEnds;
    server->AwaitAnswers(std::max(left, milliseconds(0)));
    server->Stop();
    gateway.reset();
  }
};

// Null without an address.
absl::StatusOr<std::unique_ptr<HttpDoor>> StartHttp(const ServeOptions& options,
                                                    Service& service,
                                                    const Metrics& metrics,
                                                    const ShutdownLimit& limit,
                                                    const RpcServer& rpc) {
  if (options.http.empty()) return nullptr;
  MNEMON_ASSIGN_OR_RETURN(ListenAddress address,
                          ParseListenAddress(options.http, "http"));
  const Engine& engine = service.parts().engine;
  const ProbeSources probes{.stats = [&engine] { return engine.Stats(); },
                            .metrics =
                                [&metrics, &rpc](const EngineStats& now) {
                                  return metrics.Text(now, rpc.connections(),
                                                      WhyUnready(rpc));
                                },
                            .unready = [&rpc] { return WhyUnready(rpc); },
                            .dead = [&rpc] { return rpc.WhyUnreachable(); }};
  auto door = std::make_unique<HttpDoor>(limit);
  if (options.http_api) {
    const int64_t body = options.rpc.max_message_bytes;
    MNEMON_ASSIGN_OR_RETURN(
        door->gateway,
        Gateway::Create(
            service,
            {.max_body_bytes = body,
             .max_bodies_bytes = std::max<int64_t>(64 << 20, 2 * body),
             .origins = options.http_origins,
             .loopback = address.host == "localhost" || IsLoopback(address.host)}));
  }
  MNEMON_ASSIGN_OR_RETURN(
      door->server,
      HttpServer::Start(
          {.host = address.host,
           .port = address.port,
           .write_timeout = options.engine.idle_timeout + kIdleClient},
          [probes,
           gateway = door->gateway.get()](std::shared_ptr<HttpExchange> exchange) {
            if (gateway != nullptr && !IsProbe(exchange->request().path)) {
              return gateway->Handle(std::move(exchange));
            }
            exchange->Respond(AnswerProbe(probes, exchange->request()));
          }));
  address.port = door->server->port();
  if (!options.http_port_file.empty()) {
    MNEMON_RETURN_IF_ERROR(
        WriteFileDurably(options.http_port_file, StrCat(address.port, "\n")));
  }
  const std::string page = StrCat("http://", address.Text());
  LogInfo(
      StrCat(door->gateway == nullptr
                 ? std::string()
                 : StrCat("playground on ", page, "/, OpenAI's API on ", page, "/v1, "),
             "metrics on ", page, "/metrics"));
  return door;
}

}  // namespace

std::string WhyProcessUnready(const LogCounts& log) {
  return log.blocked > kLogBlocked && log.lost_meanwhile > 0 ? "log blocked" : "";
}

absl::Status Serve(std::vector<EngineModel> models, const ServeOptions& options,
                   SignalWaiter& signals, ShutdownLimit& limit) {
  std::vector<ModelFacts> facts;
  for (const EngineModel& model : models) facts.push_back(model.facts);
  const std::shared_ptr<Metrics> metrics = Metrics::Create(
      facts,
      {.version = Version(), .commit = Commit(), .libraries = options.libraries});
  AttendedClock attended(*options.engine.clock, kUpdatePeriod);
  Engine::Options engine_options = options.engine;
  engine_options.idle_clock = &attended;
  RpcOptions rpc_options = options.rpc;
  rpc_options.on_unreachable = [](const std::string& why) {
    // A server that cannot be reached cannot end its calls in order either.
    LogError(StrCat("the process ends: ", why));
    FlushLog();
    std::_Exit(1);
  };
  rpc_options.unready = WhyLogUnready;
  ServiceOptions service_options = options.service;
  service_options.attended = &attended;
  service_options.idle_timeout = engine_options.idle_timeout;
  if (!options.http.empty()) {
    engine_options.observer = metrics;
    service_options.observer = metrics;
  }
  MNEMON_ASSIGN_OR_RETURN(const std::unique_ptr<SessionStore> store,
                          OpenStore(options.data_dir));
  engine_options.store = store.get();
  if (store != nullptr) LogStoredTier(options.data_dir, models, engine_options);
  const auto begin = std::chrono::steady_clock::now();
  MNEMON_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine,
                          Engine::Create(std::move(models), engine_options));
  if (store != nullptr) {
    LogRecovery(options.data_dir, engine->recovery(),
                std::chrono::duration_cast<milliseconds>(
                    std::chrono::steady_clock::now() - begin));
  }
  MNEMON_ASSIGN_OR_RETURN(const std::unique_ptr<Service> service,
                          Service::Create(*engine, service_options));
  MNEMON_ASSIGN_OR_RETURN(const std::unique_ptr<RpcServer> rpc,
                          RpcServer::Start(*service, rpc_options));
  MNEMON_ASSIGN_OR_RETURN(const std::unique_ptr<HttpDoor> http,
                          StartHttp(options, *service, *metrics, limit, *rpc));
  const std::string port = StrCat(rpc->port());
  if (!options.port_file.empty()) {
    MNEMON_RETURN_IF_ERROR(WriteFileDurably(options.port_file, port + "\n"));
  }
  const std::string& listen = options.rpc.listen;
  LogInfo(StrCat("listening on ", listen.substr(0, listen.rfind(':')), ":", port));
  NotifyServiceManager("READY=1");
  while (signals.WaitFor(static_cast<int>(kUpdatePeriod.count())) == 0) {
    rpc->UpdateReadiness();
    service->EndIdleCalls();
  }
  Stop(*service, *rpc, options.rpc.grace, limit);
  return absl::OkStatus();
}

}  // namespace mnemon
