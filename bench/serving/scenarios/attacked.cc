// SPDX-License-Identifier: MIT
#include <algorithm>
#include <thread>
#include <utility>

#include "base/status_macros.h"
#include "base/strings.h"
#include "bench/serving/scenarios/wire.h"
#include "bench/serving/traffic.h"

namespace mnemon::serving {
namespace {

constexpr double kServed = 2;              // seconds until a new client has its tokens
constexpr double kPatience = 4 * kServed;  // seconds after which it gives up
constexpr double kRetry = 0.1;             // seconds between two of its calls
constexpr double kBack = 10;               // seconds until memory has gone back
constexpr double kMegabytes = 200;         // more than before
constexpr int kDescriptors = 8;            // more than before
constexpr int kThreads = 8;          // more than before: gRPC keeps some for a while
constexpr double kAttackedIdle = 5;  // seconds
constexpr double kGrace = 1;         // seconds
constexpr double kAttackedEnd = kGrace + 2;  // seconds from SIGTERM to the end
constexpr int kWarmCalls = 64;
constexpr int64_t kMillion = 1'000'000;

CallRecord CallOnce(int port, double patience) {
  Connection connection(port, {});
  Calls calls;
  calls.Start(connection, MakeRequest("", 8, 32, 7), {.deadline = Seconds(patience)});
  calls.Wait(Seconds(patience + 5));
  std::vector<CallRecord> records = calls.Take();
  return records.empty() ? CallRecord{.trace = {.status = absl::UnknownError("")}}
                         : records[0];
}

}  // namespace

absl::StatusOr<std::unique_ptr<Attacked>> Attacked::Start(
    const ScenarioOptions& options, const std::string& name, int descriptors,
    const BarResults& results) {
  MNEMON_ASSIGN_OR_RETURN(const std::string model,
                          Checkpoint(options, "fast_weights", "XS"));
  // Work that is cut off after the grace period ends with another exit code.
  StartOptions start = {.grace = StrCat(results.Patience(kGrace))};
  if (descriptors > 0) {
    start.launcher = {"/usr/bin/prlimit", StrCat("--nofile=", descriptors)};
  }
  std::unique_ptr<Attacked> attacked(new Attacked(name));
  MNEMON_ASSIGN_OR_RETURN(
      attacked->server_,
      StartServer(options,
                  {"--checkpoint", model, "--running", "32", "--max-tokens",
                   StrCat(kEndlessTokens), "--idle-timeout",
                   StrCat(results.Patience(kAttackedIdle))},
                  start));
  {
    Connections connections(attacked->server_->port(), 4);
    Calls calls;
    for (int i = 0; i < kWarmCalls; ++i) {
      calls.Start(connections.at(static_cast<size_t>(i)), MakeRequest("", 8, 32, 7),
                  {.deadline = kHangs});
    }
    if (!calls.Wait(kHangs)) {
      return absl::DeadlineExceededError("the server could not be warmed");
    }
    for (CallRecord& call : calls.Take()) {
      if (!call.ok())
        return absl::UnavailableError(StrCat("warming: ", call.trace.status.message()));
      attacked->tokens_ = std::move(call.tokens);
    }
  }
  MNEMON_RETURN_IF_ERROR(attacked->server_->Metrics().status());
  attacked->before_ = UseOf(attacked->server_->pid());
  return attacked;
}

wire::AttackPlan Attacked::PlanFor(double seconds) const {
  return {.port = server_->port(),
          .until = SteadyClock::now() +
                   std::chrono::duration_cast<SteadyClock::duration>(Seconds(seconds)),
          .short_call = MakeRequest("", 4, 4, 1).SerializeAsString(),
          .long_prompt = MakeRequest("", kMillion, 4, 2).SerializeAsString(),
          .endless_call = MakeRequest("", 4, kEndlessTokens, 3).SerializeAsString()};
}

void Attacked::CompareDuring(const Watched& watched, bool leaves_room,
                             BarResults& results) {
  const auto of = [&](int looks) { return static_cast<double>(looks); };
  peak_megabytes_ = watched.peak_megabytes;
  results.Note(What("looks"), of(watched.looks), "");
  results.Exactly(What("/healthz other than 200"), of(watched.not_alive), 0, "looks");
  results.Exactly(What("/readyz neither 200 nor 503"), of(watched.ready_unanswered), 0,
                  "looks");
  results.Exactly(What("/readyz 200, and no new client is served"),
                  of(watched.wrongly_ready), 0, "looks");
  results.Note(What("slowest health check on a new connection"), watched.slowest, "s");
  if (leaves_room) {
    results.Exactly(What("no health check on a new connection"),
                    of(watched.not_reached), 0, "looks");
  } else {
    results.Note(What("no health check on a new connection"), of(watched.not_reached),
                 "looks");
  }
  // A model without processor time makes no progress, and reports so.
  if (leaves_room && results.timed()) {
    results.Exactly(What("/readyz 503"), of(watched.not_ready), 0, "looks");
  } else {
    results.Note(What("/readyz 503"), of(watched.not_ready), "looks");
  }
}

void Attacked::CompareAfter(BarResults& results) {
  const double patience = results.Patience(kPatience);
  const TimePoint begin = SteadyClock::now();
  CallRecord call = CallOnce(server_->port(), patience);
  // Clients retry after these two.
  while ((absl::IsResourceExhausted(call.trace.status) ||
          absl::IsUnavailable(call.trace.status)) &&
         Seconds(SteadyClock::now() - begin).count() < patience) {
    Pass(kRetry);
    call = CallOnce(server_->port(), patience);
  }
  results.TimeAtMost(What("a new client's tokens, after"),
                     Seconds(call.trace.end - begin).count(), kServed, "s");
  results.Note(What("status of its call"), call.trace.status.raw_code(), "of gRPC");
  results.Exactly(What("they are other than before"),
                  call.ok() && call.tokens == tokens_ ? 0 : 1, 0, "");
  const auto is_back = [&](const ProcessUse& now) {
    return now.megabytes <= before_.megabytes + kMegabytes &&
           now.descriptors <= before_.descriptors + kDescriptors &&
           now.threads <= before_.threads + kThreads;
  };
  ProcessUse now = UseOf(server_->pid());
  peak_megabytes_ = std::max(peak_megabytes_, now.megabytes);
  const double back = results.Patience(kBack);
  while (!is_back(now) && Seconds(SteadyClock::now() - begin).count() < back) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    now = UseOf(server_->pid());
    peak_megabytes_ = std::max(peak_megabytes_, now.megabytes);
  }
  results.Note(What("resident before"), before_.megabytes, "MB");
  results.Note(What("resident at its peak"), peak_megabytes_, "MB");
  results.AtMost(What("resident after, more than before"),
                 now.megabytes - before_.megabytes, kMegabytes, "MB");
  results.AtMost(What("descriptors after, more than before"),
                 now.descriptors - before_.descriptors, kDescriptors, "");
  results.AtMost(What("threads after, more than before"), now.threads - before_.threads,
                 kThreads, "");
  const TimePoint term = SteadyClock::now();
  const std::optional<int> code = server_->Stop(std::chrono::milliseconds(
      static_cast<int>(1000 * results.Patience(4 * kAttackedEnd))));
  results.TimeAtMost(What("from SIGTERM to the end"),
                     Seconds(SteadyClock::now() - term).count(), kAttackedEnd, "s");
  results.Exactly(What("exit code"), code.value_or(-1), 0, "");
}

void NoteTally(const std::string& name, const wire::AttackTally& tally,
               BarResults& results) {
  const std::pair<const char*, int64_t> notes[] = {
      {"connections", tally.connections},
      {"connections refused", tally.refused},
      {"connections cut", tally.cut},
      {"frames sent", tally.frames},
      {"streams ended by the server", tally.ended}};
  for (const auto& [what, count] : notes) {
    if (count > 0) results.Note(name + ": " + what, static_cast<double>(count), "");
  }
  results.Note(name + ": sent", static_cast<double>(tally.bytes) / 1e6, "MB");
}

}  // namespace mnemon::serving
