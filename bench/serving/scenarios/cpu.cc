// SPDX-License-Identifier: MIT
// Cost of a streamed token beyond the model's step, with one model thread.
#include <string>

#include "absl/strings/str_format.h"
#include "base/files/json.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "bench/serving/calls.h"
#include "bench/serving/scenarios/scenario.h"
#include "bench/serving/traffic.h"
#include "nlohmann/json.hpp"

namespace mnemon::serving {
namespace {

struct CpuShape {
  int rounds;
  double window;         // seconds
  double bench_seconds;  // of mnemon-bench
};

constexpr CpuShape kCpuFull = {5, 5, 10};
constexpr CpuShape kCpuQuick = {3, 0.4, 1};

constexpr int kCpuStreams = 256;
constexpr int kEngineStreams = 64;

// One result of mnemon-bench over fast_weights XS.
absl::StatusOr<nlohmann::json> RunBench(const ScenarioOptions& options,
                                        const CpuShape& shape,
                                        std::vector<std::string> words, int batch) {
  words.insert(words.begin(), options.bench_binary);
  const std::vector<std::string> more = {
      "--arch",    "fast_weights", "--size",
      "XS",        "--batch",      StrCat(batch),
      "--context", "16",           "--threads",
      "1",         "--seconds",    StrCat(shape.bench_seconds),
      "--json"};
  words.insert(words.end(), more.begin(), more.end());
  MNEMON_ASSIGN_OR_RETURN(
      const std::string output,
      RunToEnd(options.directory, words, std::chrono::seconds(120)));
  const size_t begin = output.find('{');
  if (begin == std::string::npos) return absl::InternalError("mnemon-bench: " + output);
  MNEMON_ASSIGN_OR_RETURN(const nlohmann::json document,
                          ParseJson(output.substr(begin), "mnemon-bench"));
  return document.at("results").at(0);
}

// Microseconds per token: processor time of all threads, and time.
struct Cost {
  double cpu = 0;
  double wall = 0;
};

absl::StatusOr<Cost> StepCost(const ScenarioOptions& options, const CpuShape& shape,
                              int batch) {
  MNEMON_ASSIGN_OR_RETURN(const nlohmann::json result,
                          RunBench(options, shape, {"step"}, batch));
  return Cost{.cpu = result.at("cpu_us_per_step").get<double>() / batch,
              .wall = result.at("step_us").at("median").get<double>() / batch};
}

// Streams of the engine alone: processor time, including their prompts, and the time
// between two tokens of a stream.
absl::StatusOr<Cost> EngineCost(const ScenarioOptions& options, const CpuShape& shape,
                                int batch) {
  const int tokens = options.quick ? 16 : 32;
  MNEMON_ASSIGN_OR_RETURN(
      const nlohmann::json result,
      RunBench(options, shape, {"engine", "--max-tokens", StrCat(tokens)}, batch));
  return Cost{.cpu = result.at("cpu_us_per_token").get<double>(),
              .wall = result.at("inter_token_us").at("median").get<double>() / batch};
}

// Streams over loopback: the server's processor time.
absl::StatusOr<Cost> StreamCost(const TestServer& server, const CpuShape& shape,
                                int streams) {
  Connections connections(server.port(), 4);
  Calls calls;
  for (int i = 0; i < streams; ++i) {
    calls.Start(connections.at(static_cast<size_t>(i)),
                MakeRequest("m", 16, kEndless, static_cast<uint64_t>(i)), {});
  }
  Pass(shape.window / 2);
  const char* const tokens = "mnemon_generation_tokens_total";
  std::vector<double> cpu, wall;
  for (int round = 0; round < shape.rounds; ++round) {
    const double cpu_before = server.CpuSeconds();
    MNEMON_ASSIGN_OR_RETURN(const MetricsPage before, server.Metrics());
    const Interval interval = Pass(shape.window);
    const double cpu_after = server.CpuSeconds();
    MNEMON_ASSIGN_OR_RETURN(const MetricsPage after, server.Metrics());
    const double count = after.Sum(tokens) - before.Sum(tokens);
    if (count <= 0) return absl::InternalError("the streams make no tokens");
    cpu.push_back((cpu_after - cpu_before) / count * 1e6);
    wall.push_back(interval.seconds() / count * 1e6);
  }
  if (calls.running() != streams) return absl::InternalError("a stream ended early");
  return Cost{.cpu = Median(cpu), .wall = Median(wall)};
}

}  // namespace

absl::Status RunCpu(const ScenarioOptions& options, BarResults& results) {
  const CpuShape shape = options.quick ? kCpuQuick : kCpuFull;
  MNEMON_ASSIGN_OR_RETURN(const std::string model,
                          Checkpoint(options, "fast_weights", "XS"));
  Cost many, one;
  {
    MNEMON_ASSIGN_OR_RETURN(
        const auto server,
        StartServer(options,
                    {"--checkpoint", "m=" + model, "--threads", "1", "--running",
                     StrCat(kCpuStreams), "--max-tokens", StrCat(kEndless)}));
    MNEMON_ASSIGN_OR_RETURN(many, StreamCost(*server, shape, kCpuStreams));
    MNEMON_ASSIGN_OR_RETURN(one, StreamCost(*server, shape, 1));
  }
  MNEMON_ASSIGN_OR_RETURN(const Cost step, StepCost(options, shape, kCpuStreams));
  MNEMON_ASSIGN_OR_RETURN(const Cost engine, EngineCost(options, shape, kCpuStreams));
  MNEMON_ASSIGN_OR_RETURN(const Cost engine_one, EngineCost(options, shape, 1));
  MNEMON_ASSIGN_OR_RETURN(const Cost step_64, StepCost(options, shape, kEngineStreams));
  MNEMON_ASSIGN_OR_RETURN(const Cost engine_64,
                          EngineCost(options, shape, kEngineStreams));
  const std::string streams = StrCat(kCpuStreams, " streams: ");
  results.Note(streams + "server's processor time per token", many.cpu, "us");
  results.Note(streams + "that of the step alone", step.cpu, "us");
  results.Note(streams + "that of the engine alone, prompts included", engine.cpu,
               "us");
  results.Note(streams + "processor time beyond the engine", many.cpu - engine.cpu,
               "us");
  results.TimeAtMost(streams + "processor time beyond the step", many.cpu - step.cpu, 5,
                     "us");
  results.Note("one stream: server's processor time per token", one.cpu, "us");
  results.Note("one stream: time per token over loopback", one.wall, "us");
  results.Note("one stream: engine alone, token to token", engine_one.wall, "us");
  results.TimeAtMost("one stream: loopback beyond the engine",
                     one.wall - engine_one.wall, 15, "us");
  results.ShareAtLeast(
      StrCat("engine at ", kEngineStreams, " streams, token to token, share of step"),
      step_64.wall / engine_64.wall, 0.9);
  return absl::OkStatus();
}

}  // namespace mnemon::serving
