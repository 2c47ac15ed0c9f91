// SPDX-License-Identifier: MIT
// Sessions as JSON for programs: the API's fields under their names, integers as
// numbers, times as RFC 3339 in UTC; absent fields are omitted. One line each, without
// its end.
#pragma once

#include <string>

#include "client/session.h"

namespace mnemon::client {

std::string ToJson(const Session& session);
// {"sessions": [...], "next_page_token": "..."}
std::string ToJson(const SessionPage& page);
std::string ToJson(const SessionCheckpoint& checkpoint);
// {"session": {...}, "size_bytes": N}
std::string ToJson(const ExportedSession& exported);
std::string ToJson(const Verification& verification);

}  // namespace mnemon::client
