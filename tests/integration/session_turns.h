// SPDX-License-Identifier: MIT
// Turns of sessions that are played on a server that is killed and on one that is not,
// and their results.
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

// State of a session before its next turn, the same on both servers.
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
  // The client ends, and another takes over, when it gets the last of this many tokens,
  // which is lost with the rest of its message.
  std::vector<size_t> client_ends;
};

struct Played {
  // Results that are the same on both servers, to the bit.
  std::vector<int32_t> tokens;
  std::string text;
  std::vector<client::TokenLogprobs> logprobs;
  int64_t first_index = 0;
  client::GenerateResult result;
  // Results that may differ.
  int64_t losses = 0;   // streams that the server's end cut off
  int64_t clients = 0;  // that ended
  // Time when the last of such streams resumed.
  std::optional<std::chrono::steady_clock::time_point> resumed;
};

// `round` is part of its checkpoint's name.
Turn DrawTurn(const TestedSession& session, const TestedModel& model, int round,
              bool clients_end, Random& random);

// Plays a turn with `client`, which is replaced when clients end. Each wait is bounded.
absl::StatusOr<Played> Play(const Turn& turn, const std::string& server,
                            std::unique_ptr<client::Client>& client);

// A client that has reached its server, which may still be starting.
absl::StatusOr<std::unique_ptr<client::Client>> ConnectSoon(const std::string& server);

void Advance(TestedSession& session, const Turn& turn, const Played& played);

// "" if both are equal, else the first difference.
std::string Difference(const Played& played, const Played& twin);

}  // namespace mnemon
