// SPDX-License-Identifier: MIT
// Many idle sessions, in memory with their states and in a store: their memory,
// compared with what the server announces at its start, and the times of calls and of a
// start with none, some and all of them.
#include <algorithm>
#include <cmath>
#include <regex>
#include <string>

#include "base/status_macros.h"
#include "base/strings.h"
#include "bench/serving/data_folder.h"
#include "bench/serving/process_use.h"
#include "bench/serving/scenarios/scenario.h"
#include "bench/serving/session_calls.h"
#include "bench/serving/traffic.h"

namespace mnemon::serving {
namespace {

struct ScaleShape {
  int64_t in_memory;  // sessions with their states
  int64_t some;       // sessions in the store at first, and
  int64_t stored;     // at last
  int64_t timed;      // calls of each kind
};

constexpr ScaleShape kScaleFull = {10'000, 10'000, 100'000, 400};
constexpr ScaleShape kScaleQuick = {1'000, 200, 2'000, 50};

constexpr int64_t kScalePromptTokens = 7;  // and one generated
constexpr int64_t kWarm = 300;  // sessions before the first look at the memory
constexpr int32_t kPage = 50;
constexpr char kStateBytes[] = "1610612736";  // 12,288 states of fast_weights XS
// A call may take this many times as long beside all sessions, plus this much.
constexpr double kFlat = 1.5;
constexpr double kFlatSeconds = 200e-6;

constexpr double kScaleStart = 0.45;  // seconds

double Milliseconds(double seconds) { return seconds * 1e3; }

// Bytes per idle session in memory as announced by the server, except for the tokens
// that ours do not have.
absl::StatusOr<double> PromisedBytes(const std::string& log) {
  const std::regex line(
      R"((\d+) sessions of (\d+) tokens fit at rest in memory, each with a state of )"
      R"((\d+) bytes and (\d+) bytes beside it)");
  std::smatch found;
  if (!std::regex_search(log, found, line)) {
    return absl::InternalError("the server does not say what fits in memory: " + log);
  }
  return std::stod(found[3]) + std::stod(found[4]) -
         4 * (std::stod(found[2]) - (kScalePromptTokens + 1));
}

// Seconds of calls of each kind beside `sessions` sessions.
struct Times {
  std::vector<double> create, first_page, last_page, by_prefix, by_field, newest,
      oldest;
};

class Population {
 public:
  Population(int port, const ScaleShape& shape) : shape_(shape), clients_(port, 4) {}

  // Creates sessions up to `end`.
  absl::Status Fill(int64_t end) {
    MNEMON_RETURN_IF_ERROR(MakeSessions(clients_, "m", made_, end, kScalePromptTokens));
    made_ = std::max(made_, end);
    return absl::OkStatus();
  }

  // Without sessions, creates as many as are timed first, since calls need some.
  absl::StatusOr<Times> Measure() {
    Times times;
    MNEMON_ASSIGN_OR_RETURN(
        times.create, Timed(shape_.timed, [&](int64_t number) {
          return at(number).CreateSession(StrCat("a", number), "m").status();
        }));
    for (int64_t number = 0; number < shape_.timed; ++number) {
      MNEMON_RETURN_IF_ERROR(at(number).DeleteSession(StrCat("a", number)));
    }
    MNEMON_RETURN_IF_ERROR(Fill(2 * shape_.timed));
    MNEMON_RETURN_IF_ERROR(MeasureLists(times));
    // Each session once, so that those of one measurement are no longer the oldest.
    for (int64_t i = 0; i < shape_.timed; ++i) {
      MNEMON_ASSIGN_OR_RETURN(const double newest,
                              Turn(at(i), IdOf(made_ - 1 - i), 1, 1, 1));
      times.newest.push_back(newest);
      MNEMON_ASSIGN_OR_RETURN(const double oldest,
                              Turn(at(i), IdOf(touched_++), 1, 1, 1));
      times.oldest.push_back(oldest);
    }
    return times;
  }

 private:
  client::Client& at(int64_t number) {
    return clients_.at(static_cast<size_t>(number));
  }

  absl::Status List(const client::ListSessionsOptions& request,
                    std::vector<double>& took) {
    MNEMON_ASSIGN_OR_RETURN(took, Timed(shape_.timed, [&](int64_t) {
                              return at(0).ListSessionPage(request).status();
                            }));
    return absl::OkStatus();
  }

  absl::Status MeasureLists(Times& times) {
    client::ListSessionsOptions request{.page_size = kPage};
    MNEMON_RETURN_IF_ERROR(List(request, times.first_page));
    client::ListSessionsOptions filtered = request;
    filtered.filter = StrCat("name = \"sessions/", IdOf(made_ - 1).substr(0, 7), "*\"");
    MNEMON_RETURN_IF_ERROR(List(filtered, times.by_prefix));
    filtered.filter = "token_count > 4 AND state = IDLE";
    MNEMON_RETURN_IF_ERROR(List(filtered, times.by_field));
    while (true) {
      MNEMON_ASSIGN_OR_RETURN(const auto page, at(0).ListSessionPage(request));
      if (page.next_page_token.empty()) break;
      request.page_token = page.next_page_token;
    }
    return List(request, times.last_page);
  }

  const ScaleShape& shape_;
  Clients clients_;
  int64_t made_ = 0;
  int64_t touched_ = 0;  // sessions used again, from the oldest on
};

struct Call {
  const char* name;
  std::vector<double> Times::*seconds;
  bool flat;  // whatever the number of sessions
};
constexpr Call kCalls[] = {
    {"CreateSession", &Times::create, true},
    {"ListSessions, first page", &Times::first_page, true},
    {"ListSessions, last page", &Times::last_page, true},
    {"ListSessions, names with a prefix", &Times::by_prefix, true},
    {"ListSessions, a filter that many meet", &Times::by_field, true},
    {"Generate, state in memory", &Times::newest, true},
    // With more sessions than states fit, it comes from the disk.
    {"Generate, longest at rest", &Times::oldest, false}};

void NoteTimes(const std::string& when, const Times& times, BarResults& results) {
  for (const Call& call : kCalls) {
    results.Note(StrCat(when, ": ", call.name, ", median"),
                 Milliseconds(Median(times.*call.seconds)), "ms");
    results.Note(StrCat(when, ": ", call.name, ", p99"),
                 Milliseconds(P99(times.*call.seconds)), "ms");
  }
}

void CompareTimes(const Times& few, const Times& all, BarResults& results) {
  for (const Call& call : kCalls) {
    if (!call.flat) continue;
    const double before = Median(few.*call.seconds);
    results.TimeAtMost(StrCat(call.name, ", median beside all sessions"),
                       Milliseconds(Median(all.*call.seconds)),
                       Milliseconds(kFlat * before + kFlatSeconds), "ms");
  }
}

absl::Status MeasureMemory(const ScenarioOptions& options, const std::string& model,
                           const ScaleShape& shape, BarResults& results) {
  MNEMON_ASSIGN_OR_RETURN(
      const auto server,
      StartServer(options, {"--checkpoint", "m=" + model, "--state-bytes", kStateBytes,
                            "--log-level", "debug"}));
  results.TimeAtMost("start of a server without a store", server->start_time().count(),
                     kScaleStart, "s");
  MNEMON_ASSIGN_OR_RETURN(const double promised, PromisedBytes(server->log()));
  Population sessions(server->port(), shape);
  MNEMON_RETURN_IF_ERROR(sessions.Fill(kWarm));
  const double before = UseOf(server->pid()).megabytes;
  MNEMON_RETURN_IF_ERROR(sessions.Fill(kWarm + shape.in_memory));
  const double grown = UseOf(server->pid()).megabytes - before;
  const double counted = promised * static_cast<double>(shape.in_memory) / 1e6;
  results.Note("in memory: sessions", static_cast<double>(shape.in_memory), "");
  results.Note("in memory: a session, as the server says", promised, "bytes");
  results.Note("in memory: a session, resident",
               grown * 1e6 / static_cast<double>(shape.in_memory), "bytes");
  results.AtMost("in memory: what the server says is off by",
                 100 * std::abs(counted / grown - 1), 5, "%");
  MNEMON_ASSIGN_OR_RETURN(const Times times, sessions.Measure());
  NoteTimes(StrCat(shape.in_memory, " in memory"), times, results);
  return absl::OkStatus();
}

absl::Status MeasureStore(const ScenarioOptions& options, const std::string& model,
                          const ScaleShape& shape, BarResults& results) {
  const DataFolder data(options.directory + "/data-scale");
  const std::vector<std::string> flags = {"--checkpoint", "m=" + model, "--state-bytes",
                                          kStateBytes,    "--data-dir", data.path()};
  MNEMON_ASSIGN_OR_RETURN(auto server, StartServer(options, flags));
  const double empty = UseOf(server->pid()).megabytes;
  results.Note("start of a server without sessions", server->start_time().count(), "s");
  Times none, some, all;
  {
    Population sessions(server->port(), shape);
    MNEMON_ASSIGN_OR_RETURN(none, sessions.Measure());
    NoteTimes("0 stored", none, results);
    MNEMON_RETURN_IF_ERROR(sessions.Fill(shape.some));
    MNEMON_ASSIGN_OR_RETURN(some, sessions.Measure());
    NoteTimes(StrCat(shape.some, " stored"), some, results);
    const TimePoint begin = SteadyClock::now();
    MNEMON_RETURN_IF_ERROR(sessions.Fill(shape.stored));
    results.Note("sessions made and used once, per second",
                 static_cast<double>(shape.stored - shape.some) /
                     Seconds(SteadyClock::now() - begin).count(),
                 "");
    MNEMON_ASSIGN_OR_RETURN(all, sessions.Measure());
    NoteTimes(StrCat(shape.stored, " stored"), all, results);
  }
  CompareTimes(none, all, results);
  results.Note("the store takes", static_cast<double>(data.bytes()) / 1e6, "MB");
  MNEMON_RETURN_IF_ERROR(EndServer(*server));
  server.reset();
  MNEMON_ASSIGN_OR_RETURN(server, StartServer(options, flags));
  results.TimeAtMost("start with all sessions", server->start_time().count(), 2, "s");
  const double resident = UseOf(server->pid()).megabytes;
  results.Note("start with all sessions: resident", resident, "MB");
  results.Note("start with all sessions: resident, for each session",
               (resident - empty) * 1e6 / static_cast<double>(shape.stored), "bytes");
  MNEMON_ASSIGN_OR_RETURN(const MetricsPage page, server->Metrics());
  results.Exactly("sessions that the start found", page.Sum("mnemon_sessions"),
                  static_cast<double>(shape.stored), "");
  server->Kill();
  server.reset();
  MNEMON_ASSIGN_OR_RETURN(server, StartServer(options, flags));
  results.TimeAtMost("start with all sessions, after a kill",
                     server->start_time().count(), 2, "s");
  return absl::OkStatus();
}

}  // namespace

absl::Status RunScale(const ScenarioOptions& options, BarResults& results) {
  const ScaleShape& shape = options.quick ? kScaleQuick : kScaleFull;
  MNEMON_ASSIGN_OR_RETURN(const std::string model,
                          Checkpoint(options, "fast_weights", "XS"));
  MNEMON_RETURN_IF_ERROR(MeasureMemory(options, model, shape, results));
  return MeasureStore(options, model, shape, results);
}

}  // namespace mnemon::serving
