// SPDX-License-Identifier: MIT
// Calls on sessions, one after the other, as a client of theirs makes them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/serving/clients.h"

namespace mnemon::serving {

// Sends `prompt_tokens` to a session and generates `new_tokens`: seconds until the
// first of them came.
absl::StatusOr<double> Turn(client::Client& client, const std::string& id,
                            int64_t prompt_tokens, int64_t new_tokens, uint64_t seed);

// The id of a session by its number; ids are ordered as the numbers are.
std::string IdOf(int64_t number);
// Sessions `first` to `end` - 1, each with a prompt and one token more, by so many
// callers at once.
inline constexpr int kCreators = 16;
absl::Status MakeSessions(Clients& clients, const std::string& model, int64_t first,
                          int64_t end, int64_t prompt_tokens);

// Seconds that each of `count` calls took. Stops at the first that fails.
absl::StatusOr<std::vector<double>> Timed(
    int64_t count, const std::function<absl::Status(int64_t number)>& call);

}  // namespace mnemon::serving
