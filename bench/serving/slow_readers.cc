// SPDX-License-Identifier: MIT
// A hundred clients that read one token a second, each of a stream without an end,
// beside sixteen that read all they can: the server keeps no more for them as time goes
// on, and the fast ones keep their speed.
#include <algorithm>
#include <thread>

#include "base/status_macros.h"
#include "base/strings.h"
#include "bench/serving/process_use.h"
#include "bench/serving/scenario.h"
#include "bench/serving/traffic.h"

namespace mnemon::serving {
namespace {

constexpr int kSlow = 100;
constexpr int kFast = 16;
constexpr int64_t kEndless = 1'000'000'000;  // tokens
constexpr double kTokenSeconds = 1;          // in which a slow client reads a token

struct Shape {
  double alone;   // seconds of each of the turns without slow readers, before and after
  double beside;  // seconds with them
};
constexpr Shape kFull = {.alone = 15, .beside = 60};
constexpr Shape kQuick = {.alone = 3, .beside = 10};

constexpr char kTokens[] = "mnemon_generation_tokens_total";
constexpr char kStalled[] = "mnemon_requests_stalled";

// The least and the most that the server had of the machine.
struct Memory {
  double least = 0, most = 0;  // megabytes
};

class Bench {
 public:
  explicit Bench(TestServer& server) : server_(server), fast_(server.port(), 4) {}

  // Tokens per second of the fast streams, over so many seconds behind a short start.
  absl::StatusOr<double> Fast(double seconds, Memory* memory) {
    Calls calls;
    for (int i = 0; i < kFast; ++i) {
      calls.Start(fast_.at(static_cast<size_t>(i)),
                  MakeRequest("m", 16, kEndless, static_cast<uint64_t>(i)), {});
    }
    Pass(1);
    Interval interval = Pass(0);
    const TimePoint end =
        interval.from +
        std::chrono::duration_cast<SteadyClock::duration>(Seconds(seconds));
    while ((interval.to = SteadyClock::now()) < end) {
      if (memory != nullptr) {
        const double now = UseOf(server_.pid()).megabytes;
        memory->least = memory->least == 0 ? now : std::min(memory->least, now);
        memory->most = std::max(memory->most, now);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    const int64_t running = calls.running();
    calls.CancelAll();
    if (!calls.Wait(Seconds(30))) return absl::InternalError("a stream does not end");
    const std::vector<CallRecord> records = calls.Take();
    if (running != kFast) {
      return absl::InternalError("a fast stream ended: " + records.at(0).message);
    }
    return TokensPerSecond(records, interval);
  }

  // Each on a session and a connection of its own.
  absl::Status StartSlow(Connections& connections, Calls& calls) {
    for (int i = 0; i < kSlow; ++i) {
      Connection& connection = connections.at(static_cast<size_t>(i));
      grpc::ClientContext context;
      v1::CreateSessionRequest create;
      create.set_session_id(StrCat("slow", i));
      create.mutable_session()->set_model("models/m");
      v1::Session session;
      const grpc::Status made =
          connection.sessions->CreateSession(&context, create, &session);
      if (!made.ok()) return absl::InternalError(made.error_message());
      v1::GenerateRequest request =
          MakeRequest("", 16, kEndless, static_cast<uint64_t>(i));
      request.set_session(session.name());
      calls.Start(connection, request, {.token_time = Seconds(kTokenSeconds)});
    }
    // Until windows are full and all of them wait for their readers.
    double before = -1;
    for (int looks = 0, quiet = 0; looks < 600; ++looks) {
      MNEMON_ASSIGN_OR_RETURN(const MetricsPage page, server_.Metrics());
      const double now = page.Sum(kTokens);
      // What the readers take meanwhile is little.
      quiet = now - before < kSlow ? quiet + 1 : 0;
      if (quiet == 3) return absl::OkStatus();
      before = now;
      Pass(0.1);
    }
    return absl::InternalError("the server does not stop for its readers");
  }

 private:
  TestServer& server_;
  Connections fast_;
};

}  // namespace

absl::Status RunSlowReaders(const ScenarioOptions& options, BarResults& results) {
  const Shape shape = options.quick ? kQuick : kFull;
  MNEMON_ASSIGN_OR_RETURN(const std::string model,
                          Checkpoint(options, "fast_weights", "XS"));
  // A message may hold a minute's tokens of such a reader, who is not idle.
  MNEMON_ASSIGN_OR_RETURN(
      const auto server,
      StartServer(options,
                  {"--checkpoint", "m=" + model, "--sessions", StrCat(kSlow + kFast),
                   "--max-tokens", StrCat(kEndless), "--idle-timeout", "600"}));
  Bench bench(*server);
  Memory memory;
  MNEMON_ASSIGN_OR_RETURN(const double before, bench.Fast(shape.alone, nullptr));
  double beside = 0, stalled = 0;
  int64_t read = 0, ended = 0;
  {
    Connections connections(server->port(), kSlow, {.small_window = true});
    Calls slow;
    MNEMON_RETURN_IF_ERROR(bench.StartSlow(connections, slow));
    const int64_t messages = slow.messages();
    MNEMON_ASSIGN_OR_RETURN(beside, bench.Fast(shape.beside, &memory));
    MNEMON_ASSIGN_OR_RETURN(const MetricsPage page, server->Metrics());
    stalled = page.Sum(kStalled);
    read = slow.messages() - messages;
    ended = kSlow - slow.running();
    slow.CancelAll();
    if (!slow.Wait(Seconds(30))) return absl::InternalError("a stream does not end");
  }
  MNEMON_ASSIGN_OR_RETURN(const double after, bench.Fast(shape.alone, nullptr));
  const double alone = (before + after) / 2;
  results.Note("fast streams alone, before", before, "tokens/s");
  results.Note("fast streams alone, after", after, "tokens/s");
  results.Note("fast streams beside slow readers", beside, "tokens/s");
  results.Note("messages that slow readers took", static_cast<double>(read), "");
  results.Note("resident memory", memory.most, "MB");
  results.ShareAtLeast("slow readers that are seen to stall", stalled / kSlow, 0.9);
  results.Exactly("slow readers whose stream ended", static_cast<double>(ended), 0, "");
  results.AtMost("growth of resident memory", 100 * (memory.most / memory.least - 1), 5,
                 "%");
  results.ShareAtLeast("fast streams beside slow readers, share of their speed",
                       beside / alone, 0.9);
  return absl::OkStatus();
}

}  // namespace mnemon::serving
