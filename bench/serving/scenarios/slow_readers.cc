// SPDX-License-Identifier: MIT
// A hundred clients that read one token a second, each from an endless stream, beside
// sixteen that read as fast as they can: the server's memory for them does not grow,
// and the fast ones keep their speed.
#include <algorithm>
#include <thread>
#include <vector>

#include "base/status_macros.h"
#include "base/strings.h"
#include "bench/serving/calls.h"
#include "bench/serving/clients.h"
#include "bench/serving/process_use.h"
#include "bench/serving/scenarios/scenario.h"
#include "bench/serving/traffic.h"

namespace mnemon::serving {
namespace {

constexpr int kSlow = 100;
constexpr int kFast = 16;
constexpr double kTokenSeconds = 1;  // in which a slow client reads a token

struct SlowReadersShape {
  int rounds;     // with slow readers; before and after each is one without
  double alone;   // seconds of each without
  double beside;  // and with them
  double start;   // seconds before each, in which the pools of blocks fill
};
constexpr SlowReadersShape kSlowReadersFull = {
    .rounds = 3, .alone = 15, .beside = 60, .start = 3};
constexpr SlowReadersShape kSlowReadersQuick = {
    .rounds = 3, .alone = 2, .beside = 4, .start = 1};

constexpr double kMostStall = 0.9;
constexpr char kSlowReadersStalled[] = "mnemon_requests_stalled";

// Minimum and maximum memory of the server.
struct Memory {
  double least = 0, most = 0;  // megabytes
};

// Observations of slow readers.
struct Slow {
  double stalled = kSlow;  // minimum of stalled readers over the rounds
  int64_t read = 0;        // messages
  int64_t ended = 0;       // streams
};

class SlowReadersBench {
 public:
  SlowReadersBench(TestServer& server, const SlowReadersShape& shape)
      : server_(server),
        shape_(shape),
        fast_(server.port(), 4),
        client_(ConnectClient(server.port())) {}

  // Tokens per second of the fast streams over `seconds`, after a start-up phase.
  absl::StatusOr<double> Fast(double seconds, Memory* memory) {
    Calls calls;
    for (int i = 0; i < kFast; ++i) {
      calls.Start(fast_.at(static_cast<size_t>(i)),
                  MakeRequest("m", 16, kEndless, static_cast<uint64_t>(i)), {});
    }
    Pass(shape_.start);
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
    if (!calls.Wait(kHangs)) return absl::InternalError("a stream does not end");
    const std::vector<CallRecord> records = calls.Take();
    if (running != kFast) {
      return absl::InternalError(
          StrCat("a fast stream ended: ", records.at(0).trace.status.message()));
    }
    return TokensPerSecond(records, interval);
  }

  // The same beside slow readers.
  absl::StatusOr<double> Beside(Memory& memory, Slow& seen) {
    Connections connections(server_.port(), kSlow, {.small_window = true});
    Calls slow;
    MNEMON_RETURN_IF_ERROR(StartSlow(connections, slow));
    const int64_t messages = slow.messages();
    MNEMON_ASSIGN_OR_RETURN(const double speed, Fast(shape_.beside, &memory));
    MNEMON_ASSIGN_OR_RETURN(const MetricsPage page, server_.Metrics());
    seen.stalled = std::min(seen.stalled, page.Sum(kSlowReadersStalled));
    seen.read += slow.messages() - messages;
    seen.ended += kSlow - slow.running();
    slow.CancelAll();
    if (!slow.Wait(kHangs)) return absl::InternalError("a stream does not end");
    MNEMON_RETURN_IF_ERROR(DeleteSessions());
    return speed;
  }

 private:
  // Each with its own session and connection.
  absl::Status StartSlow(Connections& connections, Calls& calls) {
    for (int i = 0; i < kSlow; ++i) {
      MNEMON_RETURN_IF_ERROR(client_->CreateSession(SessionOf(i), "m").status());
      v1::GenerateRequest request =
          MakeRequest("", 16, kEndless, static_cast<uint64_t>(i));
      request.set_session("sessions/" + SessionOf(i));
      calls.Start(connections.at(static_cast<size_t>(i)), request,
                  {.token_time = Seconds(kTokenSeconds)});
    }
    // Waits until windows are full and all of them wait for their readers.
    const TimePoint begin = SteadyClock::now();
    for (int full = 0; SteadyClock::now() - begin < kHangs;) {
      MNEMON_ASSIGN_OR_RETURN(const MetricsPage page, server_.Metrics());
      // A reader that has just read may be running.
      full = page.Sum(kSlowReadersStalled) >= kMostStall * kSlow ? full + 1 : 0;
      if (full == 3) return absl::OkStatus();
      Pass(0.1);
    }
    return absl::InternalError("the server does not stop for its readers");
  }

  static std::string SessionOf(int reader) { return StrCat("slow", reader); }

  absl::Status DeleteSessions() {
    for (int i = 0; i < kSlow; ++i) {
      MNEMON_RETURN_IF_ERROR(client_->DeleteSession(SessionOf(i)));
    }
    return absl::OkStatus();
  }

  TestServer& server_;
  const SlowReadersShape& shape_;
  Connections fast_;
  const std::unique_ptr<client::Client> client_;
};

}  // namespace

absl::Status RunSlowReaders(const ScenarioOptions& options, BarResults& results) {
  SlowReadersShape shape = options.quick ? kSlowReadersQuick : kSlowReadersFull;
  if (!results.timed()) shape.rounds = 1;
  MNEMON_ASSIGN_OR_RETURN(const std::string model,
                          Checkpoint(options, "fast_weights", "XS"));
  // A message may hold a minute's tokens of such a reader, who is not idle.
  MNEMON_ASSIGN_OR_RETURN(
      const auto server,
      StartServer(options,
                  {"--checkpoint", "m=" + model, "--sessions", StrCat(kSlow + kFast),
                   "--max-tokens", StrCat(kEndless), "--idle-timeout", "600"}));
  SlowReadersBench bench(*server, shape);
  std::vector<double> alone, beside, shares, growth;
  Memory all;
  Slow slow;
  MNEMON_ASSIGN_OR_RETURN(alone.emplace_back(), bench.Fast(shape.alone, nullptr));
  for (int round = 0; round < shape.rounds; ++round) {
    Memory memory;
    MNEMON_ASSIGN_OR_RETURN(beside.emplace_back(), bench.Beside(memory, slow));
    MNEMON_ASSIGN_OR_RETURN(alone.emplace_back(), bench.Fast(shape.alone, nullptr));
    // Compared within each round, since the machine's speed changes between rounds.
    shares.push_back(2 * beside.back() / (alone[alone.size() - 2] + alone.back()));
    growth.push_back(100 * (memory.most / memory.least - 1));
    all.most = std::max(all.most, memory.most);
  }
  results.Note("fast streams alone", Median(alone), "tokens/s");
  results.Note("fast streams beside slow readers", Median(beside), "tokens/s");
  results.Note("messages that slow readers took", static_cast<double>(slow.read), "");
  results.Note("resident memory", all.most, "MB");
  results.ShareAtLeast("slow readers that are seen to stall", slow.stalled / kSlow,
                       kMostStall);
  results.Exactly("slow readers whose stream ended", static_cast<double>(slow.ended), 0,
                  "");
  // Within the time of a round.
  results.TimeAtMost("growth of resident memory, greatest of the rounds",
                     *std::max_element(growth.begin(), growth.end()), 5, "%");
  const auto [least, most] = std::minmax_element(shares.begin(), shares.end());
  results.Note("fast streams beside slow readers, least share", *least, "");
  results.Note("fast streams beside slow readers, greatest share", *most, "");
  results.ShareAtLeast("fast streams beside slow readers, share of their speed",
                       Median(shares), 0.9);
  return absl::OkStatus();
}

}  // namespace mnemon::serving
