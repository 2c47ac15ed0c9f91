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

// The arena that the models' steps work on; the only tier that there is.
constexpr char kTier[] = "device";

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
  std::map<std::string, double> bytes;  // by memory kind
  int64_t queued = 0, busy = 0, used = 0, capacity = 0;
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
    queued += model.sessions_queued;
    busy += model.sessions_running;
    used += model.state_bytes;
    capacity += model.state_capacity_bytes;
    bytes[model.architecture] += static_cast<double>(model.state_bytes);
  }
  // A session that was deleted under its running request is counted no more.
  const int64_t idle = std::max<int64_t>(0, now.sessions - queued - busy);
  Readings sessions(
      "mnemon_sessions",
      "Named sessions: idle, queued (their call waits to start) or running.");
  const std::pair<const char*, int64_t> states[] = {
      {"idle", idle}, {"queued", queued}, {"running", busy}};
  for (const auto& [state, count] : states) {
    sessions.Add({{"tier", kTier}, {"state", state}}, static_cast<double>(count));
  }
  Readings state_bytes("mnemon_session_state_bytes",
                       "Bytes of session state in memory.");
  for (const auto& [kind, value] : bytes) {
    state_bytes.Add({{"tier", kTier}, {"memory_kind", kind}}, value);
  }
  Readings capacity_bytes("mnemon_session_state_capacity_bytes",
                          "Bytes that session state may take at most.");
  capacity_bytes.Add({{"tier", kTier}}, static_cast<double>(capacity));
  Readings usage("mnemon_state_cache_usage_ratio",
                 "Used share of mnemon_session_state_capacity_bytes, 0 to 1.");
  usage.Add({}, capacity == 0 ? 0 : static_cast<double>(used) / capacity);
  Readings events("mnemon_session_events_total",
                  "Named sessions that were created (create), or removed because their "
                  "ttl had passed (expire).",
                  prometheus::MetricType::Counter);
  events.Add({{"event", "create"}}, static_cast<double>(now.sessions_created));
  events.Add({{"event", "expire"}}, static_cast<double>(now.sessions_expired));

  Readings log_lines("mnemon_log_lines_total",
                     "Log lines: written, or lost because standard error was not read "
                     "in time or failed.",
                     prometheus::MetricType::Counter);
  log_lines.Add({{"outcome", "written"}}, static_cast<double>(log.written));
  log_lines.Add({{"outcome", "lost"}}, static_cast<double>(log.lost));

  Readings memory("mnemon_memory_bytes", "Bytes of memory by what they are for.");
  const MemoryStats& by = now.memory;
  const std::pair<const char*, int64_t> kinds[] = {
      {"weights", by.weights},     {"state", by.state},
      {"shadows", by.shadows},     {"state_reserve", by.state_reserve},
      {"histories", by.histories}, {"queue", by.queue},
      {"output", by.output},       {"predictions", by.predictions}};
  for (const auto& [kind, value] : kinds) {
    memory.Add({{"kind", kind}}, static_cast<double>(value));
  }
  Readings memory_limit("mnemon_memory_limit_bytes",
                        "What mnemon_memory_bytes may be in all.");
  memory_limit.Add({}, by.limit == ByteBudget::kUnlimited
                           ? std::numeric_limits<double>::infinity()
                           : static_cast<double>(by.weights + by.limit));

  std::vector<prometheus::MetricFamily> families;
  for (Readings* readings :
       {&running, &waiting, &limit, &stalled, &ready, &unready, &sessions, &state_bytes,
        &capacity_bytes, &usage, &memory, &memory_limit, &events, &log_lines}) {
    families.push_back(readings->Take());
  }
  return families;
}

}  // namespace mnemon
