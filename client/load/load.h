// SPDX-License-Identifier: MIT
// A load of Generate calls on a server, in a closed or an open loop, and its figures.
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
  TimePoint begin = {};                  // when it was sent; of an open loop, when due
  TimePoint end = {};                    // of its stream
  std::vector<TimePoint> arrivals = {};  // of each token
  absl::Status status = absl::OkStatus();
};

struct LoadOptions {
  std::string model;
  DrawOptions draw;
  std::optional<int64_t> context_limit;  // of the model
  std::optional<double> temperature;
  // Closed loop: so many callers, each of which starts its next call when one ends; or
  int concurrency = 0;
  // open loop: calls per second at random times, whatever becomes of those before, but
  // for the bound below.
  double rate = 0;
  int max_in_flight = 1024;
  // The measured calls; without a number, those begun within so many seconds.
  std::optional<int64_t> requests;
  double seconds = 10;
  int64_t warmup = 0;  // stateless calls before them, of which nothing is measured
  // The calls continue so many sessions in turn; 0: they are stateless. REQUIRES: not
  // below `concurrency`. A session that has no room for another call is replaced by an
  // empty one.
  int sessions = 0;
  // How long the sessions rest after the load before each is called once; 0: no rest.
  double rest_seconds = 0;
  std::chrono::milliseconds deadline = std::chrono::minutes(10);  // of each call
  GoodputLimits limits;
  // The figures of an open loop are void when the p99 of LoadFigures::lateness is
  // above it.
  double max_lateness_seconds = 0.01;
  // Gets each measured call when it has ended, on its caller's thread; null: nobody
  // does. Does not throw.
  std::function<void(CallTrace trace)> on_end = nullptr;
};

enum class LoadEnd { kDone, kStopped, kServerGone };

struct LoadResult {
  LoadFigures figures;
  // From the first measured call to the end of the last one.
  double seconds = 0;
  LoadEnd end = LoadEnd::kDone;
  absl::Status gone;     // the error that told, for kServerGone
  std::string void_why;  // not empty: the client did not keep up, the figures are void
  // TTFT of the first calls on sessions that have rested, one call after the other.
  Distribution rested_ttft;
  // Sessions that could not be deleted.
  absl::Status not_deleted;
};

// Used once.
class Load {
 public:
  // Makes a connection; any thread.
  using Connect = std::function<std::unique_ptr<Client>()>;

  Load(const LoadOptions& options, Connect connect);
  ~Load();
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

  // Blocks until the load has ended and its sessions are deleted. Latencies of an open
  // loop count from the time that a call was due. Stops at the first call that cannot
  // reach the server, or that it refuses because it is going down. An error when there
  // is nothing to measure: no connection, a warm-up call that failed and was not
  // refused, a session that could not be created, no thread.
  absl::StatusOr<LoadResult> Run();
  // Cancels the calls and ends the load with the figures so far; from any thread.
  void Stop();

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace mnemon::client
