// SPDX-License-Identifier: MIT
// Sessions as text for people. Text of the server is escaped for a terminal.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "client/session.h"

namespace mnemon::client {

// "2026-01-31T08:00:00Z", rounded down to seconds.
std::string UtcText(SystemTime time);
// A table with one line per session below its heading.
std::string SessionTable(const std::vector<Session>& sessions);
// One line per fact.
std::string SessionFacts(const Session& session);
std::string VerificationFacts(const Verification& verification);
// The fault found: "the stored form is damaged"; empty if there is none. `replay`: the
// replayed state was to be compared.
std::string DescribeDifference(const Verification& verification, bool replay);

}  // namespace mnemon::client
