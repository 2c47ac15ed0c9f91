// SPDX-License-Identifier: MIT
// Turns of sessions that are played twice, on a server that is killed and on one that
// is not, and what comes of each.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/client.h"
#include "tests/integration/tested_models.h"

namespace mnemon {

using Random = std::mt19937_64;

// A session as its next turn finds it, the same on both servers.
struct TestedSession {
  std::string id;
  int number = 0;  // of all sessions
  int forks = 0;   // it is the fork of a fork of ...
  int64_t position = 0;
  std::string checkpoint;  // the newest; empty: none
};

struct Turn {
  enum class First { kNothing, kRewind, kLoad, kCheckpoint, kFork };

  First first = First::kNothing;
  std::string session;               // as the turn finds it
  std::optional<int64_t> position;   // for kRewind, and kFork; absent: all
  std::string checkpoint;            // for kLoad and kCheckpoint
  client::GenerateOptions generate;  // of a fork: on that
  // The client ends, and another takes over, when it gets the last of so many tokens,
  // which is lost with what came beside it.
  std::vector<size_t> client_ends;
};

struct Played {
  // What is the same on both servers, to the bit.
  std::vector<int32_t> tokens;
  std::string text;
  std::vector<client::TokenLogprobs> logprobs;
  int64_t first_index = 0;
  client::GenerateResult result;
  // And what is not.
  int64_t losses = 0;   // streams that the server's end cut off
  int64_t clients = 0;  // that ended
  // When the last of such streams went on.
  std::optional<std::chrono::steady_clock::time_point> resumed;
};

// `round` names its checkpoint.
Turn DrawTurn(const TestedSession& session, const TestedModel& model, int round,
              bool clients_end, Random& random);

// Plays a turn by `client`, which is replaced where clients end. Each wait is bounded.
absl::StatusOr<Played> Play(const Turn& turn, const std::string& server,
                            std::unique_ptr<client::Client>& client);

// A client that has reached its server, which may come up only now.
absl::StatusOr<std::unique_ptr<client::Client>> ConnectSoon(const std::string& server);

void Advance(TestedSession& session, const Turn& turn, const Played& played);

// "" when both are equal, else where they differ first.
std::string Difference(const Played& played, const Played& twin);

}  // namespace mnemon
