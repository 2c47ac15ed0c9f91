// SPDX-License-Identifier: MIT
#include "server/http/readings.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

namespace mnemon {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;
using SeriesLabels = std::vector<prometheus::ClientMetric::Label>;

template <class Number>
void Add(MetricFamily& family, SeriesLabels labels, Number value) {
  prometheus::ClientMetric& metric = family.metric.emplace_back();
  metric.label = std::move(labels);
  (family.type == MetricType::Gauge ? metric.gauge.value : metric.counter.value) =
      static_cast<double>(value);
}

// The families of a page, in the order in which they are added.
class ReadingsPage {
 public:
  // Valid until Take.
  MetricFamily& Gauges(const char* name, const char* help) {
    return families_.emplace_back(
        MetricFamily{.name = name, .help = help, .type = MetricType::Gauge});
  }
  MetricFamily& Counters(const char* name, const char* help) {
    return families_.emplace_back(
        MetricFamily{.name = name, .help = help, .type = MetricType::Counter});
  }
  // Families of one series without labels.
  template <class Number>
  void Gauge(const char* name, const char* help, Number value) {
    Add(Gauges(name, help), {}, value);
  }
  template <class Number>
  void Counter(const char* name, const char* help, Number value) {
    Add(Counters(name, help), {}, value);
  }

  std::vector<MetricFamily> Take() {
    return {std::move_iterator(families_.begin()), std::move_iterator(families_.end())};
  }

 private:
  std::deque<MetricFamily> families_;
};

// Where sessions are; see SessionTier.
enum Tier { kDevice, kHost, kDisk, kTiers };
constexpr const char* kTierNames[] = {"device", "host", "disk"};

struct Sessions {
  int64_t idle = 0, queued = 0, running = 0;
};

// Adds the sessions of a model. The counts are not of one moment: a session that was
// deleted during its request is no longer counted.
void CountSessions(const ModelStats& model, Sessions (&tiers)[kTiers]) {
  const int64_t queued = model.sessions_queued, running = model.sessions_running;
  const int64_t idle = std::max<int64_t>(0, model.sessions - queued - running);
  // Sessions that do not run and whose states are in a device's memory.
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

void AddModels(const EngineStats& now, std::string_view process, ReadingsPage& page) {
  MetricFamily& running = page.Gauges(
      "mnemon_requests_running",
      "Calls of Generate, Score and Predict that run, or wait only for state memory.");
  MetricFamily& waiting = page.Gauges(
      "mnemon_requests_waiting", "Calls of Generate, Score and Predict in the queue.");
  MetricFamily& limit =
      page.Gauges("mnemon_queue_limit", "Calls that the queue holds at most.");
  MetricFamily& stalled = page.Gauges(
      "mnemon_requests_stalled",
      "Calls that wait for their callers: running ones that pause because their caller "
      "does not read, or does not send what is to be scored, and calls on sessions the "
      "last of whose tokens is not read.");
  MetricFamily& ready = page.Gauges(
      "mnemon_model_ready",
      "1 while the model takes new calls and gets on with them; 0 while it does not, "
      "see mnemon_model_unready.");
  MetricFamily& unready =
      page.Gauges("mnemon_model_unready",
                  "1 while the model is not ready for this reason, else 0.");
  std::map<std::string, int64_t> bytes[kTiers];  // by memory kind
  Sessions by_tier[kTiers];
  int64_t capacity[kTiers] = {}, used = 0, preempted = 0;
  for (const ModelStats& model : now.models) {
    const SeriesLabels labels = {{"model", model.model}};
    Add(running, labels, model.running);
    Add(waiting, labels, model.waiting);
    Add(limit, labels, model.max_waiting);
    Add(stalled, labels, model.stalled);
    Add(ready, labels, model.ready && process.empty());
    for (const std::string_view reason : kUnreadyReasons) {
      Add(unready, {{"model", model.model}, {"reason", std::string(reason)}},
          reason == model.unready);
    }
    Add(unready, {{"model", model.model}, {"reason", "process"}}, !process.empty());
    CountSessions(model, by_tier);
    used += model.state_bytes;
    preempted += model.preemptions;
    capacity[model.state_on_host ? kHost : kDevice] += model.state_capacity_bytes;
    const int64_t there =
        model.state_on_host ? model.running_state_bytes : model.state_bytes;
    bytes[kDevice][model.architecture] += there;
    bytes[kHost][model.architecture] += model.state_bytes - there;
  }
  MetricFamily& sessions = page.Gauges(
      "mnemon_sessions",
      "Named sessions: idle, queued (their call waits to start) or running. Tier "
      "device: they run, or their state lies in a GPU's memory; disk: their histories "
      "lie in the store alone; host: the others.");
  for (int tier = 0; tier < kTiers; ++tier) {
    const char* const name = kTierNames[tier];
    Add(sessions, {{"tier", name}, {"state", "idle"}}, by_tier[tier].idle);
    Add(sessions, {{"tier", name}, {"state", "queued"}}, by_tier[tier].queued);
    Add(sessions, {{"tier", name}, {"state", "running"}}, by_tier[tier].running);
  }
  MetricFamily& state_bytes =
      page.Gauges("mnemon_session_state_bytes",
                  "Bytes of session state in memory, by the tier of the session.");
  MetricFamily& capacity_bytes = page.Gauges(
      "mnemon_session_state_capacity_bytes",
      "Bytes that session state may take at most in the memory of a GPU (device) and "
      "of the host, that of running sessions included.");
  for (const Tier tier : {kDevice, kHost}) {
    const char* const name = kTierNames[tier];
    for (const auto& [kind, value] : bytes[tier]) {
      Add(state_bytes, {{"tier", name}, {"memory_kind", kind}}, value);
    }
    Add(capacity_bytes, {{"tier", name}}, capacity[tier]);
  }
  const auto most = static_cast<double>(capacity[kDevice] + capacity[kHost]);
  page.Gauge("mnemon_state_cache_usage_ratio",
             "Used share of mnemon_session_state_capacity_bytes, 0 to 1.",
             most == 0 ? 0 : static_cast<double>(used) / most);
  page.Counter("mnemon_preemptions_total",
               "Running calls whose states made room for others; they wait until their "
               "histories can be computed again.",
               preempted);
}

void AddMemory(const EngineStats& now, ReadingsPage& page) {
  MetricFamily& memory =
      page.Gauges("mnemon_memory_bytes", "Bytes of memory by what they are for.");
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
  for (const auto& [kind, value] : kinds) Add(memory, {{"kind", kind}}, value);
  const auto limit_of = [](int64_t limit, int64_t more) {
    return limit == ByteBudget::kUnlimited ? std::numeric_limits<double>::infinity()
                                           : static_cast<double>(more + limit);
  };
  page.Gauge("mnemon_memory_limit_bytes", "What mnemon_memory_bytes may be in all.",
             limit_of(by.limit, by.weights));
  page.Gauge("mnemon_sessions_asleep",
             "Of mnemon_sessions on the disk, those of which only the name is in "
             "memory.",
             now.asleep);
  MetricFamily& shares =
      page.Gauges("mnemon_memory_share_bytes",
                  "Bytes taken of the shares that sessions at rest have of the memory: "
                  "sessions, without their tokens; resting, sessions and histories.");
  MetricFamily& share_limits = page.Gauges("mnemon_memory_share_limit_bytes",
                                           "What mnemon_memory_share_bytes may be.");
  Add(shares, {{"share", "sessions"}}, by.sessions);
  Add(shares, {{"share", "resting"}}, by.sessions + by.histories);
  Add(share_limits, {{"share", "sessions"}}, limit_of(by.sessions_limit, 0));
  Add(share_limits, {{"share", "resting"}}, limit_of(by.resting_limit, 0));
}

void AddWaiters(const WaiterStats& now, ReadingsPage& page) {
  MetricFamily& waiters =
      page.Gauges("mnemon_waiters",
                  "What waits in the engine for an answer that comes later, by kind.");
  MetricFamily& overdue =
      page.Gauges("mnemon_waiters_overdue",
                  "Of what waits, that which got none within its bound, was told so, "
                  "and is still not answered.");
  MetricFamily& overdue_total =
      page.Counters("mnemon_waiters_overdue_total",
                    "What got no answer within its bound, and was told so.");
  for (size_t kind = 0; kind < kWaiterKindCount; ++kind) {
    const WaiterStats::Kind& count = now.kinds[kind];
    const SeriesLabels labels = {{"kind", std::string(kWaiterKinds[kind])}};
    Add(waiters, labels, count.waiting + count.overdue);
    Add(overdue, labels, count.overdue);
    Add(overdue_total, labels, count.overdue_total);
  }
}

// The first 24 fields of proc(5)'s stat by their numbers, those from 4 on. Empty if
// they cannot be read.
enum StatField {
  kUserTicks = 14,
  kSystemTicks = 15,
  kThreads = 20,
  kStartTicks = 22,
  kVirtualBytes = 23,
  kResidentPages = 24
};
std::vector<double> ReadStat(const std::string& path) {
  std::ifstream in(path);
  std::string text(std::istreambuf_iterator<char>(in), {});
  // Field 2 is the name in parentheses, which may hold anything.
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return {};
  std::istringstream fields(text.substr(name_end + 1));
  std::string state;
  fields >> state;
  std::vector<double> stat(kResidentPages + 1);
  for (size_t i = 4; i < stat.size(); ++i) {
    if (!(fields >> stat[i])) return {};
  }
  return stat;
}

// In seconds since 1970.
std::optional<double> ReadBootTime(const std::string& path) {
  std::ifstream in(path);
  double value = 0;
  for (std::string word; in >> word;) {
    if (word == "btime" && in >> value) return value;
  }
  return std::nullopt;
}

std::optional<int64_t> CountFiles(const std::string& directory) {
  std::error_code error;
  int64_t count = 0;
  std::filesystem::directory_iterator at(directory, error), end;
  for (; !error && at != end; at.increment(error)) ++count;
  if (error) return std::nullopt;
  return count;
}

}  // namespace

std::vector<MetricFamily> ReadingsOf(const EngineStats& now, const LogCounts& log,
                                     std::string_view process) {
  ReadingsPage page;
  AddModels(now, process, page);
  AddMemory(now, page);
  MetricFamily& log_lines =
      page.Counters("mnemon_log_lines_total",
                    "Log lines: written, or lost because standard error was not read "
                    "in time or failed.");
  Add(log_lines, {{"outcome", "written"}}, log.written);
  Add(log_lines, {{"outcome", "lost"}}, log.lost);
  AddWaiters(now.waiters, page);
  return page.Take();
}

std::vector<MetricFamily> ReadingsOf(const PersistenceStats& now) {
  ReadingsPage page;
  page.Gauge("mnemon_store_healthy",
             "1 while the store of sessions takes what is to be durable, else 0.",
             now.healthy);
  page.Gauge("mnemon_store_copies",
             "Copies of the store that are whole: 2, but 1 while the other one is made "
             "whole, and 0 while neither takes commits.",
             now.store.whole_copies);
  page.Gauge("mnemon_store_lost_commits",
             "Commits that were synced and that neither copy had at the start.",
             now.store.lost_commits);
  const JournalStats& journal = now.journal;
  page.Counter("mnemon_journal_commits_total",
               "Commits of journals of sessions to the store.", journal.commits);
  page.Counter("mnemon_journal_syncs_total",
               "Of the commits, those that waited for the disk.", journal.syncs);
  page.Counter("mnemon_journal_entries_total",
               "Changes of histories that were written to journals.", journal.entries);
  page.Counter("mnemon_journal_tokens_total", "Tokens that were written to journals.",
               journal.tokens);
  page.Counter("mnemon_journal_bytes_total",
               "Bytes of commits: journals, records and histories of checkpoints, in "
               "one copy, before compression.",
               journal.bytes);
  page.Counter("mnemon_journal_failures_total", "Commits that the store did not take.",
               journal.failures);
  page.Counter("mnemon_journal_commit_seconds_total", "Time that commits took.",
               std::chrono::duration<double>(journal.commit_time).count());
  page.Counter("mnemon_store_unreadable_total",
               "Places of the store that neither copy could read.",
               now.store.unreadable);
  page.Counter("mnemon_store_rebuilds_total",
               "Copies of the store that were made whole, filled or made anew.",
               now.store.rebuilds);
  page.Counter("mnemon_snapshots_total",
               "Snapshots of sessions that were made for the store, without "
               "checkpoints.",
               now.snapshots);
  page.Counter("mnemon_snapshot_bytes_total", "Bytes of these snapshots.",
               now.snapshot_bytes);
  page.Counter("mnemon_snapshot_failures_total", "Snapshots that could not be made.",
               now.snapshot_failures);
  page.Counter("mnemon_snapshots_damaged_total",
               "Snapshots and checkpoints in the store that were found damaged.",
               now.damaged_snapshots);
  page.Counter("mnemon_histories_unloaded_total",
               "Histories that left memory for the store, since memory was short.",
               now.unloaded);
  return page.Take();
}

std::vector<MetricFamily> ReadingsOf(const ConnectionCounts& now) {
  ReadingsPage page;
  Add(page.Gauges("mnemon_connections", "Connections to the gRPC port."),
      {{"state", "open"}}, now.open);
  page.Gauge("mnemon_connection_limit",
             "Connections to the gRPC port that may be open at once.", now.limit);
  page.Gauge("mnemon_accept_paused",
             "1 while connections to the gRPC port are refused because the process "
             "has no descriptor left.",
             now.paused);
  page.Gauge("mnemon_transport_bytes_in_flight",
             "Bytes received of calls that have not ended.", now.in_flight_bytes);
  page.Gauge("mnemon_transport_bytes_in_flight_limit",
             "Bytes received of calls that have not ended, at most: with more, the "
             "connection that holds most is shut down.",
             now.in_flight_limit);
  page.Counter("mnemon_connections_accepted_total",
               "Connections to the gRPC port that were accepted.", now.accepted);
  MetricFamily& refused =
      page.Counters("mnemon_connections_refused_total",
                    "Connections to the gRPC port that were refused.");
  for (int i = 0; i < kRefusalReasons; ++i) {
    Add(refused, {{"reason", Name(static_cast<RefusalReason>(i))}}, now.refused[i]);
  }
  MetricFamily& shut_down = page.Counters(
      "mnemon_connections_shut_down_total",
      "Connections that were shut down because of what their peer sent, because they "
      "were idle when another one needed their place, or because the server ends.");
  for (int i = 0; i < kShutDownReasons; ++i) {
    Add(shut_down, {{"reason", Name(static_cast<ShutDownReason>(i))}},
        now.shut_down[i]);
  }
  page.Counter("mnemon_streams_reset_early_total",
               "Streams that their peer reset before their call began.",
               now.early_resets);
  return page.Take();
}

std::vector<MetricFamily> ProcessReadings(const std::string& proc) {
  ReadingsPage page;
  const std::vector<double> stat = ReadStat(proc + "/self/stat");
  if (!stat.empty()) {
    const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
    page.Counter("process_cpu_seconds_total",
                 "Processor time of the process, of user and system.",
                 (stat[kUserTicks] + stat[kSystemTicks]) / ticks);
    page.Gauge("process_resident_memory_bytes", "Bytes of the process in memory.",
               stat[kResidentPages] * static_cast<double>(sysconf(_SC_PAGESIZE)));
    page.Gauge("process_virtual_memory_bytes", "Bytes of the process's address space.",
               stat[kVirtualBytes]);
    page.Gauge("process_threads", "Threads of the process.", stat[kThreads]);
    if (const auto boot = ReadBootTime(proc + "/stat")) {
      page.Gauge("process_start_time_seconds",
                 "Start of the process, in seconds since 1970.",
                 *boot + stat[kStartTicks] / ticks);
    }
  }
  if (const auto open = CountFiles(proc + "/self/fd")) {
    page.Gauge("process_open_fds", "Open file descriptors.", *open);
  }
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    page.Gauge("process_max_fds", "File descriptors that may be open.", limit.rlim_cur);
  }
  return page.Take();
}

}  // namespace mnemon
