// SPDX-License-Identifier: MIT
#include "bench/serving/clients.h"

#include <chrono>

#include "base/strings.h"
#include "bench/serving/calls.h"

namespace mnemon::serving {

std::unique_ptr<client::Client> ConnectClient(int port) {
  const auto patience = std::chrono::ceil<std::chrono::milliseconds>(kHangs);
  client::ClientOptions options{.server = StrCat("127.0.0.1:", port),
                                .connect_timeout = patience,
                                .call_timeout = patience};
  options.retry.tries = 1;
  return client::Client::Connect(options);
}

Clients::Clients(int port, int count) {
  for (int i = 0; i < count; ++i) all_.push_back(ConnectClient(port));
}

}  // namespace mnemon::serving
