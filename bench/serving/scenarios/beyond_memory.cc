// SPDX-License-Identifier: MIT
// A store many times as large as the server's memory: sessions are created up to this
// size, then random sessions continue.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/status_macros.h"
#include "base/strings.h"
#include "bench/serving/data_folder.h"
#include "bench/serving/process_use.h"
#include "bench/serving/scenarios/scenario.h"
#include "bench/serving/session_calls.h"
#include "bench/serving/traffic.h"

namespace mnemon::serving {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

struct Model {
  const char* architecture;
  int64_t memory;  // little more than the server's minimum
};
struct BeyondMemoryShape {
  std::vector<Model> models;
  double times;   // size of the store over the memory
  int64_t turns;  // on random sessions
};
const BeyondMemoryShape kBeyondMemoryFull = {
    {{"fast_weights", 136 * kMiB}, {"causal", 176 * kMiB}, {"feedback", 176 * kMiB}},
    10,
    4000};
const BeyondMemoryShape kBeyondMemoryQuick = {{{"fast_weights", 136 * kMiB}}, 1, 400};

constexpr int kBeyondMemoryCallers = 4;
constexpr int64_t kAtOnce = 200;  // sessions created between two checks
constexpr int64_t kBeyondMemoryPromptTokens = 200;
// Share of calls that may be refused temporarily and are retried.
constexpr double kBeyondMemoryRefused = 0.01;
constexpr int64_t kMostTries = 100;

// Makes calls on a server in the order of their numbers, by several callers at once,
// each retried after a pause while refused.
class Callers {
 public:
  using Call = std::function<absl::Status(client::Client& client, int64_t number)>;

  explicit Callers(int port) : clients_(port, kBeyondMemoryCallers) {}

  absl::Status Run(int64_t first, int64_t end, const Call& call) {
    std::atomic<int64_t> next{first};
    std::vector<std::thread> threads;
    for (int i = 0; i < kBeyondMemoryCallers; ++i) {
      threads.emplace_back([&, i] {
        for (int64_t number; (number = next++) < end;) Insist(i, number, call);
      });
    }
    for (std::thread& thread : threads) thread.join();
    std::lock_guard lock(mutex_);
    return failed_;
  }
  double refused_share() const {
    return static_cast<double>(refused_) / static_cast<double>(calls_ + refused_);
  }

 private:
  void Insist(int caller, int64_t number, const Call& call) {
    ++calls_;
    absl::Status status;
    for (int64_t tries = 0; tries < kMostTries; ++tries) {
      status = call(clients_.at(static_cast<size_t>(caller)), number);
      if (status.ok()) return;
      ++refused_;
      Pass(0.05);
    }
    std::lock_guard lock(mutex_);
    failed_.Update(status);
  }

  Clients clients_;
  std::atomic<int64_t> calls_{0}, refused_{0};
  std::mutex mutex_;
  absl::Status failed_;  // guarded by mutex_
};

absl::Status MeasureBeyondMemory(const ScenarioOptions& options,
                                 const BeyondMemoryShape& shape, const Model& measured,
                                 BarResults& results) {
  const std::string architecture = measured.architecture;
  const double memory = static_cast<double>(measured.memory);
  MNEMON_ASSIGN_OR_RETURN(const std::string model,
                          Checkpoint(options, architecture, "XS"));
  const DataFolder data(StrCat(options.directory, "/data-beyond-", architecture));
  MNEMON_ASSIGN_OR_RETURN(
      const auto server,
      StartServer(options, {"--checkpoint", "m=" + model, "--data-dir", data.path(),
                            "--memory", StrCat(measured.memory)}));
  int64_t made = 0;
  Callers fill(server->port());
  const TimePoint begin = SteadyClock::now();
  while (static_cast<double>(data.bytes()) < shape.times * memory) {
    MNEMON_RETURN_IF_ERROR(
        fill.Run(made, made + kAtOnce, [&](client::Client& client, int64_t number) {
          // Already created if only the turn was refused.
          if (!client.GetSession(IdOf(number)).ok()) {
            MNEMON_RETURN_IF_ERROR(client.CreateSession(IdOf(number), "m").status());
          }
          return Turn(client, IdOf(number), kBeyondMemoryPromptTokens, 1,
                      static_cast<uint64_t>(number))
              .status();
        }));
    made += kAtOnce;
  }
  results.Note(StrCat(architecture, ": sessions"), static_cast<double>(made), "");
  results.Note(StrCat(architecture, ": sessions made per second"),
               static_cast<double>(made) / Seconds(SteadyClock::now() - begin).count(),
               "/s");
  results.Note(StrCat(architecture, ": calls refused while they are made"),
               fill.refused_share(), "");
  Callers turns(server->port());
  std::mutex mutex;
  std::vector<double> first_tokens;
  MNEMON_RETURN_IF_ERROR(
      turns.Run(0, shape.turns, [&](client::Client& client, int64_t number) {
        std::minstd_rand random(static_cast<uint32_t>(number + 1));
        random.discard(10);
        const int64_t any = static_cast<int64_t>(random()) % made;
        const auto first = Turn(client, IdOf(any), 1, 1, 1);
        if (!first.ok()) return first.status();
        std::lock_guard lock(mutex);
        first_tokens.push_back(*first);
        return absl::OkStatus();
      }));
  results.AtMost(StrCat(architecture, ": turns on any session, refused at first"),
                 turns.refused_share(), kBeyondMemoryRefused, "");
  results.Note(StrCat(architecture, ": first token, median"),
               Median(first_tokens) * 1e3, "ms");
  results.Note(StrCat(architecture, ": first token, p99"), P99(first_tokens) * 1e3,
               "ms");
  results.AtMost(StrCat(architecture, ": resident, share of --memory"),
                 UseOf(server->pid()).megabytes * 1e6 / memory, 1, "");
  return EndServer(*server);
}

}  // namespace

absl::Status RunBeyondMemory(const ScenarioOptions& options, BarResults& results) {
  const BeyondMemoryShape& shape =
      options.quick ? kBeyondMemoryQuick : kBeyondMemoryFull;
  for (const Model& model : shape.models) {
    MNEMON_RETURN_IF_ERROR(MeasureBeyondMemory(options, shape, model, results));
  }
  return absl::OkStatus();
}

}  // namespace mnemon::serving
