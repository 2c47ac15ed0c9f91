// SPDX-License-Identifier: MIT
// Continues a text in a session and in a fork of it: mnemon_client_example [HOST:PORT]
#include <chrono>
#include <iostream>
#include <string>

#include "client/client.h"

namespace mnemon::client {

absl::Status Continue(Client& client, const std::string& id, const std::string& text) {
  const auto result =
      client.Generate({.session = id, .text = text, .stopping = {.max_tokens = 40}},
                      [](const GenerateChunk& chunk) {
                        std::cout << chunk.text << std::flush;
                        return true;  // false cancels the call
                      });
  std::cout << "\n";
  return result.status();
}

absl::Status Run(const std::string& server) {
  const auto client = Client::Connect({.server = server});
  const auto anna = client->CreateSession({.ttl = std::chrono::minutes(5)});
  if (!anna.ok()) return anna.status();
  absl::Status status = Continue(*client, anna->id, "It is ");
  const auto bert = client->ForkSession({.parent = anna->id});
  status.Update(bert.status());
  if (status.ok()) status = Continue(*client, bert->id, " But ");
  if (status.ok()) status = Continue(*client, anna->id, " And then ");
  if (bert.ok()) status.Update(client->DeleteSession(bert->id));
  status.Update(client->DeleteSession(anna->id));
  return status;
}

}  // namespace mnemon::client

int main(int argc, char** argv) {
  const absl::Status status =
      mnemon::client::Run(argc > 1 ? argv[1] : "127.0.0.1:50051");
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
