// SPDX-License-Identifier: MIT
// Flags of several commands (server address, sampling, stopping) and text for a
// terminal.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/process/command_line.h"
#include "client/client.h"

namespace mnemon::client {

// Default number of tokens per answer, short enough for a person to wait for. With a
// model's chat template an answer ends by itself instead.
inline constexpr int32_t kDefaultMaxTokens = 256;

void AddServerFlag(Command command, ClientOptions& options);
void AddModelFlag(Command command, std::string& model);

// Raw values of flags that TakeFlags converts. Usage errors name the flag and the
// fault.
struct SamplingFlags {
  std::vector<std::string> logit_bias;  // "ID=BIAS" each
};
// Flags for the API's message Sampling.
void AddSamplingFlags(Command command, SamplingOptions& options, SamplingFlags& flags);
absl::Status TakeFlags(const SamplingFlags& flags, SamplingOptions& options);

struct StoppingFlags {
  std::optional<double> time_limit;  // seconds
};
// Flags for Stopping; without --max-tokens its option stays absent.
void AddStoppingFlags(Command command, StoppingOptions& options, StoppingFlags& flags);
absl::Status TakeFlags(const StoppingFlags& flags, StoppingOptions& options);

// Values of --on-disconnect and --no-resume.
struct ResumeFlags {
  std::string on_disconnect = "pause";
  bool no_resume = false;
};
void AddResumeFlags(Command command, ResumeFlags& flags);
void TakeFlags(const ResumeFlags& flags, ResumeOptions& options);

// `text` for display on a terminal: control characters except line ends and tabs are
// escaped, since a model can write any.
std::string ForTerminal(std::string_view text);

}  // namespace mnemon::client
