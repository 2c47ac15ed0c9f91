// SPDX-License-Identifier: MIT
#include "client/terminal/sampling_flags.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/numbers.h"
#include "base/log.h"
#include "base/quote.h"
#include "base/strings.h"

namespace mnemon::client {
namespace {

absl::Status ReadLogitBias(const std::vector<std::string>& values,
                           std::vector<TokenBias>& biases) {
  for (const std::string& value : values) {
    const size_t equals = std::min(value.find('='), value.size());
    const std::string bias = value.substr(std::min(equals + 1, value.size()));
    TokenBias entry;
    if (!absl::SimpleAtoi(value.substr(0, equals), &entry.token) ||
        !absl::SimpleAtof(bias, &entry.bias)) {
      return UsageError(StrCat("--logit-bias: ", Quoted(value),
                               " is not ID=BIAS, for example 7=-2.5 or 7=-inf"));
    }
    biases.push_back(entry);
  }
  return absl::OkStatus();
}

}  // namespace

void AddServerFlag(Command command, ClientOptions& options) {
  command.Add("--server", &options.server, "Address of the server, HOST[:PORT]");
}

void AddModelFlag(Command command, std::string& model) {
  command.Add("--model", &model, "Model")
      .Default("the session's, or the only one of the server, or that called default");
}

void AddSamplingFlags(Command command, SamplingOptions& options, SamplingFlags& flags) {
  command
      .Add("--temperature", &options.temperature,
           "Flattens the distribution above 1, sharpens it below; 0 = greedy")
      .Default("1, the model's own distribution");
  command.Add("--top-k", &options.top_k, "Keep the k most likely tokens")
      .Default("0, all");
  command
      .Add("--top-p", &options.top_p,
           "Keep the smallest set of tokens of this probability")
      .Default("1, all");
  command
      .Add("--min-p", &options.min_p,
           "Keep tokens at least this share as likely as the most likely one")
      .Default("0, all");
  command
      .Add("--typical-p", &options.typical_p,
           "Locally typical sampling: keep this mass")
      .Default("1, all");
  command
      .Add("--repetition-penalty", &options.repetition_penalty,
           "Divides logits of tokens in the penalty window")
      .Default("1, off");
  command
      .Add("--frequency-penalty", &options.frequency_penalty,
           "Subtracted per occurrence in the penalty window")
      .Default("0, off");
  command
      .Add("--presence-penalty", &options.presence_penalty,
           "Subtracted for any occurrence in the penalty window")
      .Default("0, off");
  command
      .Add("--penalty-window-tokens", &options.penalty_window_tokens,
           "The penalty window: so many of the newest tokens, the prompt's included")
      .Default("64");
  command
      .Add("--logit-bias", &flags.logit_bias,
           "ID=BIAS: added to the token's logit, -inf forbids it; may be repeated")
      .Default("none");
  command.Add("--seed", &options.seed, "Same seed, same text")
      .Default("drawn by the server");
}

void AddStoppingFlags(Command command, StoppingOptions& options, StoppingFlags& flags) {
  command.Add("--max-tokens", &options.max_tokens, "Tokens to generate at most")
      .Default(StrCat(kDefaultMaxTokens,
                      "; in a model's chat template, to the end of the answer"));
  command
      .Add("--stop-strings", &options.stop_strings,
           "Text that ends it and is not part of it; may be repeated")
      .Default("none");
  command.Add("--time-limit", &flags.time_limit, "Seconds after which it ends")
      .Between(0, 1e9, "seconds")
      .Default("none");
}

absl::Status TakeFlags(const SamplingFlags& flags, SamplingOptions& options) {
  return ReadLogitBias(flags.logit_bias, options.logit_bias);
}

absl::Status TakeFlags(const StoppingFlags& flags, StoppingOptions& options) {
  if (!flags.time_limit) return absl::OkStatus();
  if (!(*flags.time_limit > 0 && *flags.time_limit < 1e9)) {
    return UsageError("--time-limit: must be above 0 and below 1e9 seconds");
  }
  options.time_limit = std::chrono::milliseconds(
      static_cast<int64_t>(std::ceil(*flags.time_limit * 1000)));
  return absl::OkStatus();
}

void AddResumeFlags(Command command, ResumeFlags& flags) {
  command
      .Add("--on-disconnect", &flags.on_disconnect,
           "What a call on a session does when its stream is lost or stopped: pause at "
           "the last token, or continue to its end; it can be resumed until the next "
           "call on the session")
      .OneOf({"pause", "continue"});
  command.Add("--no-resume", &flags.no_resume,
              "Do not take up a stream on a session that is lost: its call ends there");
}

void TakeFlags(const ResumeFlags& flags, ResumeOptions& options) {
  options.automatic = !flags.no_resume;
  if (flags.on_disconnect == "continue") {
    options.on_disconnect = OnDisconnect::kContinue;
  }
}

std::string ForTerminal(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const size_t keep = text.find_first_of("\n\t");
    shown += EscapeControls(text.substr(0, keep));
    if (keep == std::string_view::npos) break;
    shown.push_back(text[keep]);
    text.remove_prefix(keep + 1);
  }
  return shown;
}

}  // namespace mnemon::client
