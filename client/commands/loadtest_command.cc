// SPDX-License-Identifier: MIT
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/process/standard_output.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "client/client.h"
#include "client/commands/commands.h"
#include "client/commands/load_report.h"
#include "client/load/load.h"
#include "client/terminal/describe_error.h"
#include "client/terminal/interrupts.h"
#include "client/terminal/sampling_flags.h"

namespace mnemon::client {
namespace {

constexpr int32_t kMostCallers = 4096;
constexpr int32_t kMostTokens = 1 << 18;
constexpr double kMostSeconds = 86400;

struct LoadtestFlags {
  ClientOptions client;
  LoadOptions load;
  std::optional<int32_t> concurrency;
  std::optional<double> rate;
  std::optional<int32_t> requests;
  std::optional<double> seconds;
  int32_t max_in_flight = 1024;
  int32_t warmup = 8;
  std::string prompt_tokens = "64";
  std::string max_tokens = "64";
  int32_t sessions = 0;
  int64_t seed = 1;
  double deadline = 600;  // seconds
  std::string goodput;
  std::string max_lateness = "10ms";
  bool json = false;
};

absl::Status FlagError(const char* flag, const absl::Status& status) {
  return UsageError(StrCat(flag, ": ", status.message()));
}

absl::Status TakeLoop(const LoadtestFlags& flags, LoadOptions& load) {
  if (flags.concurrency.has_value() == flags.rate.has_value()) {
    return UsageError(
        "give --concurrency N for a closed loop, or --rate R for an open one");
  }
  load.concurrency = flags.concurrency.value_or(0);
  load.rate = flags.rate.value_or(0);
  load.max_in_flight = flags.max_in_flight;
  load.requests = flags.requests;
  load.seconds = flags.seconds.value_or(load.seconds);
  load.warmup = flags.warmup;
  load.sessions = flags.sessions;
  if (load.sessions > 0 && load.sessions < load.concurrency) {
    return UsageError(StrCat("--sessions: ", load.concurrency,
                             " callers need as many, not ", load.sessions));
  }
  if (load.rest_seconds > 0 && load.sessions == 0) {
    return UsageError("--rest: needs --sessions");
  }
  return absl::OkStatus();
}

absl::Status TakeLoadtestFlags(const LoadtestFlags& flags, LoadOptions& load) {
  MNEMON_RETURN_IF_ERROR(TakeLoop(flags, load));
  load.draw.seed = static_cast<uint64_t>(flags.seed);
  const auto prompt = ParseTokenRange(flags.prompt_tokens, kMostTokens);
  if (!prompt.ok()) return FlagError("--prompt-tokens", prompt.status());
  load.draw.prompt_tokens = *prompt;
  const auto most = ParseTokenRange(flags.max_tokens, kMostTokens);
  if (!most.ok()) return FlagError("--max-tokens", most.status());
  load.draw.max_tokens = *most;
  const auto limits = ParseGoodputLimits(flags.goodput);
  if (!limits.ok()) return FlagError("--goodput", limits.status());
  load.limits = *limits;
  const auto late = ParseSeconds(flags.max_lateness);
  if (!late.ok()) return FlagError("--max-lateness", late.status());
  load.max_lateness_seconds = *late;
  load.deadline = std::chrono::milliseconds(std::llround(flags.deadline * 1e3));
  return absl::OkStatus();
}

absl::StatusOr<ModelSummary> ChooseModel(Client& client, const std::string& name) {
  auto models = client.ListModels();
  if (!models.ok()) return Described(models.status());
  std::vector<std::string> names;
  for (const ModelSummary& model : *models) {
    if (name == model.name || (name.empty() && models->size() == 1)) return model;
    names.push_back(model.name);
  }
  return UsageError(StrCat("--model: give one of the server's models: ",
                           ForTerminal(StrJoin(names, ", "))));
}

absl::Status TakeModel(const ModelSummary& model, LoadOptions& load) {
  if (model.vocab < 1 || model.vocab > INT32_MAX) {
    return absl::DataLossError(
        StrCat("the server reports a vocabulary of ", model.vocab, " tokens"));
  }
  load.model = model.name;
  load.draw.vocab = model.vocab;
  load.context_limit = model.context_limit;
  const int64_t tokens =
      int64_t{load.draw.prompt_tokens.most} + load.draw.max_tokens.most;
  if (model.context_limit && tokens > *model.context_limit) {
    return UsageError(StrCat("--prompt-tokens and --max-tokens: ", tokens,
                             " tokens together exceed the model's context of ",
                             *model.context_limit));
  }
  return absl::OkStatus();
}

absl::Status Run(const LoadtestFlags& flags) {
  LoadOptions options = flags.load;
  MNEMON_RETURN_IF_ERROR(TakeLoadtestFlags(flags, options));
  Interrupts interrupts;
  std::unique_ptr<Client> client = Client::Connect(flags.client);
  interrupts.SetAction([&] { client->CancelCalls(); });
  const auto ended = [&](const absl::Status& status) {
    const int signal = interrupts.signal();
    return signal != 0 ? EndedBySignal(signal) : status;
  };
  absl::StatusOr<ModelSummary> model = ChooseModel(*client, options.model);
  if (!model.ok()) return ended(model.status());
  MNEMON_RETURN_IF_ERROR(TakeModel(*model, options));
  // Without retries, so that lost calls count as lost.
  ClientOptions once = flags.client;
  once.retry.tries = 1;
  Load load(options, [&] { return Client::Connect(once); });
  interrupts.SetAction([&] { load.Stop(); });
  if (interrupts.signal() != 0) load.Stop();
  absl::StatusOr<LoadResult> result = load.Run();
  interrupts.SetAction(nullptr);
  if (!result.ok()) return ended(Described(result.status()));
  const LoadSubject subject = {
      .server = flags.client.server, .model = *model, .options = options};
  MNEMON_RETURN_IF_ERROR(WriteStandardOutput(flags.json ? LoadJson(subject, *result)
                                                        : LoadTable(subject, *result)));
  MNEMON_RETURN_IF_ERROR(ended(absl::OkStatus()));
  if (result->end == LoadEnd::kServerGone) return Described(result->gone);
  if (!result->void_why.empty()) {
    return absl::FailedPreconditionError(
        StrCat("the figures are void: ", result->void_why));
  }
  if (result->figures.completed() == 0) {
    return absl::FailedPreconditionError("no call has completed");
  }
  return Described(result->not_deleted);
}

void AddShapeFlags(Command command, LoadtestFlags& flags) {
  command.Add(
      "--prompt-tokens", &flags.prompt_tokens,
      "Tokens of a prompt, N or a range N-M of which each is as likely; they are "
      "drawn from the model's vocabulary");
  command.Add("--max-tokens", &flags.max_tokens,
              "Tokens that a call generates at most, N or N-M");
  command
      .Add("--sessions", &flags.sessions,
           "Calls continue so many new sessions in turn, which are deleted at the end; "
           "0 = they are stateless")
      .Between(0, 100000, "sessions");
  command
      .Add("--rest", &flags.load.rest_seconds,
           "Seconds that the sessions then rest, before the time to the first token of "
           "a call on each is measured, one after the other; 0 = none")
      .Between(0, kMostSeconds, "seconds");
  command
      .Add("--temperature", &flags.load.temperature,
           "Flattens the distribution above 1, sharpens it below; 0 = greedy")
      .Default("1, the model's own distribution");
  command.Add("--seed", &flags.seed,
              "Same seed, same prompts, and same arrivals of an open loop");
}

void AddLoopFlags(Command command, LoadtestFlags& flags) {
  Flag concurrency =
      command
          .Add("--concurrency", &flags.concurrency,
               "Closed loop: so many callers, each of which starts its next call when "
               "one ends")
          .Between(1, kMostCallers, "callers")
          .Default("an open loop");
  command
      .Add("--rate", &flags.rate,
           "Open loop: calls per second, due at random times (Poisson) from which "
           "their latencies count")
      .Between(0.001, 100000, "calls per second")
      .Default("a closed loop")
      .Excludes(concurrency);
  command
      .Add("--max-in-flight", &flags.max_in_flight,
           "Open loop: calls at once; one that is due beyond them waits, which counts")
      .Between(1, kMostCallers, "calls");
  Flag requests = command.Add("--requests", &flags.requests, "Calls to measure")
                      .Between(1, 1e9, "calls")
                      .Default("those of --seconds");
  command
      .Add("--seconds", &flags.seconds,
           "Seconds in which measured calls begin; those that run then are awaited")
      .Between(0.01, kMostSeconds, "seconds")
      .Default("10")
      .Excludes(requests);
  command.Add("--warmup", &flags.warmup, "Stateless calls before, not measured")
      .Between(0, 1e6, "calls");
  command
      .Add("--deadline", &flags.deadline, "Seconds that a call may take; it fails then")
      .Between(0.001, kMostSeconds, "seconds");
}

}  // namespace

void AddLoadtestCommand(CommandLine& line) {
  auto flags = std::make_shared<LoadtestFlags>();
  Command command = line.AddCommand(
      "loadtest",
      "Measures a running server under load: throughput and latencies; Ctrl-C prints "
      "the figures so far.",
      {"mnemon loadtest --concurrency 16 --seconds 30",
       "mnemon loadtest --rate 20 --requests 1000 --prompt-tokens 32-128 --max-tokens "
       "64",
       "mnemon loadtest --rate 20 --goodput ttft=100ms,itl=10ms,e2e=2s --json",
       "mnemon loadtest --concurrency 4 --sessions 64 --rest 60"},
      [flags] { return Run(*flags); });
  AddServerFlag(command, flags->client);
  command.Add("--model", &flags->load.model, "Model")
      .Default("the only one of the server, or that called default");
  AddLoopFlags(command, *flags);
  AddShapeFlags(command, *flags);
  command
      .Add("--goodput", &flags->goodput,
           "Limits that a call must meet to count as good, of ttft, itl, tpot and e2e: "
           "ttft=100ms,itl=10ms,e2e=2s")
      .Default("none");
  command.Add("--max-lateness", &flags->max_lateness,
              "Open loop: how late the client may send at the p99; later, the figures "
              "are void and the exit code is 1");
  command.Add("--json", &flags->json, "Print one JSON object in place of a table");
}

}  // namespace mnemon::client
