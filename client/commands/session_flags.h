// SPDX-License-Identifier: MIT
// Flags of commands that create or change sessions.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/process/command_line.h"
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

// Settings of a session besides its ttl.
struct Choices {
  std::optional<SystemTime> expire_time;
  std::optional<Durability> durability;
  std::optional<SamplingOptions> sampling;  // present if any of its flags was given
};

// Adds --expire-time, --durability and the sampling flags; the caller must make --ttl
// exclude the first. `otherwise`: the default, for the help text.
Flag AddChoiceFlags(Command command, ChoiceFlags& flags, const std::string& otherwise);
// Adds these and --ttl, without which the session inherits from its parent or snapshot.
void AddInheritedChoiceFlags(Command command, ChoiceFlags& flags,
                             const std::string& origin);
// Usage errors name the flag and the fault.
absl::StatusOr<Choices> TakeChoices(const ChoiceFlags& flags);

void AddJsonFlag(Command command, bool& json);
void AddEtagFlag(Command command, std::string& etag);
void AddRequestIdFlag(Command command, std::string& request_id);

}  // namespace mnemon::client
