// SPDX-License-Identifier: MIT
#include "bench/serving/traffic.h"

#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>

#include "base/status_macros.h"

#include "bench/figures/spread.h"
#include "bench/serving/clients.h"

namespace mnemon::serving {
namespace {

constexpr int32_t kVocab = 128;  // of the sizes XS and S; G has more

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

std::vector<int32_t> DrawPrompt(int64_t count, uint64_t seed) {
  const auto size = static_cast<int32_t>(count);
  return client::DrawCall({.seed = seed,
                           .vocab = kVocab,
                           .prompt_tokens = {size, size},
                           .max_tokens = {1, 1}},
                          0)
      .prompt;
}

v1::GenerateRequest MakeRequest(const std::string& model, int64_t prompt_tokens,
                                int64_t new_tokens, uint64_t seed) {
  v1::GenerateRequest request;
  if (!model.empty()) request.set_model("models/" + model);
  const std::vector<int32_t> prompt = DrawPrompt(prompt_tokens, seed);
  request.mutable_prompt()->mutable_tokens()->mutable_ids()->Add(prompt.begin(),
                                                                 prompt.end());
  request.mutable_sampling()->set_temperature(0);
  request.mutable_stopping()->set_max_tokens(static_cast<int32_t>(new_tokens));
  return request;
}

client::LoadOptions LoadOf(const std::string& model, int32_t prompt_tokens,
                           int32_t new_tokens) {
  client::LoadOptions load;
  load.model = model;
  load.draw = {.vocab = kVocab,
               .prompt_tokens = {prompt_tokens, prompt_tokens},
               .max_tokens = {new_tokens, new_tokens}};
  load.temperature = 0;
  load.max_lateness_seconds = kHangs.count();
  return load;
}

absl::StatusOr<std::vector<CallRecord>> RunLoad(int port, client::LoadOptions load) {
  std::mutex mutex;
  std::vector<CallRecord> records;  // guarded by mutex
  load.on_end = [&](client::CallTrace trace) {
    std::lock_guard lock(mutex);
    records.push_back({.trace = std::move(trace)});
  };
  MNEMON_ASSIGN_OR_RETURN(const client::LoadResult result, client::Load(load, [port] {
                                                             return ConnectClient(port);
                                                           }).Run());
  MNEMON_RETURN_IF_ERROR(result.gone);
  if (records.empty()) return absl::InternalError("the load made no call");
  return records;
}

TimePoint BeginOf(std::span<const CallRecord> records) {
  return std::ranges::min(records, {},
                          [](const CallRecord& call) { return call.trace.begin; })
      .trace.begin;
}

double CompletedPerSecond(std::span<const CallRecord> records,
                          const Interval& interval) {
  double count = 0;
  for (const CallRecord& call : records) {
    if (!call.ok() || call.trace.arrivals.empty()) continue;
    const auto within =
        std::count_if(call.trace.arrivals.begin(), call.trace.arrivals.end(),
                      [&](TimePoint at) { return interval.holds(at); });
    count +=
        static_cast<double>(within) / static_cast<double>(call.trace.arrivals.size());
  }
  return count / interval.seconds();
}

double TokensPerSecond(std::span<const CallRecord> records, const Interval& interval) {
  int64_t count = 0;
  for (const CallRecord& call : records) {
    for (const TimePoint at : call.trace.arrivals) count += interval.holds(at) ? 1 : 0;
  }
  return static_cast<double>(count) / interval.seconds();
}

std::vector<double> GapsIn(std::span<const CallRecord> records,
                           const Interval& interval) {
  std::vector<double> gaps;
  for (const CallRecord& call : records) {
    for (size_t i = 1; i < call.trace.arrivals.size(); ++i) {
      if (call.trace.arrivals[i] <= interval.from ||
          call.trace.arrivals[i - 1] >= interval.to) {
        continue;
      }
      gaps.push_back(
          Seconds(call.trace.arrivals[i] - call.trace.arrivals[i - 1]).count());
    }
  }
  return gaps;
}

double P99(std::vector<double> samples) { return SpreadOf(std::move(samples)).p99; }

double Median(std::vector<double> samples) {
  return SpreadOf(std::move(samples)).median;
}

}  // namespace mnemon::serving
