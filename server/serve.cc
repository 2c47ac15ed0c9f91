// SPDX-License-Identifier: MIT
#include "server/serve.h"

#include <future>
#include <memory>
#include <utility>

#include "base/file.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;

// Between looks at signals while something else is waited for.
constexpr milliseconds kPoll{20};

void Drain(Engine& engine, RpcServer& rpc, milliseconds grace, SignalWaiter& signals) {
  LogInfo(StrCat("stopping: new work is refused, streams have ", grace.count(), " ms"));
  rpc.SetReady(false);
  engine.Drain();
  std::future<void> closed =
      std::async(std::launch::async, [&rpc, grace] { rpc.Shutdown(grace); });
  while (closed.wait_for(milliseconds(0)) != std::future_status::ready) {
    if (signals.WaitFor(static_cast<int>(kPoll.count())) == 0) continue;
    LogWarning("second signal: streams end now");
    rpc.Shutdown(milliseconds(0));
  }
  closed.get();
  LogInfo("stopped");
}

}  // namespace

absl::Status Serve(std::vector<EngineModel> models, const ServeOptions& options,
                   SignalWaiter& signals) {
  MNEMON_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine,
                          Engine::Create(std::move(models), options.engine));
  MNEMON_ASSIGN_OR_RETURN(std::unique_ptr<RpcServer> rpc,
                          RpcServer::Start(*engine, options.rpc));
  const std::string port = StrCat(rpc->port());
  if (!options.port_file.empty()) {
    MNEMON_RETURN_IF_ERROR(WriteFileDurably(options.port_file, port + "\n"));
  }
  const std::string& listen = options.rpc.listen;
  LogInfo(StrCat("listening on ", listen.substr(0, listen.rfind(':')), ":", port));
  signals.Wait();
  Drain(*engine, *rpc, options.grace, signals);
  return absl::OkStatus();
}

}  // namespace mnemon
