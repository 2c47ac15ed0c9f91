// SPDX-License-Identifier: MIT
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/standard_output.h"
#include "base/status_macros.h"
#include "client/client.h"
#include "client/commands.h"
#include "client/describe_error.h"
#include "client/interrupts.h"
#include "client/logprob_lines.h"
#include "client/read_text.h"
#include "client/sampling_flags.h"

namespace mnemon::client {
namespace {

constexpr size_t kMaxTextBytes = size_t{1} << 30;

struct ScoreFlags {
  ClientOptions client;
  ScoreOptions score;
  std::string file;
  std::optional<int32_t> logprobs;
};

absl::Status Run(ScoreFlags& flags) {
  if (!flags.file.empty()) {
    MNEMON_ASSIGN_OR_RETURN(flags.score.text, ReadText(flags.file, kMaxTextBytes));
  }
  if (flags.score.text.empty() && flags.score.tokens.empty()) {
    return UsageError("give what is to be scored: --text, --file or --tokens");
  }
  flags.score.most_likely = flags.logprobs.value_or(0);
  Interrupts interrupts;
  std::unique_ptr<Client> client = Client::Connect(flags.client);
  interrupts.SetAction([&] { client->CancelStreams(); });
  absl::Status written;
  absl::StatusOr<ScoreResult> result =
      client->Score(flags.score, [&](const std::vector<TokenLogprobs>& tokens) {
        if (interrupts.interrupted()) return false;
        if (!flags.logprobs) return true;
        written = WriteStandardOutput(LogprobLines(tokens));
        return written.ok();
      });
  interrupts.SetAction(nullptr);
  MNEMON_RETURN_IF_ERROR(written);
  if (!result.ok()) {
    return interrupts.interrupted() ? Interrupted() : Described(result.status());
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
      {"mnemon score --file story.txt",
       "mnemon score --session anna --text 'And then'   # anna stays as she was",
       "mnemon score --tokens 1,2,3 --logprobs 5"},
      [flags] { return Run(*flags); });
  AddServerFlag(command, flags->client);
  command.Add("--model", &flags->score.model,
              "Model; not needed when the server has one");
  command.Add("--session", &flags->score.session,
              "Session whose memory the text continues; without one a fresh state");
  command.Add("--commit", &flags->score.commit, "Keep the text in the session");
  Flag text = command.Add("--text", &flags->score.text, "Text to score");
  Flag file = command.Add("--file", &flags->file,
                          "File with the text to score; - = standard input");
  Flag tokens =
      command.Add("--tokens", &flags->score.tokens, "Token ids to score: 1,2,3")
          .WithCommas();
  text.Excludes(file).Excludes(tokens);
  file.Excludes(tokens);
  command.Add("--logprobs", &flags->logprobs,
              "Print a line per token, the sum to standard error: index, id, "
              "log-probability, and so many most likely candidates");
}

}  // namespace mnemon::client
