// SPDX-License-Identifier: MIT
// Commands of a chat on its session: /rewind, /save, /load, /verify, /sessions. Each
// takes the rest of its line; INVALID_ARGUMENT shows its usage. Other errors are
// Described. Texts are for a terminal, with line ends.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "client/client.h"

namespace mnemon::client {

// The single word in `rest`, which may be empty if `optional`.
absl::StatusOr<std::string> OneWord(std::string_view rest, std::string_view use,
                                    bool optional);

// "N": keeps N tokens; "-N": removes the last N; else a checkpoint. Returns the
// resulting session.
absl::StatusOr<Session> ChatRewind(Client& client, const std::string& session,
                                   std::string_view rest);
// Loads a checkpoint, whatever its id looks like.
absl::StatusOr<Session> ChatLoad(Client& client, const std::string& session,
                                 std::string_view rest);
absl::StatusOr<std::string> ChatSave(Client& client, const std::string& session,
                                     std::string_view rest);
// "replay": includes the history. A difference is DATA_LOSS, after the facts in
// `facts`.
absl::Status ChatVerify(Client& client, const std::string& session,
                        std::string_view rest, std::string& facts);
absl::StatusOr<std::string> ChatSessions(Client& client, std::string_view rest);

}  // namespace mnemon::client
