// SPDX-License-Identifier: MIT
// Streams of a small model beside sixteen of a large one, and beside an encoder: turns
// alone and turns beside, of the same streams. Turns beside the large model are short
// and several form a round, because the speed of a machine may drift within seconds;
// beside the encoder a round is one turn of the same total length.
#include <string>

#include "base/status_macros.h"
#include "base/strings.h"
#include "bench/serving/calls.h"
#include "bench/serving/scenarios/scenario.h"
#include "bench/serving/traffic.h"

namespace mnemon::serving {
namespace {

struct TwoModelsShape {
  const char* large;  // size of the large model
  int large_streams;
  int rounds;
  int turns;          // per round, alone and beside the large model
  double alone;       // seconds of a turn
  double beside;      // seconds of a turn
  double pause;       // seconds between turns
  int64_t rows;       // of the first Predict tried
  int64_t positions;  // of the encoder, and of each row
};

constexpr TwoModelsShape kTwoModelsFull = {.large = "G",
                                           .large_streams = 16,
                                           .rounds = 5,
                                           .turns = 4,
                                           .alone = 1,
                                           .beside = 1.5,
                                           .pause = 0.5,
                                           .rows = 128,
                                           .positions = 1024};
constexpr TwoModelsShape kTwoModelsQuick = {.large = "S",
                                            .large_streams = 16,
                                            .rounds = 3,
                                            .turns = 1,
                                            .alone = 0.4,
                                            .beside = 0.5,
                                            .pause = 0.2,
                                            .rows = 32,
                                            .positions = 256};

constexpr int kSmallStreams = 4;
// Classes of the encoder; few, because servers limit the size of an answer.
constexpr int64_t kClasses = 8;

// Tokens per second of all streams, and the gaps between tokens of one in seconds.
struct Figures {
  double speed = 0;
  double p99 = 0;
  double median = 0;
  double longest = 0;
};

Figures FiguresOf(std::span<const CallRecord> records,
                  std::span<const Interval> intervals) {
  Figures figures;
  std::vector<double> gaps;
  double seconds = 0;
  for (const Interval& interval : intervals) {
    figures.speed += TokensPerSecond(records, interval) * interval.seconds();
    seconds += interval.seconds();
    for (const double gap : GapsIn(records, interval)) {
      gaps.push_back(gap);
      figures.longest = std::max(figures.longest, gap);
    }
  }
  figures.speed /= seconds;
  figures.p99 = P99(gaps);
  figures.median = Median(std::move(gaps));
  return figures;
}

// The turns of a round.
struct Round {
  std::vector<Interval> alone;
  std::vector<Interval> beside;
};

class TwoModelsBench {
 public:
  TwoModelsBench(const TwoModelsShape& shape, TestServer& server)
      : shape_(shape), server_(server), connections_(server.port(), 4) {}

  absl::Status BesideLarge(BarResults& results);
  absl::Status BesideEncoder(BarResults& results);

 private:
  void StartSmall(Calls& calls) {
    for (int i = 0; i < kSmallStreams; ++i) {
      calls.Start(connections_.at(static_cast<size_t>(i)),
                  MakeRequest("small", 4, kEndless, static_cast<uint64_t>(i)), {});
    }
  }
  absl::StatusOr<std::vector<CallRecord>> End(Calls& calls) {
    const int64_t running = calls.running();
    calls.CancelAll();
    if (!calls.Wait(kHangs)) return absl::InternalError("a stream does not end");
    if (running != kSmallStreams) {
      return absl::InternalError(StrCat("small streams ended early: ",
                                        calls.Take().at(0).trace.status.message()));
    }
    return calls.Take();
  }
  // Mean duration of a step of the large model over a turn, by the server's histogram.
  absl::StatusOr<double> StepOfLarge(double seconds);
  void StartLarge(Calls& calls) {
    for (int i = 0; i < shape_.large_streams; ++i) {
      calls.Start(connections_.at(static_cast<size_t>(i)),
                  MakeRequest("large", 4, kEndless, static_cast<uint64_t>(i)), {});
    }
  }
  // Waits until tokens arrive steadily.
  static absl::Status WaitForFlow(const Calls& calls);
  grpc::Status Predict(double deadline);
  // Sets rows_ to those of the largest Predict that the server accepts.
  absl::Status FindLargestPredict();

  const TwoModelsShape& shape_;
  TestServer& server_;
  Connections connections_;
  int64_t rows_ = 0;  // of the largest Predict
};

absl::StatusOr<double> TwoModelsBench::StepOfLarge(double seconds) {
  const std::string name = "mnemon_step_duration_seconds";
  const std::vector<std::string> labels = {"model=\"large\""};
  MNEMON_ASSIGN_OR_RETURN(const MetricsPage before, server_.Metrics());
  Pass(seconds);
  MNEMON_ASSIGN_OR_RETURN(const MetricsPage after, server_.Metrics());
  return Since(before.Histogram(name, labels), after.Histogram(name, labels)).mean();
}

absl::Status TwoModelsBench::WaitForFlow(const Calls& calls) {
  int64_t seen = calls.messages();
  for (int flowing = 0, looks = 0; flowing < 4; ++looks) {
    if (looks == 1200) return absl::InternalError("no token comes for 120 s");
    Pass(0.1);
    const int64_t now = calls.messages();
    flowing = now > seen ? flowing + 1 : 0;
    seen = now;
  }
  return absl::OkStatus();
}

absl::Status TwoModelsBench::BesideLarge(BarResults& results) {
  double large_step = 0;
  {
    Calls large;
    StartLarge(large);
    Pass(shape_.pause);
    MNEMON_ASSIGN_OR_RETURN(large_step, StepOfLarge(shape_.turns * shape_.beside));
  }
  Calls small;
  StartSmall(small);
  std::vector<Round> rounds(shape_.rounds);
  std::vector<double> large_speeds;
  MNEMON_RETURN_IF_ERROR(WaitForFlow(small));
  for (Round& round : rounds) {
    for (int turn = 0; turn < shape_.turns; ++turn) {
      round.alone.push_back(Pass(shape_.alone));
      Calls large;
      StartLarge(large);
      Pass(shape_.pause);
      round.beside.push_back(Pass(shape_.beside));
      large.CancelAll();
      large.Wait(kHangs);
      large_speeds.push_back(TokensPerSecond(large.Take(), round.beside.back()));
      Pass(shape_.pause);
    }
  }
  MNEMON_ASSIGN_OR_RETURN(const std::vector<CallRecord> records, End(small));
  std::vector<double> shares, p99s, over;
  for (size_t i = 0; i < rounds.size(); ++i) {
    const Figures a = FiguresOf(records, rounds[i].alone);
    const Figures b = FiguresOf(records, rounds[i].beside);
    results.Note(StrCat("round ", i + 1, ": small alone"), a.speed, "tokens/s");
    results.Note(StrCat("round ", i + 1, ": small beside large"), b.speed, "tokens/s");
    shares.push_back(b.speed / a.speed);
    p99s.push_back(b.p99);
    over.push_back(b.p99 / (large_step + a.median));
  }
  results.Note("large: speed beside small", Median(large_speeds), "tokens/s");
  results.Note("large: step alone", large_step * 1e3, "ms");
  results.Note("small beside large: p99 gap", Median(p99s) * 1e3, "ms");
  results.ShareAtLeast("small beside large: speed, share of that alone", Median(shares),
                       0.45);
  results.TimeAtMost("small beside large: p99 gap, in steps of large + own",
                     Median(over), 2, "");
  return absl::OkStatus();
}

grpc::Status TwoModelsBench::Predict(double deadline) {
  v1::PredictRequest request;
  request.set_model("models/encoder");
  for (int64_t row = 0; row < rows_; ++row) {
    auto* ids = request.add_sequences()->mutable_ids();
    for (int64_t i = 0; i < shape_.positions; ++i) {
      ids->Add(static_cast<int32_t>(i % kClasses));
    }
  }
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::milliseconds(static_cast<int64_t>(1e3 * deadline)));
  v1::PredictResponse response;
  return connections_.at(0).generation->Predict(&context, request, &response);
}

absl::Status TwoModelsBench::FindLargestPredict() {
  for (rows_ = shape_.rows; rows_ >= 1; rows_ /= 2) {
    const grpc::Status status = Predict(shape_.turns * shape_.pause);
    // If it reaches its deadline, it was accepted.
    if (status.ok() || status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
      return absl::OkStatus();
    }
  }
  return absl::InternalError("no Predict is accepted");
}

absl::Status TwoModelsBench::BesideEncoder(BarResults& results) {
  MNEMON_RETURN_IF_ERROR(FindLargestPredict());
  Calls small;
  StartSmall(small);
  std::vector<Round> rounds(shape_.rounds);
  for (Round& round : rounds) {
    MNEMON_RETURN_IF_ERROR(WaitForFlow(small));
    round.alone.push_back(Pass(shape_.turns * shape_.alone));
    const TimePoint from = SteadyClock::now();
    for (double left; (left = shape_.turns * shape_.beside -
                              Seconds(SteadyClock::now() - from).count()) > 0;) {
      Predict(left);
    }
    round.beside.push_back({from, SteadyClock::now()});
  }
  // The gap caused by the last Predict ends after it.
  MNEMON_RETURN_IF_ERROR(WaitForFlow(small));
  MNEMON_ASSIGN_OR_RETURN(const std::vector<CallRecord> records, End(small));
  std::vector<double> moved, longest;
  for (const Round& round : rounds) {
    const Figures a = FiguresOf(records, round.alone);
    const Figures b = FiguresOf(records, round.beside);
    moved.push_back(b.p99 - a.p99);
    longest.push_back(b.longest);
  }
  results.Note(StrCat("Predict: rows of ", shape_.positions, " tokens"),
               static_cast<double>(rows_), "");
  results.Note("small beside Predict: longest gap", Median(longest) * 1e3, "ms");
  results.TimeAtMost("small beside Predict: p99 gap, more than alone",
                     Median(moved) * 1e3, 30, "ms");
  return absl::OkStatus();
}

}  // namespace

absl::Status RunTwoModels(const ScenarioOptions& options, BarResults& results) {
  const TwoModelsShape shape = options.quick ? kTwoModelsQuick : kTwoModelsFull;
  MNEMON_ASSIGN_OR_RETURN(const std::string small,
                          Checkpoint(options, "fast_weights", "XS"));
  MNEMON_ASSIGN_OR_RETURN(const std::string large,
                          Checkpoint(options, "causal", shape.large));
  MNEMON_ASSIGN_OR_RETURN(
      const std::string encoder,
      Checkpoint(options, "encoder", "XS",
                 {StrCat("positions=", shape.positions), StrCat("vocab=", kClasses)}));
  // A server for each part, so that neither affects the other.
  const std::vector<std::string> flags = {
      "--checkpoint", "small=" + small,     "--checkpoint", "large=" + large,
      "--checkpoint", "encoder=" + encoder, "--max-tokens", StrCat(kEndless)};
  {
    MNEMON_ASSIGN_OR_RETURN(const auto server, StartServer(options, flags));
    MNEMON_RETURN_IF_ERROR(TwoModelsBench(shape, *server).BesideLarge(results));
  }
  MNEMON_ASSIGN_OR_RETURN(const auto server, StartServer(options, flags));
  return TwoModelsBench(shape, *server).BesideEncoder(results);
}

}  // namespace mnemon::serving
