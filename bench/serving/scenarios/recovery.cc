// SPDX-License-Identifier: MIT
// A server is killed during many streams: time from the start of the next server until
// all streams have resumed after the last token that their clients have.
#include <algorithm>
#include <mutex>
#include <string>
#include <thread>

#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "bench/serving/calls.h"
#include "bench/serving/data_folder.h"
#include "bench/serving/scenarios/scenario.h"
#include "bench/serving/session_calls.h"
#include "bench/serving/traffic.h"

namespace mnemon::serving {
namespace {

constexpr int kRecoveryStreams = 64;
constexpr int64_t kRecoveryPromptTokens = 64;
constexpr int64_t kRecoveryNewTokens = 192;  // per stream, about

std::string RequestId(int round, int stream) {
  return absl::StrFormat("00000000-0000-4000-8000-%04x%08x", round, stream);
}

v1::GenerateRequest RequestOf(int round, int stream) {
  v1::GenerateRequest request =
      MakeRequest("", kRecoveryPromptTokens, kEndless, static_cast<uint64_t>(stream));
  request.set_session("sessions/" + IdOf(stream));
  request.set_request_id(RequestId(round, stream));
  return request;
}

// Starts the streams and kills the server during them. Returns the index of the next
// token of each stream.
absl::StatusOr<std::vector<int64_t>> RunAndKill(TestServer& server, int round) {
  Connections connections(server.port(), 4);
  std::vector<int64_t> next(kRecoveryStreams, -1);
  std::mutex mutex;  // guards next
  Calls calls;
  for (int i = 0; i < kRecoveryStreams; ++i) {
    calls.Start(connections.at(static_cast<size_t>(i)), RequestOf(round, i), {},
                [&, i](const CallRecord& call) {
                  std::lock_guard lock(mutex);
                  next[static_cast<size_t>(i)] = call.next_index;
                });
  }
  MNEMON_ASSIGN_OR_RETURN(const MetricsPage before, server.Metrics());
  const char tokens[] = "mnemon_generation_tokens_total";
  const TimePoint begin = SteadyClock::now();
  for (;;) {
    MNEMON_ASSIGN_OR_RETURN(const MetricsPage page, server.Metrics());
    if (page.Sum(tokens) - before.Sum(tokens) >= kRecoveryStreams * kRecoveryNewTokens)
      break;
    if (SteadyClock::now() - begin > kHangs)
      return absl::InternalError("the streams do not go on");
    Pass(0.01);
  }
  const int64_t running = calls.running();
  server.Kill();
  if (!calls.Wait(kHangs)) return absl::InternalError("a stream outlives its server");
  const std::vector<CallRecord> records = calls.Take();
  if (running != kRecoveryStreams) {
    return absl::InternalError(
        StrCat("a stream ended: ", records.at(0).trace.status.message()));
  }
  std::lock_guard lock(mutex);
  if (*std::min_element(next.begin(), next.end()) < 0) {
    return absl::InternalError("a stream had no token before the kill");
  }
  return next;
}

// Resumes all streams; returns when the last of them got its first token.
absl::StatusOr<TimePoint> ResumeAll(TestServer& server, int round,
                                    const std::vector<int64_t>& next) {
  Clients clients(server.port(), 4);
  std::mutex mutex;
  absl::Status failed;  // guarded by mutex
  TimePoint last;       // guarded by mutex
  std::vector<std::thread> callers;
  for (int i = 0; i < kRecoveryStreams; ++i) {
    callers.emplace_back([&, i] {
      const auto at = static_cast<size_t>(i);
      int64_t first = -1;
      const auto result = clients.at(at).Generate(
          {.session = IdOf(i),
           .deadline = std::chrono::ceil<std::chrono::milliseconds>(kHangs),
           .request_id = RequestId(round, i),
           .resume = {.after = next[at] - 1}},
          [&](const client::GenerateChunk& chunk) {
            if (!chunk.tokens.empty()) first = chunk.first_index;
            return first < 0;
          });
      const TimePoint now = SteadyClock::now();
      std::lock_guard lock(mutex);
      if (first < 0) {
        failed.Update(Annotated(result.status(), "a resume failed"));
      } else if (first != next[at]) {
        failed.Update(absl::InternalError("a stream goes on at another token"));
      }
      last = std::max(last, now);
    });
  }
  for (std::thread& caller : callers) caller.join();
  MNEMON_RETURN_IF_ERROR(failed);
  return last;
}

absl::Status MeasureRecovery(const ScenarioOptions& options, const std::string& size,
                             BarResults& results) {
  const int rounds = options.quick ? 1 : 5;
  MNEMON_ASSIGN_OR_RETURN(const std::string model,
                          Checkpoint(options, "fast_weights", size));
  std::vector<double> starts, all;
  double tokens = 0;
  for (int round = 0; round < rounds; ++round) {
    const DataFolder data(options.directory + "/data-recovery");
    const std::vector<std::string> flags = {"--checkpoint", "m=" + model,
                                            "--data-dir",   data.path(),
                                            "--max-tokens", StrCat(kEndless)};
    MNEMON_ASSIGN_OR_RETURN(auto server, StartServer(options, flags));
    {
      Clients clients(server->port(), 4);
      for (int i = 0; i < kRecoveryStreams; ++i) {
        MNEMON_RETURN_IF_ERROR(
            clients.at(static_cast<size_t>(i)).CreateSession(IdOf(i), "m").status());
      }
    }
    MNEMON_ASSIGN_OR_RETURN(const std::vector<int64_t> next,
                            RunAndKill(*server, round));
    server.reset();
    const TimePoint begin = SteadyClock::now();
    MNEMON_ASSIGN_OR_RETURN(server, StartServer(options, flags));
    MNEMON_ASSIGN_OR_RETURN(const TimePoint last, ResumeAll(*server, round, next));
    starts.push_back(server->start_time().count());
    all.push_back(Seconds(last - begin).count());
    for (const int64_t one : next) {
      tokens += static_cast<double>(one) / (kRecoveryStreams * rounds);
    }
  }
  results.Note(size + ": tokens of a stream at the kill, mean", tokens, "");
  results.Note(size + ": start of the next server", Median(starts), "s");
  results.Note(size + ": the longest time until all streams go on",
               *std::max_element(all.begin(), all.end()), "s");
  results.TimeAtMost(size + ": from its start until all streams go on", Median(all), 1,
                     "s");
  return absl::OkStatus();
}

}  // namespace

absl::Status RunRecovery(const ScenarioOptions& options, BarResults& results) {
  MNEMON_RETURN_IF_ERROR(MeasureRecovery(options, "XS", results));
  return MeasureRecovery(options, "S", results);
}

}  // namespace mnemon::serving
