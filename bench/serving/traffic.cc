// SPDX-License-Identifier: MIT
#include "bench/serving/traffic.h"

#include <atomic>
#include <future>
#include <memory>
#include <random>
#include <thread>

#include "bench/spread.h"

namespace mnemon::serving {
namespace {

constexpr std::chrono::milliseconds kTrafficRefused{20};
constexpr int32_t kVocab = 128;  // of the sizes XS and S; G has more
constexpr uint32_t kArrivals = 7;

TimePoint In(double seconds) {
  return SteadyClock::now() +
         std::chrono::duration_cast<SteadyClock::duration>(Seconds(seconds));
}

}  // namespace

Interval Pass(double seconds) {
  const TimePoint from = SteadyClock::now();
  std::this_thread::sleep_until(In(seconds));
  return {from, SteadyClock::now()};
}

void FillPrompt(int64_t count, uint64_t seed, v1::GenerateRequest& request) {
  auto* ids = request.mutable_prompt()->mutable_tokens()->mutable_ids();
  ids->Clear();
  std::minstd_rand random(static_cast<uint32_t>(seed * 7919 + 1));
  for (int64_t i = 0; i < count; ++i) ids->Add(static_cast<int32_t>(random() % kVocab));
}

v1::GenerateRequest MakeRequest(const std::string& model, int64_t prompt_tokens,
                                int64_t new_tokens, uint64_t seed) {
  v1::GenerateRequest request;
  if (!model.empty()) request.set_model("models/" + model);
  FillPrompt(prompt_tokens, seed, request);
  request.mutable_sampling()->set_temperature(0);
  request.mutable_stopping()->set_max_tokens(static_cast<int32_t>(new_tokens));
  return request;
}

std::vector<CallRecord> RunClosedLoop(Connections& connections, int callers,
                                      const RequestOf& request,
                                      const CallOptions& options, double seconds) {
  Calls calls;
  const TimePoint end = In(seconds);
  std::atomic<int64_t> number{0};
  std::vector<std::thread> threads;
  for (int caller = 0; caller < callers; ++caller) {
    threads.emplace_back([&, caller] {
      while (SteadyClock::now() < end) {
        // Shared: it is still in use while the waiter already goes on.
        const auto ended = std::make_shared<std::promise<bool>>();
        std::future<bool> ok = ended->get_future();
        calls.Start(connections.at(static_cast<size_t>(caller)), request(number++),
                    options,
                    [ended](const CallRecord& call) { ended->set_value(call.ok()); });
        if (!ok.get()) std::this_thread::sleep_for(kTrafficRefused);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  calls.Wait(options.deadline);
  return calls.Take();
}

std::vector<CallRecord> RunOpenLoop(Connections& connections, double rate,
                                    const RequestOf& request,
                                    const CallOptions& options, double seconds) {
  Calls calls;
  std::minstd_rand random(kArrivals);
  std::exponential_distribution<double> gap(rate);
  const TimePoint begin = SteadyClock::now();
  int64_t number = 0;
  for (double at = gap(random); at < seconds; at += gap(random)) {
    std::this_thread::sleep_until(
        begin + std::chrono::duration_cast<SteadyClock::duration>(Seconds(at)));
    calls.Start(connections.at(static_cast<size_t>(number)), request(number), options);
    ++number;
  }
  calls.Wait(options.deadline + Seconds(5));
  calls.CancelAll();
  calls.Wait(Seconds(5));
  return calls.Take();
}

double CompletedPerSecond(std::span<const CallRecord> records,
                          const Interval& interval) {
  double count = 0;
  for (const CallRecord& call : records) {
    if (!call.ok() || call.arrivals.empty()) continue;
    const auto within = std::count_if(call.arrivals.begin(), call.arrivals.end(),
                                      [&](TimePoint at) { return interval.holds(at); });
    count += static_cast<double>(within) / static_cast<double>(call.arrivals.size());
  }
  return count / interval.seconds();
}

double TokensPerSecond(std::span<const CallRecord> records, const Interval& interval) {
  int64_t count = 0;
  for (const CallRecord& call : records) {
    for (const TimePoint at : call.arrivals) count += interval.holds(at) ? 1 : 0;
  }
  return static_cast<double>(count) / interval.seconds();
}

std::vector<double> GapsIn(std::span<const CallRecord> records,
                           const Interval& interval) {
  std::vector<double> gaps;
  for (const CallRecord& call : records) {
    for (size_t i = 1; i < call.arrivals.size(); ++i) {
      if (call.arrivals[i] <= interval.from || call.arrivals[i - 1] >= interval.to) {
        continue;
      }
      gaps.push_back(Seconds(call.arrivals[i] - call.arrivals[i - 1]).count());
    }
  }
  return gaps;
}

double P99(std::vector<double> samples) { return SpreadOf(std::move(samples)).p99; }

double Median(std::vector<double> samples) {
  return SpreadOf(std::move(samples)).median;
}

}  // namespace mnemon::serving
