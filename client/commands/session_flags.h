// SPDX-License-Identifier: MIT
// Flags of the commands that make or change sessions.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/command_line.h"
#include "client/session.h"
#include "client/terminal/sampling_flags.h"

namespace mnemon::client {

struct ChoiceFlags {
  std::optional<int32_t> ttl;  // seconds
  std::string expire_time;
  std::string durability;
  SamplingOptions sampling;
  SamplingFlags sampling_texts;
};

// What a caller chooses of a session beside its ttl.
struct Choices {
  std::optional<SystemTime> expire_time;
  std::optional<Durability> durability;
  std::optional<SamplingOptions> sampling;  // there when a flag of it was given
};

// --expire-time, --durability and those of sampling; --ttl is to exclude the first one.
// `otherwise`, for the help text: what holds without them.
Flag AddChoiceFlags(Command command, ChoiceFlags& flags, const std::string& otherwise);
// With --ttl, without which the session is as its origin: the parent or a snapshot.
void AddInheritedChoiceFlags(Command command, ChoiceFlags& flags,
                             const std::string& origin);
// The usage error names the flag and the mistake.
absl::StatusOr<Choices> TakeChoices(const ChoiceFlags& flags);

void AddJsonFlag(Command command, bool& json);
void AddEtagFlag(Command command, std::string& etag);
void AddRequestIdFlag(Command command, std::string& request_id);

}  // namespace mnemon::client
