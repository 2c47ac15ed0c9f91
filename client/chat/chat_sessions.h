// SPDX-License-Identifier: MIT
// The commands of a chat on its session: /rewind, /save, /load, /verify, /sessions.
// Each takes the rest of its line, and INVALID_ARGUMENT shows its use. Other errors are
// Described, and texts are for a terminal, with line ends.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "client/client.h"

namespace mnemon::client {

// The word of `rest`, which may be empty where `optional`.
absl::StatusOr<std::string> OneWord(std::string_view rest, std::string_view use,
                                    bool optional);

// "N": so many tokens are kept; "-N": so many are taken back; else a checkpoint. The
// session as it is then.
absl::StatusOr<Session> ChatRewind(Client& client, const std::string& session,
                                   std::string_view rest);
// A checkpoint, whatever its id looks like.
absl::StatusOr<Session> ChatLoad(Client& client, const std::string& session,
                                 std::string_view rest);
absl::StatusOr<std::string> ChatSave(Client& client, const std::string& session,
                                     std::string_view rest);
// "replay": the history too. A difference is DATA_LOSS behind the facts in `facts`.
absl::Status ChatVerify(Client& client, const std::string& session,
                        std::string_view rest, std::string& facts);
absl::StatusOr<std::string> ChatSessions(Client& client, std::string_view rest);

}  // namespace mnemon::client
