// SPDX-License-Identifier: MIT
#include <cstdlib>
#include <future>
#include <string>
#include <vector>

#include "base/command_line.h"
#include "base/log.h"
#include "base/process.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/kernels/thread_pool.h"
#include "model/registry/decoder_flags.h"
#include "model/sequence/device.h"
#include "model/sequence/runtime.h"
#include "server/loaded_models.h"
#include "server/rpc/listen_address.h"
#include "server/serve.h"

namespace {

using mnemon::CheckpointFlag;
using mnemon::LoadedModels;

struct Flags {
  std::vector<std::string> checkpoints;
  std::string device = "cpu";
  std::string reflection = "on";
  int threads = mnemon::UsableCores();
  mnemon::DecoderFlags decoder;
  double grace = 30;  // seconds
  mnemon::ServeOptions serve;
};

void AddFlags(mnemon::Command app, Flags& flags) {
  mnemon::Engine::Options& engine = flags.serve.engine;
  app.Add("--checkpoint", &flags.checkpoints,
          "Checkpoint to serve, [NAME=]DIR; may be repeated")
      .Required();
  app.Add("--listen", &flags.serve.rpc.listen,
          "Address to listen on, HOST:PORT; port 0 = any free one");
  app.Add(
      "--http", &flags.serve.http,
      "Address of /metrics, /healthz and /readyz, HOST:PORT; port 0 = any free one; "
      "empty = off");
  app.Add("--http-port-file", &flags.serve.http_port_file,
          "File that gets the port of --http");
  app.Add("--port-file", &flags.serve.port_file,
          "File that gets the port once the server listens");
  app.Add("--device", &flags.device, "Where models run: cpu or cuda");
  app.Add("--threads", &flags.threads, "Threads of the model").Between(1, 1024);
  mnemon::AddDecoderFlags(app, flags.decoder);
  app.Add("--sessions", &engine.sessions,
          "Sessions per model, those of calls without one included")
      .Between(1, 1 << 20);
  app.Add("--queue", &engine.max_queue, "Calls that may wait").Between(0, 1 << 20);
  app.Add("--state-bytes", &engine.state_bytes,
          "Bytes of growing session state per model, at most")
      .Between(1, int64_t{1} << 50);
  app.Add("--max-tokens", &engine.max_tokens, "Tokens that one call generates, at most")
      .Between(1, 1 << 30);
  app.Add("--max-prompt-tokens", &engine.max_prompt_tokens,
          "Tokens of one prompt, at most")
      .Between(1, 1 << 30);
  app.Add("--max-message-bytes", &flags.serve.rpc.max_message_bytes,
          "Bytes of one message received, at most")
      .Between(1024, 1 << 30);
  app.Add("--streams", &flags.serve.rpc.max_concurrent_streams,
          "Calls at once per connection; more wait in the client")
      .Between(1, 1 << 20);
  app.Add("--rate", &flags.serve.rpc.max_calls_per_second,
          "Calls that make work taken per second; 0 = any number")
      .Between(0, 1e9);
  app.Add("--reflection", &flags.reflection, "Answer gRPC reflection")
      .OneOf({"on", "off"});
  app.Add("--grace", &flags.grace,
          "Seconds that running streams have to finish after SIGTERM")
      .Between(0, 86400);
}

// Loads in a thread, so that a signal ends a start that takes long; nothing is written
// before the server listens, so there is nothing to tidy up.
absl::StatusOr<LoadedModels> LoadUnlessStopped(const std::vector<CheckpointFlag>& flags,
                                               const mnemon::Engine::Options& options,
                                               const mnemon::ModelOptions& model,
                                               mnemon::SignalWaiter& signals) {
  auto loading = std::async(std::launch::async,
                            [&] { return LoadedModels::Load(flags, options, model); });
  while (loading.wait_for(std::chrono::milliseconds(0)) != std::future_status::ready) {
    if (signals.WaitFor(20) == 0) continue;
    mnemon::LogInfo("stopped during the start");
    std::_Exit(0);
  }
  return loading.get();
}

absl::Status Usage(const absl::Status& status) {
  return mnemon::UsageError(std::string(status.message()));
}

absl::Status Run(Flags& flags, mnemon::SignalWaiter& signals) {
  auto checkpoints = mnemon::ParseCheckpointFlags(flags.checkpoints);
  if (!checkpoints.ok()) return Usage(checkpoints.status());
  auto address = mnemon::ParseListenAddress(flags.serve.rpc.listen);
  if (!address.ok()) return Usage(address.status());
  if (!flags.serve.http.empty()) {
    auto http = mnemon::ParseListenAddress(flags.serve.http);
    if (!http.ok()) {
      return mnemon::UsageError(mnemon::StrCat("--http: ", http.status().message()));
    }
  }
  flags.serve.rpc.reflection = flags.reflection == "on";
  flags.serve.grace =
      std::chrono::milliseconds(static_cast<int64_t>(flags.grace * 1000));
  const auto device = mnemon::FindDevice(flags.device);
  if (!device.ok()) return Usage(device.status());
  mnemon::ThreadPool pool(flags.threads);
  const auto decoder = mnemon::ToDecoderOptions(flags.decoder, pool);
  if (!decoder.ok()) return Usage(decoder.status());
  MNEMON_ASSIGN_OR_RETURN(
      LoadedModels models,
      LoadUnlessStopped(*checkpoints, flags.serve.engine,
                        {.device = *device, .decoder = *decoder}, signals));
  return mnemon::Serve(models.ForEngine(), flags.serve, signals);
}

}  // namespace

int main(int argc, char** argv) {
  mnemon::InitProcess();
  mnemon::SignalWaiter signals;
  const std::string libraries = mnemon::StrCat(
      "libtorch ", mnemon::TensorLibraryVersion(), ", ", mnemon::RpcLibraryVersion());
  mnemon::CommandLine line(
      "mnemon-server", "Serves models that remember, over gRPC.",
      {"mnemon-server --checkpoint runs/feedback-small/best",
       "mnemon-server --checkpoint a=runs/a/best --checkpoint b=runs/b/best",
       "mnemon-server --checkpoint runs/a/best --listen 127.0.0.1:0 --port-file port"},
      mnemon::VersionText("mnemon-server", libraries));
  Flags flags;
  flags.serve.libraries = libraries;
  AddFlags(line.root(), flags);
  line.SetBody([&]() -> absl::Status {
    // The pool is the one pool of this process.
    mnemon::InitTensorRuntime(1);
    return Run(flags, signals);
  });
  return line.Run(argc, argv);
}
