// SPDX-License-Identifier: MIT
#include "bench/serving/connection.h"

#include "base/strings.h"

namespace mnemon::serving {
namespace {

constexpr char kRetryPolicy[] = R"({"methodConfig": [{
  "name": [{"service": "mnemon.v1.Generation"}, {"service": "mnemon.v1.Sessions"}],
  "retryPolicy": {"maxAttempts": 5, "initialBackoff": "0.1s", "maxBackoff": "1s",
                  "backoffMultiplier": 2,
                  "retryableStatusCodes": ["UNAVAILABLE", "RESOURCE_EXHAUSTED"]}}]})";

std::shared_ptr<grpc::Channel> MakeChannel(int port, const ConnectionOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(-1);
  if (options.retries) {
    arguments.SetServiceConfigJSON(kRetryPolicy);
  } else {
    arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  }
  if (options.small_window) {
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 1024);
  }
  return grpc::CreateCustomChannel(StrCat("127.0.0.1:", port),
                                   grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace

Connection::Connection(int port, const ConnectionOptions& options)
    : channel(MakeChannel(port, options)),
      generation(v1::Generation::NewStub(channel)),
      sessions(v1::Sessions::NewStub(channel)),
      health(grpc::health::v1::Health::NewStub(channel)) {}

Connections::Connections(int port, int count, const ConnectionOptions& options) {
  for (int i = 0; i < count; ++i) {
    all_.push_back(std::make_unique<Connection>(port, options));
  }
}

}  // namespace mnemon::serving
