// SPDX-License-Identifier: MIT
// Calls on sessions as a client makes them, one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/serving/clients.h"

namespace mnemon::serving {

// Sends `prompt_tokens` to a session and generates `new_tokens`; returns the seconds
// until the first of them.
absl::StatusOr<double> Turn(client::Client& client, const std::string& id,
                            int64_t prompt_tokens, int64_t new_tokens, uint64_t seed);

// The id of a session by its number; ids sort like the numbers.
std::string IdOf(int64_t number);
// Creates sessions `first` to `end` - 1, each with a prompt and one more token, with
// kCreators callers at once.
inline constexpr int kCreators = 16;
absl::Status MakeSessions(Clients& clients, const std::string& model, int64_t first,
                          int64_t end, int64_t prompt_tokens);

// Seconds taken by each of `count` calls. Stops at the first that fails.
absl::StatusOr<std::vector<double>> Timed(
    int64_t count, const std::function<absl::Status(int64_t number)>& call);

}  // namespace mnemon::serving
