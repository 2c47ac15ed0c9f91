// SPDX-License-Identifier: MIT
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/process/standard_output.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "client/client.h"
#include "client/commands/commands.h"
#include "client/commands/prompt_flags.h"
#include "client/request_id.h"
#include "client/terminal/context_limit.h"
#include "client/terminal/describe_error.h"
#include "client/terminal/interrupts.h"
#include "client/terminal/logprob_lines.h"
#include "client/terminal/loss_notes.h"
#include "client/terminal/sampling_flags.h"

namespace mnemon::client {
namespace {

struct GenerateFlags {
  ClientOptions client;
  GenerateOptions generate;
  PromptFlags prompt;
  std::string message;
  std::string system;
  SamplingFlags sampling;
  StoppingFlags stopping;
  ResumeFlags resume;
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
    if (chunk.resumed_after) {
      std::fputs(ResumedNote(*chunk.resumed_after).c_str(), stderr);
    }
    if (!chunk.tokens.empty()) {
      last_index_ = chunk.first_index + static_cast<int64_t>(chunk.tokens.size()) - 1;
    }
    std::string text = chunk.text;
    if (form_ == Form::kIds) text = Ids(chunk);
    if (form_ == Form::kLogprobs) text = LogprobLines(chunk.logprobs);
    if (terminal_) text = ForTerminal(text);
    text_seen_ = text_seen_ || !chunk.text.empty();
    printed_ = printed_ || !text.empty();
    return WriteStandardOutput(text);
  }

  // `failed`: an empty line is then not an answer.
  absl::Status Finish(bool failed) {
    const bool line = form_ == Form::kIds || (form_ == Form::kText && terminal_);
    return WriteStandardOutput(line && (printed_ || !failed) ? "\n" : "");
  }

  bool text_seen() const { return text_seen_; }
  // Index of the newest token.
  std::optional<int64_t> last_index() const { return last_index_; }

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
  bool printed_ = false;
  std::optional<int64_t> last_index_;
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

const char* WayOutOfFullContext(const GenerateFlags& flags) {
  return flags.generate.session.empty()
             ? "give a shorter prompt, or a model of a longer context"
             : "continue in another session, which may begin with the end of this one";
}

// The server's error. If it concerns a field set by a flag, it names the flag, which
// has the name of the field.
absl::Status Failure(const absl::Status& status, const GenerateFlags& flags) {
  const std::optional<ErrorDetail> detail = GetErrorDetail(status);
  std::string text(Described(status).message());
  if (detail && detail->reason == kContextLimit) {
    text += StrCat("; ", WayOutOfFullContext(flags));
  }
  for (const std::string_view prefix : {"sampling.", "stopping."}) {
    if (!detail || !detail->field.starts_with(prefix)) continue;
    std::string flag = detail->field.substr(prefix.size());
    flag.resize(std::min(flag.size(), flag.find_first_of("[.")));
    std::replace(flag.begin(), flag.end(), '_', '-');
    text = StrCat("--", flag, ": ", text);
  }
  return absl::Status(status.code(), text);
}

// Explains how to resume an interrupted call by hand.
void TellResume(const GenerateOptions& options, std::optional<int64_t> last_index,
                const absl::Status& ended) {
  if (options.session.empty() || options.request_id.empty() || !last_index) return;
  if (!absl::IsCancelled(ended) && !absl::IsUnavailable(ended) &&
      !absl::IsDeadlineExceeded(ended)) {
    return;
  }
  std::fprintf(stderr,
               "mnemon: to get the rest, before the next call on the session: "
               "mnemon generate --session %s --request-id %s --resume-after %lld\n",
               ForTerminal(options.session).c_str(), options.request_id.c_str(),
               static_cast<long long>(*last_index));
}

bool HasPrompt(const GenerateFlags& flags) {
  return !flags.prompt.text.empty() || !flags.prompt.tokens.empty() ||
         !flags.prompt.file.empty() || !flags.message.empty();
}

absl::Status CheckMessage(const GenerateFlags& flags) {
  const PromptFlags& prompt = flags.prompt;
  if (flags.message.empty()) {
    return flags.system.empty() ? absl::OkStatus()
                                : UsageError("--system needs --message");
  }
  return prompt.text.empty() && prompt.tokens.empty() && prompt.file.empty()
             ? absl::OkStatus()
             : UsageError("--message excludes --prompt, --prompt-tokens and --text");
}

absl::Status CheckResume(const GenerateFlags& flags) {
  const bool session = !flags.generate.session.empty();
  if (!flags.generate.resume.after) {
    return session || flags.resume.on_disconnect == "pause"
               ? absl::OkStatus()
               : UsageError("--on-disconnect continue needs --session");
  }
  if (!session || flags.generate.request_id.empty()) {
    return UsageError("--resume-after needs the call's --session and --request-id");
  }
  if (!HasPrompt(flags)) return absl::OkStatus();
  return UsageError("--resume-after continues an earlier call: it takes no prompt");
}

absl::Status Run(GenerateFlags& flags) {
  MNEMON_RETURN_IF_ERROR(CheckResume(flags));
  MNEMON_RETURN_IF_ERROR(CheckMessage(flags));
  if (!HasPrompt(flags) && flags.generate.session.empty()) {
    return UsageError(
        "give a prompt: --prompt TEXT, --message TEXT, --prompt-tokens IDS, "
        "--text FILE or --session NAME");
  }
  MNEMON_RETURN_IF_ERROR(TakeFlags(flags.sampling, flags.generate.sampling));
  MNEMON_RETURN_IF_ERROR(TakeFlags(flags.stopping, flags.generate.stopping));
  if (flags.logprobs) {
    flags.generate.logprobs = {.wanted = true, .most_likely = *flags.logprobs};
  }
  MNEMON_RETURN_IF_ERROR(ReadPromptFile(flags.prompt, kMaxPromptBytes));
  flags.generate.text = std::move(flags.prompt.text);
  flags.generate.tokens = std::move(flags.prompt.tokens);
  flags.generate.unknown_characters = UnknownOf(flags.prompt);
  if (!flags.system.empty()) {
    flags.generate.messages.push_back({.role = "system", .content = flags.system});
  }
  if (!flags.message.empty()) {
    flags.generate.messages.push_back({.role = "user", .content = flags.message});
  } else if (!flags.generate.stopping.max_tokens) {
    flags.generate.stopping.max_tokens = kDefaultMaxTokens;
  }
  TakeFlags(flags.resume, flags.generate.resume);
  if (flags.generate.resume.automatic && !flags.generate.session.empty() &&
      flags.generate.request_id.empty()) {
    flags.generate.request_id = NewRequestId();
  }
  TellLosses(flags.client);
  Interrupts interrupts;
  std::unique_ptr<Client> client = Client::Connect(flags.client);
  interrupts.SetAction([&] { client->CancelCalls(); });
  Output output(flags.logprobs ? Form::kLogprobs
                : flags.ids    ? Form::kIds
                               : Form::kText);
  absl::Status written;
  absl::StatusOr<GenerateResult> result =
      client->Generate(flags.generate, [&](const GenerateChunk& chunk) {
        if (interrupts.signal() != 0) return false;
        written = output.Print(chunk);
        return written.ok();
      });
  interrupts.SetAction(nullptr);
  MNEMON_RETURN_IF_ERROR(written);
  MNEMON_RETURN_IF_ERROR(output.Finish(!result.ok()));
  if (!result.ok()) {
    TellResume(flags.generate, output.last_index(), result.status());
    const int signal = interrupts.signal();
    return signal != 0 ? EndedBySignal(signal) : Failure(result.status(), flags);
  }
  if (flags.stats) PrintStats(*result);
  if (result->finish_reason == kContextLimit) {
    std::fprintf(stderr, "mnemon: %s: %s\n",
                 DescribeContextLimit(*client, *result).c_str(),
                 WayOutOfFullContext(flags));
  }
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
       "mnemon generate --text story.txt --temperature 0.8 --top-p 0.95 --stats",
       "mnemon generate --session anna --prompt 'And then'   # anna's memory continues",
       "mnemon generate --session anna --message 'What is a fjord?'   # as in a chat",
       "mnemon generate --prompt-tokens 1,2,3 --temperature 0 --ids",
       "mnemon generate --session anna --request-id UUID --resume-after 41   # the "
       "rest"},
      [flags] { return Run(*flags); });
  AddServerFlag(command, flags->client);
  AddModelFlag(command, flags->generate.model);
  command.Add("--session", &flags->generate.session, "Session whose memory continues")
      .Default("a new one, dropped at the end");
  AddPromptFlags(command, flags->prompt, "to continue");
  command
      .Add("--message", &flags->message,
           "A user's message, in the model's chat template; in a session the "
           "conversation goes on")
      .Default("no message");
  command.Add("--system", &flags->system, "A message of the system before it")
      .Default("no message");
  AddResumeFlags(command, flags->resume);
  command
      .Add("--request-id", &flags->generate.request_id,
           "A UUID that names the call: on a session the same command again gets the "
           "same answer")
      .Default("drawn, on a session");
  command
      .Add("--resume-after", &flags->generate.resume.after,
           "Go on with the stream of an earlier call, the session's newest, of this "
           "--request-id, after the token of this index; -1: from its first token")
      .Default("a call of its own");
  AddStoppingFlags(command, flags->generate.stopping, flags->stopping);
  AddSamplingFlags(command, flags->generate.sampling, flags->sampling);
  command
      .Add("--stop-token-ids", &flags->generate.stopping.stop_token_ids,
           "Token ids that end it, with commas: 1,2,3")
      .WithCommas()
      .Default("none");
  command.Add("--ignore-eos", &flags->generate.stopping.ignore_eos,
              "Go on after the model's own end token");
  Flag ids = command.Add("--ids", &flags->ids, "Print token ids in place of text");
  command
      .Add(
          "--logprobs", &flags->logprobs,
          "Print a line per token in place of text: index, id, log-probability, and so "
          "many most likely candidates as id:log-probability")
      .Excludes(ids)
      .Default("text");
  command.Add("--stats", &flags->stats,
              "Print counts, times and seed to standard error at the end");
}

}  // namespace mnemon::client
