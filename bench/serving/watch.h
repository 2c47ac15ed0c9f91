// SPDX-License-Identifier: MIT
// A look at a server again and again, from a thread of its own: what it has of the
// machine, whether its probes answer, and whether a new client reaches it.
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
  // Of the looks:
  int not_alive = 0;         // /healthz was not 200
  int not_ready = 0;         // /readyz was 503
  int ready_unanswered = 0;  // /readyz was neither
  int not_reached = 0;  // a health check on a new connection did not answer in time
  double slowest = 0;   // of those that did, seconds
  // A new client was not reached and /readyz said 200 all the same, twice in a row.
  int wrongly_ready = 0;
};

// Whether grpc.health.v1 answers on a new connection within `seconds`.
bool Reached(int port, double seconds);

class Watch {
 public:
  // Begins at once. `server` outlives it. A new client is reached when it has an answer
  // within two seconds, a probe answers when it does within five; each so many times as
  // long as `results` is wide, or as patient.
  Watch(const TestServer& server, const BarResults& results);
  ~Watch();
  // Ends it.
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
  Watched watched_;    // of the thread until it has ended
  int in_a_row_ = 0;   // of the thread
  std::thread thread_;
};

}  // namespace mnemon::serving
