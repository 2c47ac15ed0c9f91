// SPDX-License-Identifier: MIT
// A load test of a server with Generate calls, in a closed or an open loop, and its
// results.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"
#include "client/load/call_draw.h"
#include "client/load/call_times.h"
#include "client/load/goodput.h"
#include "client/load/load_figures.h"

namespace mnemon::client {

// One measured call as its caller saw it.
struct CallTrace {
  TimePoint begin = {};                  // when sent; in an open loop, when due
  TimePoint end = {};                    // end of its stream
  std::vector<TimePoint> arrivals = {};  // arrival of each token
  absl::Status status = absl::OkStatus();
};

struct LoadOptions {
  std::string model;
  DrawOptions draw;
  std::optional<int64_t> context_limit;  // limit of the model
  std::optional<double> temperature;
  // Closed loop: number of callers, each of which starts its next call when one ends;
  // or
  int concurrency = 0;
  // open loop: calls per second at random times, independent of earlier calls, except
  // for the limit below.
  double rate = 0;
  int max_in_flight = 1024;
  // Number of measured calls; without it, those begun within this many seconds.
  std::optional<int64_t> requests;
  double seconds = 10;
  int64_t warmup = 0;  // stateless calls before them, not measured
  // Calls continue this many sessions in turn; 0: they are stateless. REQUIRES: at
  // least `concurrency`. A session without room for another call is replaced by an
  // empty one.
  int sessions = 0;
  // Idle time of the sessions after the load, before each is called once; 0: none.
  double rest_seconds = 0;
  std::chrono::milliseconds deadline = std::chrono::minutes(10);  // of each call
  GoodputLimits limits;
  // The figures of an open loop are void if the p99 of LoadFigures::lateness is above
  // this.
  double max_lateness_seconds = 0.01;
  // Called with each measured call when it has ended, on its caller's thread; may be
  // null. Must not throw.
  std::function<void(CallTrace trace)> on_end = nullptr;
};

enum class LoadEnd { kDone, kStopped, kServerGone };

struct LoadResult {
  LoadFigures figures;
  // From the first measured call to the end of the last one.
  double seconds = 0;
  LoadEnd end = LoadEnd::kDone;
  absl::Status gone;     // the error that showed it, for kServerGone
  std::string void_why;  // not empty: the client was too slow and the figures are void
  // TTFT of the first calls on idle sessions, one call at a time.
  Distribution rested_ttft;
  // Error if sessions could not be deleted.
  absl::Status not_deleted;
};

// Used once.
class Load {
 public:
  // Makes a connection; called on any thread.
  using Connect = std::function<std::unique_ptr<Client>()>;

  Load(const LoadOptions& options, Connect connect);
  ~Load();
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

  // Blocks until the load has ended and its sessions are deleted. Latencies of an open
  // loop count from the time that a call was due. Stops at the first call that cannot
  // reach the server, or is refused because the server is going down. Returns an error
  // if there is nothing to measure: no connection, a warm-up call that failed and was
  // not refused, a session that could not be created, no thread.
  absl::StatusOr<LoadResult> Run();
  // Cancels the calls and ends the load with the figures so far. Any thread.
  void Stop();

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace mnemon::client
