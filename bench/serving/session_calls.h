// SPDX-License-Identifier: MIT
// Calls on sessions, one after the other, as a client of theirs makes them. Each has a
// deadline of two minutes; errors carry the server's message.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/serving/connection.h"

namespace mnemon::serving {

absl::Status CreateSession(Connection& connection, const std::string& id,
                           const std::string& model);
absl::Status GetSession(Connection& connection, const std::string& id);
absl::Status ForkSession(Connection& connection, const std::string& parent,
                         const std::string& id);
absl::Status DeleteSession(Connection& connection, const std::string& id);
absl::StatusOr<v1::ListSessionsResponse> ListSessions(
    Connection& connection, const v1::ListSessionsRequest& request);

// Sends `prompt_tokens` to a session and generates `new_tokens`: seconds until the
// first of them came.
absl::StatusOr<double> Turn(Connection& connection, const std::string& id,
                            int64_t prompt_tokens, int64_t new_tokens, uint64_t seed);

// The id of a session by its number; ids are ordered as the numbers are.
std::string IdOf(int64_t number);
// Sessions `first` to `end` - 1, each with a prompt and one token more, by so many
// callers at once.
inline constexpr int kCreators = 16;
absl::Status MakeSessions(Connections& connections, const std::string& model,
                          int64_t first, int64_t end, int64_t prompt_tokens);

// Seconds that each of `count` calls took. Stops at the first that fails.
absl::StatusOr<std::vector<double>> Timed(
    int64_t count, const std::function<absl::Status(int64_t number)>& call);

}  // namespace mnemon::serving
