// SPDX-License-Identifier: MIT
// The chat commands /set and /show.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "client/client.h"

namespace mnemon::client {

// `text`: "NAME VALUE"; VALUE "-" = the server's default. INVALID_ARGUMENT names the
// fault.
absl::Status ApplySetting(std::string_view text, GenerateOptions& options);

// One line per setting.
std::string DescribeSettings(const GenerateOptions& options);

}  // namespace mnemon::client
