// SPDX-License-Identifier: MIT
#include "bench/serving/connection.h"

#include "base/strings.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

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

ErrorFacts FactsOf(const grpc::Status& status) {
  ErrorFacts facts;
  google::rpc::Status details;
  if (!details.ParseFromString(status.error_details())) return facts;
  for (const auto& any : details.details()) {
    google::rpc::ErrorInfo info;
    google::rpc::RetryInfo retry;
    if (any.Is<google::rpc::ErrorInfo>() && any.UnpackTo(&info)) {
      facts.reason = info.reason();
    } else if (any.Is<google::rpc::RetryInfo>() && any.UnpackTo(&retry)) {
      facts.has_retry = true;
      facts.retry_seconds = static_cast<double>(retry.retry_delay().seconds()) +
                            1e-9 * retry.retry_delay().nanos();
    }
  }
  return facts;
}

}  // namespace mnemon::serving
