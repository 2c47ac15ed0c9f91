// SPDX-License-Identifier: MIT
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "base/standard_output.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "client/client.h"
#include "client/commands.h"
#include "client/describe_error.h"
#include "client/interrupts.h"
#include "client/logprob_lines.h"
#include "client/read_text.h"
#include "client/sampling_flags.h"

namespace mnemon::client {
namespace {

struct GenerateFlags {
  ClientOptions client;
  GenerateOptions generate;
  std::string prompt_file;
  SamplingFlags sampling;
  std::optional<int32_t> logprobs;
  bool ids = false;
  bool stats = false;
};

// Limit of one message to the server.
constexpr size_t kMaxPromptBytes = size_t{4} << 20;

enum class Form { kText, kIds, kLogprobs };

// Prints chunks. Text is printed unchanged, but escaped on a terminal.
class Output {
 public:
  explicit Output(Form form) : form_(form), terminal_(isatty(STDOUT_FILENO) == 1) {}

  absl::Status Print(const GenerateChunk& chunk) {
    std::string text = chunk.text;
    if (form_ == Form::kIds) text = Ids(chunk);
    if (form_ == Form::kLogprobs) text = LogprobLines(chunk.logprobs);
    if (terminal_) text = ForTerminal(text);
    text_seen_ = text_seen_ || !chunk.text.empty();
    return WriteStandardOutput(text);
  }

  absl::Status Finish() {
    const bool line = form_ == Form::kIds || (form_ == Form::kText && terminal_);
    return WriteStandardOutput(line ? "\n" : "");
  }

  bool text_seen() const { return text_seen_; }

 private:
  std::string Ids(const GenerateChunk& chunk) {
    std::string text;
    for (int32_t id : chunk.tokens) {
      text += StrCat(first_ ? "" : ",", id);
      first_ = false;
    }
    return text;
  }

  const Form form_;
  const bool terminal_;
  bool first_ = true;
  bool text_seen_ = false;
};

double Seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

void PrintStats(const GenerateResult& result) {
  const double generating = Seconds(result.total_time - result.time_to_first_token);
  const auto gaps = static_cast<double>(result.generated_tokens - 1);
  std::fprintf(
      stderr,
      "prompt %lld tokens; generated %lld tokens in %.3f s (%.1f tokens/s); "
      "first token after %.3f s; seed %llu; finished: %s\n",
      static_cast<long long>(result.prompt_tokens),
      static_cast<long long>(result.generated_tokens), Seconds(result.total_time),
      gaps > 0 && generating > 0 ? gaps / generating : 0.0,
      Seconds(result.time_to_first_token), static_cast<unsigned long long>(result.seed),
      result.finish_reason.c_str());
}

absl::Status Run(GenerateFlags& flags) {
  MNEMON_RETURN_IF_ERROR(TakeFlags(flags.sampling, flags.generate));
  if (flags.logprobs) {
    flags.generate.logprobs = {.wanted = true, .most_likely = *flags.logprobs};
  }
  if (!flags.prompt_file.empty()) {
    MNEMON_ASSIGN_OR_RETURN(flags.generate.text,
                            ReadText(flags.prompt_file, kMaxPromptBytes));
  }
  Interrupts interrupts;
  std::unique_ptr<Client> client = Client::Connect(flags.client);
  interrupts.SetAction([&] { client->CancelStreams(); });
  Output output(flags.logprobs ? Form::kLogprobs
                : flags.ids    ? Form::kIds
                               : Form::kText);
  absl::Status written;
  absl::StatusOr<GenerateResult> result =
      client->Generate(flags.generate, [&](const GenerateChunk& chunk) {
        if (interrupts.interrupted()) return false;
        written = output.Print(chunk);
        return written.ok();
      });
  interrupts.SetAction(nullptr);
  MNEMON_RETURN_IF_ERROR(written);
  MNEMON_RETURN_IF_ERROR(output.Finish());
  if (!result.ok()) {
    return interrupts.interrupted() ? Interrupted() : Described(result.status());
  }
  if (flags.stats) PrintStats(*result);
  if (!flags.ids && !flags.logprobs && !output.text_seen() &&
      result->generated_tokens > 0) {
    std::fprintf(stderr, "mnemon: the model has no text for these tokens: use --ids\n");
  }
  return absl::OkStatus();
}

}  // namespace

void AddGenerateCommand(CommandLine& line) {
  auto flags = std::make_shared<GenerateFlags>();
  Command command = line.AddCommand(
      "generate", "Streams what follows a prompt to standard output; Ctrl-C stops it.",
      {"mnemon generate --prompt 'Once upon a time' --max-tokens 200",
       "mnemon generate --prompt-file story.txt --temperature 0.8 --top-p 0.95 --stats",
       "mnemon generate --session anna --prompt 'And then'   # anna's memory continues",
       "mnemon generate --tokens 1,2,3 --temperature 0 --ids"},
      [flags] { return Run(*flags); });
  AddServerFlag(command, flags->client);
  command.Add("--model", &flags->generate.model,
              "Model; not needed when the server has one");
  command.Add("--session", &flags->generate.session,
              "Session whose memory continues; without one nothing is kept");
  Flag text = command.Add("--prompt", &flags->generate.text, "Text of the prompt");
  Flag file = command.Add("--prompt-file", &flags->prompt_file,
                          "File with the text of the prompt; - = standard input");
  Flag tokens =
      command.Add("--tokens", &flags->generate.tokens, "Token ids of the prompt: 1,2,3")
          .WithCommas();
  text.Excludes(file).Excludes(tokens);
  file.Excludes(tokens);
  AddSamplingFlags(command, flags->generate, flags->sampling);
  command
      .Add("--stop-token", &flags->generate.stop_tokens, "Token ids that end it: 1,2,3")
      .WithCommas();
  Flag ids = command.Add("--ids", &flags->ids, "Print token ids in place of text");
  command
      .Add(
          "--logprobs", &flags->logprobs,
          "Print a line per token in place of text: index, id, log-probability, and so "
          "many most likely candidates as id:log-probability")
      .Excludes(ids);
  command.Add("--stats", &flags->stats,
              "Print counts, times and seed to standard error at the end");
}

}  // namespace mnemon::client
