// SPDX-License-Identifier: MIT
#include "server/http/readings.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "server/http/reading_family.h"

namespace mnemon {
namespace {

// Where sessions are; see SessionTier.
enum Tier { kDevice, kHost, kDisk, kTiers };
constexpr const char* kTierNames[] = {"device", "host", "disk"};
constexpr Tier kMemoryTiers[] = {kDevice, kHost};

// Named sessions of one tier.
struct Sessions {
  int64_t idle = 0, queued = 0, running = 0;
};

// Of one model. Counts are not of one moment: a session that was deleted under its
// request is counted no more.
void Add(const ModelStats& model, Sessions (&tiers)[kTiers]) {
  const int64_t queued = model.sessions_queued, running = model.sessions_running;
  const int64_t idle = std::max<int64_t>(0, model.sessions - queued - running);
  // Of those that do not run, whose states lie in a device's memory.
  const int64_t there = model.state_on_host ? 0 : model.sessions_resting;
  const int64_t idle_there = std::min(idle, there);
  const int64_t queued_there = std::min(queued, there - idle_there);
  tiers[kDevice].running += running;
  tiers[kDevice].idle += idle_there;
  tiers[kDevice].queued += queued_there;
  // No call holds a session whose history it does not have.
  const int64_t stored = std::min(idle - idle_there, model.sessions_stored);
  tiers[kDisk].idle += stored;
  tiers[kHost].idle += idle - idle_there - stored;
  tiers[kHost].queued += queued - queued_there;
}

}  // namespace

std::vector<prometheus::MetricFamily> ReadingsOf(const EngineStats& now,
                                                 const LogCounts& log,
                                                 std::string_view process) {
  Readings running(
      "mnemon_requests_running",
      "Calls of Generate, Score and Predict that run, or wait only for state memory.");
  Readings waiting("mnemon_requests_waiting",
                   "Calls of Generate, Score and Predict in the queue.");
  Readings limit("mnemon_queue_limit", "Calls that the queue holds at most.");
  Readings stalled("mnemon_requests_stalled",
                   "Calls that wait for their callers: running ones that pause because "
                   "their caller does not read, or does not send what is to be scored, "
                   "and calls on sessions the last of whose tokens is not read.");
  Readings ready(
      "mnemon_model_ready",
      "1 while the model takes new calls and gets on with them; 0 while it does not, "
      "see mnemon_model_unready.");
  Readings unready("mnemon_model_unready",
                   "1 while the model is not ready for this reason, else 0.");
  std::map<std::string, double> bytes[kTiers];  // by memory kind
  Sessions by_tier[kTiers];
  int64_t capacity[kTiers] = {}, used = 0, preempted = 0;
  for (const ModelStats& model : now.models) {
    running.Add({{"model", model.model}}, static_cast<double>(model.running));
    waiting.Add({{"model", model.model}}, static_cast<double>(model.waiting));
    limit.Add({{"model", model.model}}, static_cast<double>(model.max_waiting));
    stalled.Add({{"model", model.model}}, static_cast<double>(model.stalled));
    ready.Add({{"model", model.model}}, model.ready && process.empty() ? 1 : 0);
    const auto add_reason = [&](std::string_view reason, bool now) {
      unready.Add({{"model", model.model}, {"reason", std::string(reason)}}, now);
    };
    for (const std::string_view reason : kUnreadyReasons) {
      add_reason(reason, reason == model.unready);
    }
    add_reason("process", !process.empty());
    Add(model, by_tier);
    used += model.state_bytes;
    preempted += model.preemptions;
    capacity[model.state_on_host ? kHost : kDevice] += model.state_capacity_bytes;
    const int64_t there =
        model.state_on_host ? model.running_state_bytes : model.state_bytes;
    bytes[kDevice][model.architecture] += static_cast<double>(there);
    bytes[kHost][model.architecture] += static_cast<double>(model.state_bytes - there);
  }
  Readings sessions(
      "mnemon_sessions",
      "Named sessions: idle, queued (their call waits to start) or running. Tier "
      "device: they run, or their state lies in a GPU's memory; disk: their histories "
      "lie in the store alone; host: the others.");
  Readings state_bytes("mnemon_session_state_bytes",
                       "Bytes of session state in memory, by the tier of the session.");
  Readings capacity_bytes(
      "mnemon_session_state_capacity_bytes",
      "Bytes that session state may take at most in the memory of a GPU (device) and "
      "of the host, that of running sessions included.");
  for (int tier = 0; tier < kTiers; ++tier) {
    const char* const name = kTierNames[tier];
    const std::pair<const char*, int64_t> states[] = {
        {"idle", by_tier[tier].idle},
        {"queued", by_tier[tier].queued},
        {"running", by_tier[tier].running}};
    for (const auto& [state, count] : states) {
      sessions.Add({{"tier", name}, {"state", state}}, static_cast<double>(count));
    }
  }
  for (const Tier tier : kMemoryTiers) {
    const char* const name = kTierNames[tier];
    for (const auto& [kind, value] : bytes[tier]) {
      state_bytes.Add({{"tier", name}, {"memory_kind", kind}}, value);
    }
    capacity_bytes.Add({{"tier", name}}, static_cast<double>(capacity[tier]));
  }
  const int64_t most = capacity[kDevice] + capacity[kHost];
  Readings usage("mnemon_state_cache_usage_ratio",
                 "Used share of mnemon_session_state_capacity_bytes, 0 to 1.");
  usage.Add({}, most == 0 ? 0 : static_cast<double>(used) / static_cast<double>(most));
  Readings preemptions("mnemon_preemptions_total",
                       "Running calls whose states made room for others; they wait "
                       "until their histories can be computed again.",
                       prometheus::MetricType::Counter);
  preemptions.Add({}, static_cast<double>(preempted));

  Readings log_lines("mnemon_log_lines_total",
                     "Log lines: written, or lost because standard error was not read "
                     "in time or failed.",
                     prometheus::MetricType::Counter);
  log_lines.Add({{"outcome", "written"}}, static_cast<double>(log.written));
  log_lines.Add({{"outcome", "lost"}}, static_cast<double>(log.lost));

  Readings waiters("mnemon_waiters",
                   "What waits in the engine for an answer that comes later, by kind.");
  Readings overdue("mnemon_waiters_overdue",
                   "Of what waits, that which got none within its bound, was told so, "
                   "and is still not answered.");
  Readings overdue_total("mnemon_waiters_overdue_total",
                         "What got no answer within its bound, and was told so.",
                         prometheus::MetricType::Counter);
  for (size_t kind = 0; kind < kWaiterKindCount; ++kind) {
    const WaiterStats::Kind& count = now.waiters.kinds[kind];
    const std::vector<prometheus::ClientMetric::Label> label = {
        {"kind", std::string(kWaiterKinds[kind])}};
    waiters.Add(label, static_cast<double>(count.waiting + count.overdue));
    overdue.Add(label, static_cast<double>(count.overdue));
    overdue_total.Add(label, static_cast<double>(count.overdue_total));
  }

  Readings memory("mnemon_memory_bytes", "Bytes of memory by what they are for.");
  const MemoryStats& by = now.memory;
  const std::pair<const char*, int64_t> kinds[] = {{"weights", by.weights},
                                                   {"state", by.state},
                                                   {"shadows", by.shadows},
                                                   {"state_reserve", by.state_reserve},
                                                   {"images", by.images},
                                                   {"sessions", by.sessions},
                                                   {"histories", by.histories},
                                                   {"prompts", by.prompts},
                                                   {"queue", by.queue},
                                                   {"output", by.output},
                                                   {"predictions", by.predictions}};
  for (const auto& [kind, value] : kinds) {
    memory.Add({{"kind", kind}}, static_cast<double>(value));
  }
  Readings memory_limit("mnemon_memory_limit_bytes",
                        "What mnemon_memory_bytes may be in all.");
  const auto limit_of = [](int64_t limit, int64_t more) {
    return limit == ByteBudget::kUnlimited ? std::numeric_limits<double>::infinity()
                                           : static_cast<double>(more + limit);
  };
  memory_limit.Add({}, limit_of(by.limit, by.weights));
  Readings asleep("mnemon_sessions_asleep",
                  "Of mnemon_sessions on the disk, those of which only the name is in "
                  "memory.");
  asleep.Add({}, static_cast<double>(now.asleep));
  Readings shares("mnemon_memory_share_bytes",
                  "Bytes taken of the shares that sessions at rest have of the memory: "
                  "sessions, without their tokens; resting, sessions and histories.");
  Readings share_limits("mnemon_memory_share_limit_bytes",
                        "What mnemon_memory_share_bytes may be.");
  shares.Add({{"share", "sessions"}}, static_cast<double>(by.sessions));
  shares.Add({{"share", "resting"}}, static_cast<double>(by.sessions + by.histories));
  share_limits.Add({{"share", "sessions"}}, limit_of(by.sessions_limit, 0));
  share_limits.Add({{"share", "resting"}}, limit_of(by.resting_limit, 0));

  std::vector<prometheus::MetricFamily> families;
  for (Readings* readings :
       {&running,      &waiting,   &limit,        &stalled,        &ready,
        &unready,      &sessions,  &state_bytes,  &capacity_bytes, &usage,
        &preemptions,  &memory,    &memory_limit, &asleep,         &shares,
        &share_limits, &log_lines, &waiters,      &overdue,        &overdue_total}) {
    families.push_back(readings->Take());
  }
  return families;
}

}  // namespace mnemon
