// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdlib>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "base/listen_address.h"
#include "base/log.h"
#include "base/process/command_line.h"
#include "base/process/process.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/compute/device/open_device.h"
#include "model/compute/thread_pool.h"
#include "model/load/sequence_module.h"
#include "model/program/decoder_flags.h"
#include "server/gateway/origin_check.h"
#include "server/loaded_models.h"
#include "server/serve.h"
#include "server/shutdown_limit.h"
#include "server/store_check.h"

namespace mnemon {
namespace {

constexpr double kSessionTtl = 30 * 86400;  // seconds

struct Flags {
  std::vector<std::string> checkpoints;
  std::string device = "cpu";
  std::string http_api = "on";
  std::string reflection = "on";
  std::string admin = "loopback";
  std::string durability = "turn";
  std::string log_level = "info";
  std::string log_format = "text";
  int threads = UsableCores();
  DecoderFlags decoder;
  std::optional<int64_t> max_context;
  // Seconds.
  double grace = 30;
  double queue_wait = 60;
  double idle_timeout = 30;
  std::optional<double> session_ttl;
  double max_session_ttl = 0;
  bool check = false;
  bool repair = false;
  ServeOptions serve;
};

void AddFlags(Command app, Flags& flags) {
  Engine::Options& engine = flags.serve.engine;
  app.Add("--checkpoint", &flags.checkpoints,
          "Checkpoint to serve, [NAME=]DIR; may be repeated; needed but for --check "
          "and --repair")
      .Default("none");
  app.Add("--listen", &flags.serve.rpc.listen,
          "Address to listen on, HOST:PORT; port 0 = any free one");
  app.Add(
      "--http", &flags.serve.http,
      "Address of /metrics, the probes, the HTTP API and the playground, HOST:PORT; "
      "port 0 = any free one; off = no HTTP");
  app.Add("--http-api", &flags.http_api,
          "Answer the HTTP API (/v1) and the playground (/) on the address of --http")
      .OneOf({"on", "off"});
  app.Add("--http-origin", &flags.serve.http_origins,
          "Origin whose pages may call the HTTP API from a browser, as "
          "https://example.org; may be repeated")
      .Default("none");
  app.Add("--http-port-file", &flags.serve.http_port_file,
          "File that gets the port of --http")
      .Default("none");
  app.Add("--port-file", &flags.serve.port_file,
          "File that gets the port once the server listens")
      .Default("none");
  app.Add("--device", &flags.device, "Where autoregressive models run: cpu or cuda");
  app.Add("--threads", &flags.threads,
          "Threads of the pool, one for all models, that computes steps and packs "
          "weights; at most as many as there are usable cores")
      .Between(1, 1024)
      .Default("the usable cores");
  AddDecoderFlags(app, flags.decoder);
  AddMaxContextFlag(app, flags.max_context);
  app.Add("--sessions", &engine.sessions,
          "Sessions per model, at rest or not, at most; how many fit is up to --memory")
      .Between(1, 1 << 30);
  app.Add("--running", &engine.running, "Calls that run at once per model; more wait")
      .Between(1, 1 << 16);
  app.Add("--queue", &engine.max_queue, "Calls that may wait, per model")
      .Between(0, 1 << 20);
  app.Add("--queue-bytes", &engine.queue_bytes,
          "Bytes of the prompts of calls that wait, per model, at most")
      .Between(1, int64_t{1} << 40);
  app.Add("--queue-wait", &flags.queue_wait,
          "Seconds that a call may be expected to wait; a longer wait is refused")
      .Between(0.001, 86400, "seconds");
  app.Add(
         "--idle-timeout", &flags.idle_timeout,
         "Seconds after which a call ends whose caller does not read, or does not send "
         "what is to be scored")
      .Between(0.001, 86400, "seconds");
  app.Add(
         "--session-ttl", &flags.session_ttl,
         "Seconds from its last use to the end of a session that was created without a "
         "ttl; 0 = --max-session-ttl, without that no end")
      .Between(0, 3e9, "seconds")
      .Default("2592000, or --max-session-ttl where that is less");
  app.Add("--max-session-ttl", &flags.max_session_ttl,
          "Greatest ttl of a session in seconds; 0 = no limit")
      .Between(0, 3e9, "seconds");
  app.Add("--state-bytes", &engine.state_bytes,
          "Bytes of session states in memory per model, at most, of running sessions "
          "and "
          "of those at rest; with --device cuda of the memory there")
      .Between(1, int64_t{1} << 50);
  app.Add("--memory", &flags.serve.memory,
          "Bytes of memory that the server takes, at most: weights, states, histories, "
          "prompts, messages")
      .Between(1, int64_t{1} << 50)
      .Default("80 % of the machine's, or of the smallest limit of its control groups");
  app.Add(
         "--data-dir", &flags.serve.data_dir,
         "Directory in which sessions outlive the process, created if need be; without "
         "it they are kept in memory alone")
      .Default("none");
  const Flag check =
      app.Add("--check", &flags.check,
              "Say what --data-dir has and what is damaged, then end: reads only; exit "
              "code 1 if something is");
  app.Add("--repair", &flags.repair,
          "Make whole what can be of --data-dir, cut damaged sessions to what is whole "
          "of them, say what was done, then end")
      .Excludes(check);
  app.Add("--durability", &flags.durability,
          "With --data-dir, of sessions that name no level: none = nothing survives, "
          "turn = what the kernel has got, after a power failure all turns that ended, "
          "always = all that was sent")
      .OneOf({"none", "turn", "always"});
  app.Add("--max-tokens", &engine.max_tokens, "Tokens that one call generates, at most")
      .Between(1, 1 << 30);
  app.Add("--max-prompt-tokens", &engine.max_prompt_tokens,
          "Tokens of one prompt, at most")
      .Between(1, 1 << 30);
  app.Add("--max-message-bytes", &flags.serve.rpc.max_message_bytes,
          "Bytes of one message received, at most")
      .Between(1024, 1 << 30);
  app.Add(
         "--connections", &flags.serve.rpc.max_connections,
         "Connections at once; 0 = as many as there are descriptors for, at most 32768")
      .Between(0, 1 << 20);
  app.Add("--streams", &flags.serve.rpc.max_concurrent_streams,
          "Calls at once per connection; more wait in the client")
      .Between(1, 1 << 20);
  app.Add("--rate", &flags.serve.service.max_calls_per_second,
          "Calls that make work taken per second; 0 = any number")
      .Between(0, 1e9);
  app.Add("--reflection", &flags.reflection, "Answer gRPC reflection")
      .OneOf({"on", "off"});
  app.Add("--admin", &flags.admin,
          "Who may ask for the load, and drain the server: loopback = peers on this "
          "machine, and all behind a proxy on it; on = all peers")
      .OneOf({"off", "loopback", "on"});
  app.Add("--log-level", &flags.log_level, "Least severe log lines to write")
      .OneOf({"debug", "info", "warning", "error"});
  app.Add("--log-format", &flags.log_format,
          "Log lines as text, or as one JSON object each")
      .OneOf({"text", "json"});
  app.Add("--grace", &flags.grace,
          "Seconds that calls have to finish in a drain, as after SIGTERM")
      .Between(0, 86400, "seconds");
}

// Loads in a thread, so that a signal ends a long start. Nothing is written before the
// server listens, so there is nothing to tidy up.
absl::StatusOr<LoadedModels> LoadUnlessStopped(const std::vector<CheckpointFlag>& flags,
                                               const ServeOptions& options,
                                               const ServeModelOptions& model,
                                               SignalWaiter& signals) {
  auto loading = std::async(std::launch::async, [&] {
    return LoadModels(flags, options.engine, options.memory, model);
  });
  while (loading.wait_for(std::chrono::milliseconds(0)) != std::future_status::ready) {
    if (signals.WaitFor(20) == 0) continue;
    LogInfo("stopped during the start");
    FlushLog();
    std::_Exit(0);
  }
  return loading.get();
}

std::chrono::milliseconds Milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

// An error as one of usage, with `flag` before its message.
absl::Status Usage(const absl::Status& status, const char* flag = "") {
  return status.ok() ? status : UsageError(StrCat(flag, status.message()));
}

absl::Status CheckDevice(const Flags& flags) {
  if (flags.device == "cpu") return absl::OkStatus();
  absl::Status found;
  if (flags.decoder.decoder == "sequence") {
    MNEMON_ASSIGN_OR_RETURN(const SequenceModule* module, LoadSequenceModule());
    found = module->CheckDevice(flags.device);
  } else {
    found = OpenDevice(flags.device).status();
  }
  return Usage(found);
}

absl::Status Run(Flags& flags, SignalWaiter& signals, ShutdownLimit& limit) {
  SetLogLevel(*ParseLogLevel(flags.log_level));
  SetLogFormat(*ParseLogFormat(flags.log_format));
  if (flags.check || flags.repair) {
    const std::string& directory = flags.serve.data_dir;
    if (directory.empty()) return UsageError("--check and --repair need --data-dir");
    return flags.check ? CheckStore(directory) : RepairStore(directory);
  }
  if (flags.checkpoints.empty()) return UsageError("--checkpoint is required");
  auto checkpoints = ParseCheckpointFlags(flags.checkpoints);
  if (!checkpoints.ok()) return Usage(checkpoints.status());
  MNEMON_RETURN_IF_ERROR(Usage(
      ParseListenAddress(flags.serve.rpc.listen, "listen").status(), "--listen: "));
  if (flags.serve.http == "off") flags.serve.http.clear();
  if (!flags.serve.http.empty()) {
    MNEMON_RETURN_IF_ERROR(
        Usage(ParseListenAddress(flags.serve.http, "http").status(), "--http: "));
  }
  for (const std::string& origin : flags.serve.http_origins) {
    MNEMON_RETURN_IF_ERROR(Usage(CheckOriginText(origin), "--http-origin: "));
  }
  flags.serve.http_api = flags.http_api == "on";
  flags.serve.rpc.reflection = flags.reflection == "on";
  flags.serve.rpc.grace = Milliseconds(flags.grace);
  flags.serve.rpc.admin = flags.admin == "off"        ? AdminPeers::kNone
                          : flags.admin == "loopback" ? AdminPeers::kLoopback
                                                      : AdminPeers::kAll;
  Engine::Options& engine = flags.serve.engine;
  engine.durability = flags.durability == "none"   ? Durability::kNone
                      : flags.durability == "turn" ? Durability::kTurn
                                                   : Durability::kAlways;
  engine.max_wait = Milliseconds(flags.queue_wait);
  engine.idle_timeout = Milliseconds(flags.idle_timeout);
  const double session_ttl = flags.session_ttl.value_or(kSessionTtl);
  if (session_ttl > 0) engine.session_ttl = Milliseconds(session_ttl);
  if (flags.max_session_ttl > 0) {
    engine.max_session_ttl = Milliseconds(flags.max_session_ttl);
  }
  // Only a ttl that was given can be wrong, not the default.
  if (!flags.session_ttl && engine.max_session_ttl) {
    engine.session_ttl = std::min(*engine.session_ttl, *engine.max_session_ttl);
  }
  if (engine.session_ttl && engine.max_session_ttl &&
      *engine.session_ttl > *engine.max_session_ttl) {
    return UsageError("--session-ttl is above --max-session-ttl");
  }
  MNEMON_RETURN_IF_ERROR(CheckDevice(flags));
  ThreadPool pool(PoolThreads(flags.threads));
  if (pool.count() < flags.threads) {
    LogInfo(StrCat("--threads ", flags.threads, ": ", pool.count(),
                   " compute, as many as there are usable cores"));
  }
  const auto decoder = ToDecoderOptions(flags.decoder, pool);
  if (!decoder.ok()) return Usage(decoder.status());
  engine.pool = &pool;
  engine.sampling = &SamplingOperationsOf(flags.decoder.target);
  ServeModelOptions model{
      .device = flags.device, .max_context = flags.max_context, .decoder = *decoder};
  // Each model has its own device, with its own queue.
  if (flags.device != "cpu") {
    model.open_device = [&flags] { return OpenDevice(flags.device); };
  }
  MNEMON_ASSIGN_OR_RETURN(LoadedModels models,
                          LoadUnlessStopped(*checkpoints, flags.serve, model, signals));
  engine.memory_bytes = models.engine_bytes;
  engine.call_bytes = models.call_bytes;
  flags.serve.rpc.max_bytes_in_flight = TransportBytes(flags.serve.memory);
  return Serve(models.ForEngine(), flags.serve, signals, limit);
}

}  // namespace
}  // namespace mnemon

int main(int argc, char** argv) {
  mnemon::InitProcess();
  mnemon::ReturnFreedMemory();
  mnemon::SignalWaiter signals;
  mnemon::ShutdownLimit limit(signals);  // outlives all that may end late
  const std::string libraries = mnemon::RpcLibraryVersion();
  mnemon::CommandLine line(
      "mnemon-server", "Serves transformers with memory over gRPC and HTTP.",
      {"mnemon-server --checkpoint runs/feedback-small/best",
       "mnemon-server --checkpoint a=runs/a/best --checkpoint b=runs/b/best",
       "mnemon-server --checkpoint runs/a/best --listen 127.0.0.1:0 --port-file port",
       "mnemon-server --data-dir sessions --check"},
      mnemon::VersionText("mnemon-server", libraries));
  mnemon::Flags flags;
  flags.serve.libraries = libraries;
  mnemon::AddFlags(line.root(), flags);
  line.SetBody([&] { return mnemon::Run(flags, signals, limit); });
  return line.Run(argc, argv);
}
