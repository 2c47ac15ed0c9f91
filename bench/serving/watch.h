// SPDX-License-Identifier: MIT
// Repeated checks of a server from a separate thread: its resources, its probes, and
// whether a new client reaches it.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "bench/serving/bar_results.h"
#include "bench/serving/process_use.h"
#include "bench/serving/test_server.h"

namespace mnemon::serving {

struct Watched {
  double peak_megabytes = 0;
  int looks = 0;
  // Counts of checks:
  int not_alive = 0;         // /healthz was not 200
  int not_ready = 0;         // /readyz was 503
  int ready_unanswered = 0;  // /readyz was neither
  int not_reached = 0;  // a health check on a new connection did not answer in time
  double slowest = 0;   // slowest answer in time, seconds
  // Twice in a row, a new client was not reached although /readyz said 200.
  int wrongly_ready = 0;
};

// Whether grpc.health.v1 answers on a new connection within `seconds`.
bool Reached(int port, double seconds);

class Watch {
 public:
  // Starts at once. `server` must outlive it. A new client is reached if it has an
  // answer within two seconds, a probe answers if it does within five; both multiplied
  // by the slack or the patience of `results`.
  Watch(const TestServer& server, const BarResults& results);
  ~Watch();
  // Stops it.
  Watched Stop();

 private:
  void Run();
  void Probe();
  bool Pause();

  const TestServer& server_;
  const double reach_;  // seconds
  const int probe_;     // seconds
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stop_ = false;  // guarded by mutex_
  Watched watched_;    // used by the thread until it has ended
  int in_a_row_ = 0;   // used by the thread
  std::thread thread_;
};

}  // namespace mnemon::serving
