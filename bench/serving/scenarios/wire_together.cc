// SPDX-License-Identifier: MIT
// All attacks at once beside honest streams, whose tokens are right and come at a
// quarter of their speed or more.
#include <sys/resource.h>

#include <algorithm>
#include <functional>
#include <span>
#include <thread>

#include "base/status_macros.h"
#include "base/strings.h"
#include "bench/serving/scenarios/wire.h"
#include "bench/serving/traffic.h"

namespace mnemon::serving {
namespace {

constexpr int kHonest = 8;
constexpr int kNice = 10;        // of the attackers
constexpr double kSpeed = 0.25;  // share of the speed before

// Streams that run for `seconds` and are then cancelled, each with its own connection;
// they start before `meanwhile` is called.
std::vector<CallRecord> RunHonest(int port, double seconds,
                                  const std::function<void()>& meanwhile) {
  Connections connections(port, kHonest);
  Calls calls;
  for (int i = 0; i < kHonest; ++i) {
    const auto number = static_cast<uint64_t>(i);
    v1::GenerateRequest request = MakeRequest("", 8, kEndlessTokens, number);
    request.mutable_sampling()->set_temperature(1);
    request.mutable_sampling()->set_seed(i);
    calls.Start(connections.at(number), request,
                {.deadline = Seconds(10 * seconds) + kHangs});
  }
  const TimePoint sent = SteadyClock::now();
  while (calls.with_tokens() < kHonest && calls.running() == kHonest &&
         SteadyClock::now() - sent < kHangs) {
    Pass(0.01);
  }
  const TimePoint begin = SteadyClock::now();
  meanwhile();
  Pass(seconds - Seconds(SteadyClock::now() - begin).count());
  calls.CancelAll();
  calls.Wait(kHangs);
  std::vector<CallRecord> records = calls.Take();
  // In the order of their starts.
  std::sort(records.begin(), records.end(),
            [](const CallRecord& a, const CallRecord& b) {
              return a.trace.begin < b.trace.begin;
            });
  return records;
}

bool IsRight(const CallRecord& call, const CallRecord& before) {
  const size_t common = std::min(call.tokens.size(), before.tokens.size());
  return call.contiguous && common > 0 &&
         std::equal(call.tokens.begin(),
                    call.tokens.begin() + static_cast<std::ptrdiff_t>(common),
                    before.tokens.begin());
}

double Tokens(const std::vector<CallRecord>& records) {
  double count = 0;
  for (const CallRecord& call : records) {
    count += static_cast<double>(call.tokens.size());
  }
  return count;
}

}  // namespace

absl::Status AttackTogether(const ScenarioOptions& options, double seconds,
                            BarResults& results) {
  const std::string name = "all";
  MNEMON_ASSIGN_OR_RETURN(const auto attacked,
                          Attacked::Start(options, name, 0, results));
  const int port = attacked->server().port();
  const std::vector<CallRecord> before = RunHonest(port, seconds, [] {});
  const std::span<const wire::Attack> attacks = wire::Attacks();
  std::vector<wire::AttackTally> tallies(attacks.size());
  Watched watched;
  const std::vector<CallRecord> beside = RunHonest(port, seconds, [&] {
    std::vector<wire::AttackPlan> plans(attacks.size(), attacked->PlanFor(seconds));
    Watch watch(attacked->server(), results);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < attacks.size(); ++i) {
      // Each from its own addresses.
      plans[i].source = StrCat("127.0.", 2 + i);
      threads.emplace_back([&, i] {
        // Only this thread. Attackers must not take cores from the server and its
        // honest client, as they would not on another machine.
        setpriority(PRIO_PROCESS, 0, kNice);
        attacks[i].run(plans[i], tallies[i]);
      });
    }
    for (std::thread& thread : threads) thread.join();
    watched = watch.Stop();
  });
  wire::AttackTally sum;
  for (const wire::AttackTally& tally : tallies) {
    sum.connections += tally.connections;
    sum.refused += tally.refused;
    sum.cut += tally.cut;
    sum.frames += tally.frames;
    sum.bytes += tally.bytes;
    sum.ended += tally.ended;
  }
  NoteTally(name, sum, results);
  double wrong = 0, ended = 0;
  for (size_t i = 0; i < beside.size(); ++i) {
    if (!absl::IsCancelled(beside[i].trace.status)) {
      ++ended;
      results.Note(
          StrCat("all: ended with \"", beside[i].trace.status.message(), "\", status"),
          beside[i].trace.status.raw_code(), "of gRPC");
    }
    wrong += i < before.size() && IsRight(beside[i], before[i]) ? 0 : 1;
  }
  results.Note("all: honest streams before", Tokens(before) / seconds, "tokens/s");
  results.Note("all: beside the attacks", Tokens(beside) / seconds, "tokens/s");
  results.Exactly("all: honest streams that ran", static_cast<double>(beside.size()),
                  kHonest, "");
  results.Exactly("all: honest streams that the server ended", ended, 0, "");
  results.Exactly("all: honest streams with wrong tokens or gaps", wrong, 0, "");
  results.ShareAtLeast("all: speed of the honest ones, share of that before",
                       Tokens(beside) / std::max(Tokens(before), 1.0), kSpeed);
  attacked->CompareDuring(watched, false, results);
  attacked->CompareAfter(results);
  return absl::OkStatus();
}

}  // namespace mnemon::serving
