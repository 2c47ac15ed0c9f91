// SPDX-License-Identifier: MIT
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/process/standard_output.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "client/client.h"
#include "client/commands/commands.h"
#include "client/commands/prompt_flags.h"
#include "client/terminal/context_limit.h"
#include "client/terminal/describe_error.h"
#include "client/terminal/interrupts.h"
#include "client/terminal/logprob_lines.h"
#include "client/terminal/sampling_flags.h"

namespace mnemon::client {
namespace {

constexpr size_t kMaxTextBytes = size_t{1} << 30;

struct ScoreFlags {
  ClientOptions client;
  ScoreOptions score;
  PromptFlags prompt;
  std::optional<int32_t> logprobs;
};

absl::Status Run(ScoreFlags& flags) {
  MNEMON_RETURN_IF_ERROR(ReadPromptFile(flags.prompt, kMaxTextBytes));
  flags.score.text = std::move(flags.prompt.text);
  flags.score.tokens = std::move(flags.prompt.tokens);
  flags.score.unknown_characters = UnknownOf(flags.prompt);
  if (flags.score.text.empty() && flags.score.tokens.empty()) {
    return UsageError(
        "give what is to be scored: --text FILE, --prompt TEXT or --prompt-tokens IDS");
  }
  flags.score.most_likely = flags.logprobs.value_or(0);
  Interrupts interrupts;
  std::unique_ptr<Client> client = Client::Connect(flags.client);
  interrupts.SetAction([&] { client->CancelCalls(); });
  absl::Status written;
  absl::StatusOr<ScoreResult> result =
      client->Score(flags.score, [&](const std::vector<TokenLogprobs>& tokens) {
        if (interrupts.signal() != 0) return false;
        if (!flags.logprobs) return true;
        written = WriteStandardOutput(LogprobLines(tokens));
        return written.ok();
      });
  interrupts.SetAction(nullptr);
  MNEMON_RETURN_IF_ERROR(written);
  if (!result.ok()) {
    const int signal = interrupts.signal();
    if (signal != 0) return EndedBySignal(signal);
    const std::optional<ErrorDetail> detail = GetErrorDetail(result.status());
    const bool full = detail && detail->reason == kContextLimit;
    return absl::Status(
        result.status().code(),
        StrCat(Described(result.status()).message(),
               full ? "; mnemon-train eval takes a text of any length" : ""));
  }
  const double nats = result->tokens > 0
                          ? -result->logprob_sum / static_cast<double>(result->tokens)
                          : 0;
  std::fprintf(flags.logprobs ? stderr : stdout,
               "tokens %lld  nats/token %.6f  perplexity %.6f\n",
               static_cast<long long>(result->tokens), nats, std::exp(nats));
  return absl::OkStatus();
}

}  // namespace

void AddScoreCommand(CommandLine& line) {
  auto flags = std::make_shared<ScoreFlags>();
  Command command = line.AddCommand(
      "score", "Prints how likely a text is: nats per token and perplexity.",
      {"mnemon score --text story.txt",
       "mnemon score --session anna --prompt 'And then'   # anna stays as she was",
       "mnemon score --prompt-tokens 1,2,3 --logprobs 5"},
      [flags] { return Run(*flags); });
  AddServerFlag(command, flags->client);
  AddModelFlag(command, flags->score.model);
  command
      .Add("--session", &flags->score.session,
           "Session whose memory the text continues")
      .Default("a fresh state");
  command.Add("--commit", &flags->score.commit, "Keep the text in the session");
  AddPromptFlags(command, flags->prompt, "to score");
  command
      .Add("--logprobs", &flags->logprobs,
           "Print a line per token, the sum to standard error: index, id, "
           "log-probability, and so many most likely candidates")
      .Default("the sum alone");
}

}  // namespace mnemon::client
